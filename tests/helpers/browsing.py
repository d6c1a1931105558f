"""Headless Chromium over its debugging protocol: what a reader's browser does with our pages."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

PATIENCE = 300  # seconds: axe-core takes a minute for a long page on a busy machine
BINARIES = ("chromium", "chromium-browser", "chrome")


class Page:
    """One tab: what it asked for, what it complained about, and what it looks like."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket, self.count = socket, 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.count += 1
        wanted = self.count
        self.socket.send(json.dumps({"id": wanted, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=PATIENCE))
            if message.get("id") == wanted:
                assert "error" not in message, message
                return message["result"]
            self.note(message)

    def note(self, message: dict[str, Any]) -> None:
        about = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(about["exceptionDetails"])[:500])
        elif message.get("method") == "Runtime.consoleAPICalled" and about["type"] == "error":
            self.complaints.append(json.dumps(about["args"])[:500])
        elif message.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.complaints.append(json.dumps(about["entry"])[:500])

    def size(self, width: int, height: int = 900, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[theme])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, awaited."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str, seconds: float = PATIENCE) -> None:
        """Wait for an expression to become true."""
        ends = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < ends, f"still not so after {seconds} s: {script}"
            time.sleep(0.1)

    def picture(self, path: Path) -> Path:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def overflow(self) -> int:
        """How many pixels the page is wider than the window."""
        return self.run("document.documentElement.scrollWidth - window.innerWidth")

    def serious(self) -> list[str]:
        """What axe-core finds to be serious or critical, and where."""
        self.run((files("axe_core_python") / "axe.min.js").read_text("utf-8") + ";0")
        each = "v => [v.impact, v.id + ' ' + v.nodes[0].target.join(' ')]"
        found = self.run(f"axe.run().then(r => JSON.stringify(r.violations.map({each})))")
        return [said for impact, said in json.loads(found) if impact in ("serious", "critical")]

    def broken_images(self) -> int:
        script = "[...document.images].filter(i => !i.complete || i.naturalWidth === 0).length"
        return self.run(script)


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """A tab of a browser of its own, as long as the block lasts."""
    binary = next(filter(None, map(shutil.which, BINARIES)))
    options = ["--headless=new", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run"]
    options += ["--no-sandbox"] if os.geteuid() == 0 else []
    process = subprocess.Popen(
        [binary, *options, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port = _port(profile / "DevToolsActivePort")
        with connect(_tab(port), max_size=None, open_timeout=PATIENCE) as socket:
            yield Page(socket)
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    if not any(map(shutil.which, BINARIES)):
        pytest.fail(f"These tests need one of {', '.join(BINARIES)}: install chromium.")
    with chromium(tmp_path / "profile") as opened:
        yield opened


def _port(path: Path) -> int:
    ends = time.monotonic() + PATIENCE
    while not path.exists() or not path.read_text().strip():
        assert time.monotonic() < ends, "Chromium did not start"
        time.sleep(0.1)
    return int(path.read_text().splitlines()[0])


def _tab(port: int) -> str:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=PATIENCE) as answer:
        tabs = json.load(answer)
    return next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
