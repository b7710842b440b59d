"""Brokers' logs, read while they are written."""

import gzip
import logging
import re
from pathlib import Path

import pytest

from groupsdk.errors import ConfigError
from groupsdk.history.explain.explaining import BrokerLogEntries
from groupsdk.history.sources.broker_log_lines import BrokerLogTail, read_log_files
from tests.history.sample import DATA
from tests.support.cases import each_case


def line(old: int) -> str:
    """Make a line in which the coordinator gives the reason for a generation."""
    return (
        f"[2026-07-01 12:00:{old:02},007] [GroupCoordinator id=1] Preparing to rebalance group g in state"
        f" Stable with old generation {old} (reason: Adding new member m with group instance id null).\n"
    )


def generations(told: list[BrokerLogEntries]) -> list[int]:
    """List the generations that entries are about."""
    return [reason.generation for each in told for reason in each.reasons]


def append(path: Path, text: str) -> None:
    """Write to a log as a broker does."""
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write(text)


def test_each_call_returns_what_was_written_since_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    append(path, line(1) + line(2))
    tail = BrokerLogTail(str(tmp_path))
    assert generations(tail.read()) == [2, 3]
    assert tail.read() == []
    append(path, line(3) + line(4)[:60])
    assert generations(tail.read()) == [4]
    append(path, line(4)[60:])
    assert generations(tail.read()) == [5]


def test_a_rotated_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    append(path, line(1) + line(2))
    tail = BrokerLogTail(f"{tmp_path}/server.log*")
    assert generations(tail.read()) == [2, 3]
    append(path, line(3))
    path.rename(tmp_path / "server.log.2026-07-01-12")
    append(path, line(4))
    assert generations(tail.read()) == [5, 4]
    with gzip.open(tmp_path / "server.log.1.gz", "wt", encoding="utf-8") as file:
        file.write(line(1) + line(9))
    assert tail.read() == []
    # begun again, as logrotate's copytruncate does it
    path.write_text(line(5), encoding="utf-8")
    assert generations(tail.read()) == [6]


def test_a_file_in_the_place_of_a_longer_one_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    append(path, line(1) + line(2))
    tail = BrokerLogTail(str(path))
    assert generations(tail.read()) == [2, 3]
    with path.open("r+", encoding="utf-8") as file:
        file.write(line(5) + line(6) + line(7))
    assert generations(tail.read()) == [6, 7, 8]


@each_case("path", sorted(DATA.rglob("coordinator-log.txt.gz")))
def test_a_log_in_pieces_tells_what_it_tells_as_a_whole(path: Path, tmp_path: Path) -> None:
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    grown = tmp_path / f"{path.parent.name}.log"
    grown.touch()
    tail = BrokerLogTail(str(grown))
    told = []
    # the lines of one request are written together
    for begin in range(0, len(lines), 500):
        append(grown, "".join(lines[begin : begin + 500]))
        told += tail.read()
    whole = read_log_files(str(path))
    assert sorted(map(repr, told)) == sorted(map(repr, whole))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("INFO started\nINFO ready\n", "none of the 2 lines .* begins with a time"),
        ("[2026-07-01 12:00:00,007] INFO started\n", "none of the 1 lines .* INFO"),
    ],
)
def test_a_log_in_which_nothing_is_recognised_is_said_once(
    text: str, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "server.log"
    path.write_text(text, encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert read_log_files(str(path)) == []
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        caplog.clear()
        tail = BrokerLogTail(str(path))
        assert tail.read() == []
        assert tail.read() == []
    assert [each.getMessage() for each in caplog.records] == [record.getMessage()]
    assert str(path) in record.getMessage()
    assert re.search(message, record.getMessage())


def test_missing_broker_log_is_refused_by_the_tail(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no broker log"):
        BrokerLogTail(f"{tmp_path}/nothing*")
    (tmp_path / "server.log").touch()
    with pytest.raises(ConfigError, match="no time zone"):
        BrokerLogTail(str(tmp_path), zone="Mars/North")
