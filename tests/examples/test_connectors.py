"""Runs the example connectors, each with something real."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from examples.connectors import app
from groupsdk.connect import ConnectWorker
from tests.connect.workers import eventually


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[ConnectWorker]:
    made = app.start_standalone(tmp_path / "store.json")
    eventually(lambda: made.is_leader)
    yield made
    assert made.stop(60)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_files_are_followed_over_restarts(worker: ConnectWorker, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    log.write_text("one\ntwo\nhal")
    config = {"connector.class": "FileTail", "files": str(log), "into": str(out)}
    worker.admin.put_connector("logs", config).result(60)
    eventually(lambda: [each["line"] for each in lines(out)] == ["one", "two"])
    assert worker.stop(60)
    with log.open("a") as file:
        file.write("f\nthree\n")
    again = app.start_standalone(tmp_path / "store.json")
    eventually(lambda: [each["line"] for each in lines(out)] == ["one", "two", "half", "three"])
    tokens = [each["token"] for each in lines(out)]
    assert tokens[0] == tokens[1] < tokens[2]
    assert again.stop(60)


def test_a_directory_is_watched_by_several_tasks(worker: ConnectWorker, tmp_path: Path) -> None:
    watched, out = tmp_path / "watched", tmp_path / "out"
    watched.mkdir()
    config = {"connector.class": "DirectoryWatcher", "directory": str(watched), "into": str(out)}
    worker.admin.put_connector("inbox", {**config, "tasks": "2"}).result(60)
    for number in range(8):
        (watched / f"file-{number}").write_text("x")

    def events() -> list[tuple[str, str]]:
        return sorted((each["file"], each["event"]) for each in lines(out))

    eventually(lambda: events() == [(f"file-{n}", "new") for n in range(8)], events)
    assert {each["task"] for each in lines(out)} == {"part-0", "part-1"}
    (watched / "file-0").unlink()
    eventually(lambda: ("file-0", "gone") in events())


class Page(BaseHTTPRequestHandler):
    """Serves a text with its ETag."""

    text = "first"
    unchanged = 0

    def do_GET(self) -> None:  # http.server's name
        tag = f'"{self.text}"'
        if self.headers["If-None-Match"] == tag:
            Page.unchanged += 1
            self.send_response(304)
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("ETag", tag)
        self.end_headers()
        self.wfile.write(self.text.encode())

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def test_a_url_is_polled_and_changes_are_told(worker: ConnectWorker, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/"
        config = {"connector.class": "HttpPoller", "urls": url, "into": str(out), "every": "0.05"}
        worker.admin.put_connector("page", config).result(60)
        eventually(lambda: len(lines(out)) == 1)
        eventually(lambda: Page.unchanged > 2)
        Page.text = "second"
        eventually(lambda: len(lines(out)) == 2)
        assert worker.stop(60)
        server.shutdown()
        thread.join()
