"""The live view follows a growing folder and gives away nothing beside its pictures."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import uvicorn
from fastapi.testclient import TestClient

from fedpriv.errors import BadFolder, BadOption
from fedpriv.runfolder import RunFolder
from fedpriv.simulations.watch import listening, watch_app

PNG = b"\x89PNG made up"


@pytest.fixture
def folder(tmp_path: Path, tiny) -> RunFolder:
    made = RunFolder(tmp_path / "runs" / "one")
    made.start(tiny)
    (tmp_path / "secret.png").write_bytes(b"outside")
    (tmp_path / "runs" / "secret.png").write_bytes(b"outside")
    return made


def add_round(folder: RunFolder, number: int) -> None:
    failed = [{"client": 2, "why": "no answer"}]
    figures = {"round": number, "accuracy": 0.5, "loss": 1.0, "asked": 4, "clients": 3}
    folder.add_round(figures | {"failed": failed, "bytes-up": 1, "bytes-down": 1, "seconds": 0.1})


def add_picture(folder: RunFolder, name: str = "1-0.png", attack: str = "adam+cosine") -> None:
    place = folder.attacks / attack / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(PNG)


def client(path: Path) -> TestClient:
    return TestClient(watch_app(path), base_url="http://127.0.0.1:8765")


def test_the_page_follows_the_folder(folder):
    view = client(folder.path)
    assert "fedpriv watch" in view.get("/").text
    assert view.get("/state").json()["runs"][0]["rounds"] == []
    add_round(folder, 1)
    add_picture(folder)
    folder.scores_file.write_text("run,round,node,attack,psnr\none,1,3,dlg,31.5\n")
    run = view.get("/state").json()["runs"][0]
    assert [record["round"] for record in run["rounds"]] == [1]
    assert run["clients"][2] == {"client": "2", "failed": 1, "worst": None}
    assert run["clients"][3]["worst"] == 31.5
    assert run["pictures"] == ["one/adam+cosine/1-0.png"]
    assert view.get("/picture/" + quote(run["pictures"][0])).content == PNG


def test_a_folder_of_variants_is_followed(folder):
    add_picture(folder)
    runs = client(folder.path.parent).get("/state").json()["runs"]
    assert [run["name"] for run in runs] == ["one"]


def test_only_what_changed_is_sent(folder):
    view = client(folder.path)
    add_round(folder, 1)
    add_picture(folder)
    first = view.get("/state").json()["runs"][0]
    assert first["before"] == 0 and len(first["rounds"]) == 1 and first["pictures"]
    after = {"after": f"{first['name']}:1:{first['mark']}"}
    same = view.get("/state", params=after).json()["runs"][0]
    assert same == {"name": "one", "mark": first["mark"], "before": 1, "rounds": []}
    add_picture(folder, "1-1.png")
    more = view.get("/state", params=after).json()["runs"][0]
    assert more["rounds"] == [] and len(more["pictures"]) == 2 and more["mark"] != first["mark"]
    add_round(folder, 2)  # with a failed client, whom the table of clients counts
    last = view.get("/state", params=after).json()["runs"][0]
    assert [one["round"] for one in last["rounds"]] == [2] and "clients" in last
    for odd in ("one", "one:x:y", "one:99:", ":::", "one:-1:z"):
        assert view.get("/state", params={"after": odd}).json()["runs"][0]["before"] == 0


ESCAPES = [
    "../secret.png",
    "../../secret.png",
    "%2e%2e/secret.png",
    "%2e%2e%2fsecret.png",
    "one/../../secret.png",
    "one/%2e%2e/%2e%2e/secret.png",
    "one/..%5c..%5csecret.png",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "one/adam+cosine/../../scenario.toml",
    "one/truth/1-0.npz",
    "one/linked/1-0.png",
    "one/adam+cosine/1-0.png%00.txt",
    "",
]


@pytest.fixture
def served(folder: RunFolder) -> Iterator[int]:
    """The port of a real server: clients of tests tidy paths up before they send them."""
    add_picture(folder)
    linked = folder.attacks / "linked"
    linked.symlink_to(folder.path.parent, target_is_directory=True)
    with listening("127.0.0.1", 0) as socket:
        server = uvicorn.Server(uvicorn.Config(watch_app(folder.path), log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield socket.getsockname()[1]
        server.should_exit = True
        thread.join(60)


def asked(port: int, path: str, host: str = "127.0.0.1", method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_no_path_leads_out(served):
    assert asked(served, "/picture/one/adam+cosine/1-0.png") == (200, PNG)
    for path in ESCAPES:
        status, body = asked(served, "/picture/" + path)
        assert status == 404 and b"outside" not in body, path
    for path in ("/truth/1-0.npz", "/scenario.toml", "/../secret.png", "//etc/passwd", "/docs"):
        assert asked(served, path)[0] == 404, path


def test_it_is_read_only_and_deaf_to_other_names(served):
    assert asked(served, "/state", method="POST")[0] == 405
    assert asked(served, "/state", method="DELETE")[0] == 405
    assert asked(served, "/state", host="attacker.example")[0] == 403
    assert json.loads(asked(served, "/state", host="localhost")[1])["folder"] == "one"


def test_what_cannot_be_followed_is_said(tmp_path):
    with pytest.raises(BadFolder, match="nowhere"):
        watch_app(tmp_path / "nowhere")
    with listening("127.0.0.1", 0) as taken, pytest.raises(BadOption, match="another --port"):
        listening("127.0.0.1", taken.getsockname()[1])
