"""What stands out in tables, and who is told."""

import json
from collections.abc import Sequence
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
from groupsdk.history.follow.alerting import (
    Alert,
    Alerting,
    Finding,
    Rules,
    Sink,
    command_sink,
    find,
    line_sink,
    webhook_sink,
)
from groupsdk.history.pipeline import Options
from groupsdk.history.report.tables import ParquetTables
from groupsdk.history.slo import Objective
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

    alerting = Alerting(fs.LocalFileSystem(), str(tmp_path / "alerts.json"), [Sink("far", sink)])
    slow = Finding("lag", "slow", "10 behind")
    assert alerting.look([slow], 1) == []
    assert "nobody there" in caplog.text
    broken.clear()
    alerting.look([slow], 2)
    assert lines == ["10 behind"]


def test_a_sink_that_fails_keeps_nothing_from_the_others(tmp_path: Path) -> None:
    told: dict[str, list[tuple[str, str]]] = {"well": [], "ill": []}
    ill = [True]

    def alerting() -> Alerting:
        def deliver(alert: Alert) -> None:
            if ill:
                raise OSError("ill")
            told["ill"].append((alert.state, alert.rule))

        sinks = [
            Sink("ill", deliver),
            Sink("well", lambda each: told["well"].append((each.state, each.rule))),
        ]
        return Alerting(fs.LocalFileSystem(), str(tmp_path / "alerts.json"), sinks)

    lag, storm = Finding("lag", "g", "10 behind"), Finding("storm", "g", "stormy")
    first = alerting()
    first.look([lag, storm], 1)
    first.look([lag, storm], 2)
    assert (first.undelivered, told) == (
        2,
        {"well": [("begun", "lag"), ("begun", "storm")], "ill": []},
    )
    # what is over before the sink could hear of it is not told there, by a later process either
    again = alerting()
    again.look([lag], 3)
    assert told["well"][2:] == [("over", "storm")]
    ill.clear()
    delivered = again.look([lag], 4)
    assert [each.rule for each in delivered] == ["lag"]
    assert (again.undelivered, told["ill"]) == (0, [("begun", "lag")])
    assert alerting().look([lag], 5) == []


def test_a_webhook_gets_json() -> None:
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            code = (204, 500, 302, 0)[len(got) - 1]
            if not code:
                self.wfile.write(b"no HTTP\r\n\r\n")
                return
            self.send_response(code)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def do_GET(self) -> None:
            got.append("a redirection was followed")

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            sink = webhook_sink(f"http://127.0.0.1:{server.server_port}/hook")
            sink.deliver(ALERT)
            with pytest.raises(OSError, match="500"):
                sink.deliver(ALERT)
            with pytest.raises(OSError, match="302"):
                sink.deliver(ALERT)
            with pytest.raises(OSError, match="BadStatusLine"):
                sink.deliver(ALERT)
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
    command_sink(f"tee '{tmp_path}/a file'").deliver(ALERT)
    assert json.loads((tmp_path / "a file").read_text(encoding="utf-8"))["group_id"] == "g"


def test_what_a_command_prints_is_not_among_the_alerts(capfd: pytest.CaptureFixture[str]) -> None:
    command_sink("cat").deliver(ALERT)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["group_id"] == "g"


def test_url_that_cannot_take_alerts_is_refused() -> None:
    with pytest.raises(ConfigError, match="https:// URL, not 'file:///etc'"):
        webhook_sink("file:///etc")
    for wrong in ("http://", "http://h:99999/", "https://a host/"):
        with pytest.raises(ConfigError, match="webhook"):
            webhook_sink(wrong)
    with pytest.raises(ConfigError, match="there is no program '/no/such'"):
        command_sink("/no/such thing")
    with pytest.raises(ConfigError, match="must name a program"):
        command_sink(" ")
    with pytest.raises(ConfigError, match="cannot be read"):
        command_sink("'open")


class CountedTables:
    """Counts the rows that are read."""

    def __init__(self, tables: ParquetTables) -> None:
        self.rows = 0
        self._tables = tables

    def read(self, name: str, columns: Sequence[str], groups: Sequence[str] | None = None) -> Any:
        found = self._tables.read(name, columns, groups)
        self.rows += found.num_rows
        return found

    def count(self, name: str) -> int:
        raise AssertionError(name)


def test_a_look_reads_no_more_rows_of_an_old_log(tmp_path: Path) -> None:
    rules = Rules(rebalances=3, lag=1, standing_ms=60_000)
    rows = []
    for generations in (10, 500):
        root = tmp_path / str(generations)
        with LogWriter(root / "log", 0) as log:
            for number in range(generations):
                now = START_MS + 60_000 * number
                seats = {f"m{number}": Seat("c", {"t": [0, 1]})}
                log.append(now, generation("g", number + 1, seats, ts_ms=now))
                log.append(now + 1_000, *(commit("g", "t", n, number, now) for n in range(2)))
        local.run(segment_tasks(str(root / "log")), str(root / "out"), Options(assignors=()))
        counted = CountedTables(ParquetTables(str(root / "out")))
        found = find(counted, rules, START_MS + 60_000 * generations + 120_000)
        assert ("standing", "g") in {each.key for each in found}
        rows.append(counted.rows)
    # a group, and two partitions
    assert rows == [3, 3]


def test_standstill_and_budgets_that_burn_are_told_in_partition_seconds(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", 0) as log:
        log.append(START_MS, generation("g", 1, {"m": Seat("c", {"t": [0, 1]})}))
        for second in range(0, 3_600, 5):
            now = START_MS + 1_000 * second
            if second < 3_000:
                log.append(now, *(commit("g", "t", n, second, now) for n in range(2)))
            log.append(now, commit("h", "t", 2, second, now))
    options = Options(assignors=(), slos=(Objective("g", 99.0),))
    local.run(segment_tasks(str(tmp_path / "log")), str(tmp_path / "out"), options)
    made = ParquetTables(str(tmp_path / "out"))
    now = START_MS + 3_595_000
    found = {each.key: each.text for each in find(made, Rules(standing_ms=60_000), now)}
    assert found["standing", "g"] == (
        "group g: 2 partitions stand still, for up to 600 s: 1,200.0 partition-seconds without progress"
    )
    assert "15.8 times as fast as it may in the last hour" in found["slo_page", "g"]
    assert "84.145 % of partition-seconds were read within 30 s" in found["slo_page", "g"]
    assert {group for _, group in found} == {"g"}
