"""Apps of Flower's hub, fetched by Flower's own command from a hub in this process."""

import http.server
import io
import json
import threading
import zipfile

import pytest

from fedpriv.errors import BadInput
from fedpriv.simulations.apps.fetching import fetched, hub_name

PROJECT = """
[project]
name = "theirs"
[tool.flwr.app]
publisher = "them"
[tool.flwr.app.components]
serverapp = "theirs.server:app"
clientapp = "theirs.client:app"
"""


class Hub(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["app_id"] != "@them/theirs":
            self.answer(404, b"{}")
            return
        address = f"http://localhost:{self.server.server_port}/theirs.zip"
        self.answer(200, json.dumps({"zip_url": address}).encode())

    def do_GET(self):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            file.writestr("theirs/pyproject.toml", PROJECT)
        self.answer(200, packed.getvalue())

    def answer(self, code, body):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.fixture
def hub(monkeypatch):
    server = http.server.ThreadingHTTPServer(("localhost", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("FLWR_SUPERGRID_API_URL", f"http://localhost:{server.server_port}/v1")
    yield
    server.shutdown()
    server.server_close()


def test_an_app_of_the_hub_lies_in_the_folder_with_its_own_files(hub, tmp_path):
    place = fetched("@them/theirs", tmp_path / "app")
    assert (place / "pyproject.toml").read_text("utf-8") == PROJECT
    (place / "pyproject.toml").write_text("kept", "utf-8")
    assert fetched("@them/theirs", tmp_path / "app") == place  # what is there is not fetched again
    assert (place / "pyproject.toml").read_text("utf-8") == "kept"


def test_an_app_that_the_hub_does_not_have_is_one_sentence_with_the_way_out(hub, tmp_path):
    with pytest.raises(BadInput, match="not found.*clone its repository.*--app FOLDER"):
        fetched("@them/other", tmp_path)


def test_only_names_of_the_hub_are_fetched():
    assert hub_name("my-app") is None and hub_name("@them/theirs==1.2.0") == "theirs"
    with pytest.raises(BadInput, match="write @publisher/name"):
        hub_name("@them/../../x")
