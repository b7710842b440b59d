"""What stands out in tables, and who is told."""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyarrow import fs
from typing_extensions import override

from examples.history_log import LogWriter, Seat, commit, deletion, generation
from groupsdk.errors import ConfigError
from groupsdk.history import local
from groupsdk.history.following.alerting import (
    Alert,
    Alerting,
    Finding,
    Rules,
    command_sink,
    find,
    line_sink,
    webhook_sink,
)
from groupsdk.history.pipeline import Options
from groupsdk.history.report.tables import ParquetTables
from groupsdk.history.sources.segment_files import segment_tasks


ALERT = Alert("begun", "lag", "g", "group g is 7 records behind in t-0", 5)
START_MS = 1_790_899_200_000


def tables(root: Path) -> ParquetTables:
    """Make the tables of a group in a storm, one without members, and one that is behind."""
    with LogWriter(root / "log", 0) as log:
        now = START_MS
        for number in range(40):
            now += 5_000
            seat = {f"m{number}": Seat("flapping", {"t": [0]})}
            log.append(now, generation("stormy", number + 1, seat, ts_ms=now))
        log.append(START_MS, generation("left", 1, {"a": Seat("c", {"t": [0, 1]})}))
        log.append(START_MS, *(commit("left", "t", n, 100, START_MS) for n in range(2)))
        log.append(now, generation("left", 2, {}, ts_ms=now))
        log.append(START_MS, generation("slow", 1, {"b": Seat("c", {"t": [0]})}))
        log.append(now, commit("slow", "t", 0, 10, now))
        log.append(START_MS, generation("gone", 1, {"b": Seat("c", {"t": [0]})}), deletion("gone"))
    local.run(segment_tasks(str(root / "log")), str(root / "out"), Options(assignors=("range",)))
    return ParquetTables(str(root / "out"))


def test_storms_groups_without_members_rebalances_and_lag_are_found(tmp_path: Path) -> None:
    made = tables(tmp_path)
    now_ms = START_MS + 210_000
    rules = Rules(rebalances=30, rebalances_window_ms=200_000, lag=50)
    found = {each.key: each.text for each in find(made, rules, now_ms)}
    assert found.keys() == {
        ("storm", "stormy"),
        ("rebalances", "stormy"),
        ("no_owner", "left"),
        ("lag", "slow"),
    }
    assert "flapping" in found["storm", "stormy"]
    assert found["no_owner", "left"].endswith("it has committed offsets for 2 partitions")
    assert found["lag", "slow"] == "group slow is 90 records behind in t-0"
    # what is over, and what nobody asked for
    later = {each.key for each in find(made, Rules(), now_ms + 3_600_000)}
    assert later == {("no_owner", "left")}


def test_each_finding_is_told_as_it_begins_and_as_it_ends(tmp_path: Path) -> None:
    lines: list[str] = []
    path = str(tmp_path / "alerts.json")

    def alerting() -> Alerting:
        return Alerting(fs.LocalFileSystem(), path, [line_sink(lines.append)])

    slow = Finding("lag", "slow", "10 behind")
    alerting().look([slow], 1)
    # with other numbers, by a process that started again
    again = alerting()
    assert again.look([Finding("lag", "slow", "20 behind")], 2) == []
    again.look([], 3)
    assert alerting().look([], 4) == []
    told = [(each["state"], each["text"], each["ts_ms"]) for each in map(json.loads, lines)]
    assert told == [("begun", "10 behind", 1), ("over", "10 behind", 3)]


def test_an_alert_that_is_not_delivered_comes_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []
    broken = [True]

    def sink(alert: Alert, /) -> None:
        if broken:
            raise OSError("nobody there")
        lines.append(alert.text)

    alerting = Alerting(fs.LocalFileSystem(), str(tmp_path / "alerts.json"), [sink])
    slow = Finding("lag", "slow", "10 behind")
    assert alerting.look([slow], 1) == []
    assert "nobody there" in caplog.text
    broken.clear()
    alerting.look([slow], 2)
    assert lines == ["10 behind"]


def test_a_webhook_gets_json() -> None:
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204 if len(got) == 1 else 500)
            self.end_headers()

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            sink = webhook_sink(f"http://127.0.0.1:{server.server_port}/hook")
            sink(ALERT)
            with pytest.raises(OSError, match="500"):
                sink(ALERT)
        finally:
            server.shutdown()
            thread.join()
    assert got[0] == {
        "state": "begun",
        "rule": "lag",
        "group_id": "g",
        "text": "group g is 7 records behind in t-0",
        "ts_ms": 5,
    }


def test_a_command_gets_json_on_its_input(tmp_path: Path) -> None:
    command_sink(f"tee '{tmp_path}/a file'")(ALERT)
    assert json.loads((tmp_path / "a file").read_text(encoding="utf-8"))["group_id"] == "g"


def test_what_cannot_take_alerts_is_said() -> None:
    with pytest.raises(ConfigError, match="https:// URL, not 'file:///etc'"):
        webhook_sink("file:///etc")
    with pytest.raises(ConfigError, match="must name a program"):
        command_sink(" ")
    with pytest.raises(ConfigError, match="cannot be read"):
        command_sink("'open")
