"""Brokers' logs, read while they are written."""

import gzip
import logging
import re
from pathlib import Path

import pytest

from groupsdk.errors import ConfigError
from groupsdk.history.explain.causes import LoggedReason
from groupsdk.history.explain.departures import LoggedDeparture
from groupsdk.history.explain.explaining import LogEntry
from groupsdk.history.sources.broker_log_lines import (
    BrokerLogTail,
    LineParser,
    read_log_files,
    time_zone,
)
from tests.history.sample import DATA
from tests.support.cases import each_case


def line(old: int) -> str:
    """Make a line in which the coordinator gives the reason for a generation."""
    return (
        f"[2026-07-01 12:00:{old:02},007] [GroupCoordinator id=1] Preparing to rebalance group g in state"
        f" Stable with old generation {old} (reason: Adding new member m with group instance id null).\n"
    )


LINE = (
    "[2026-11-21 00:29:04,719] [group-coordinator-event-processor-1] [GroupCoordinator id=1"
    " topic=__consumer_offsets partition=1] Preparing to rebalance group {group} in state"
    " PreparingRebalance with old generation {old} (reason: {reason})."
)
OLD_LINE = (
    "[2023-05-01 10:00:00,001] INFO [GroupCoordinator 1001]: Preparing to rebalance group {group} in state"
    " PreparingRebalance with old generation {old} (__consumer_offsets-37) (reason: {reason})"
    " (kafka.coordinator.group.GroupCoordinator)"
)


def parsed(*lines: str) -> list[LogEntry]:
    """Read the entries in lines."""
    parser = LineParser(time_zone("UTC"))
    for each in lines:
        parser.take(each)
    return parser.entries()


def reasons(*lines: str) -> list[LoggedReason]:
    """Read the reasons in lines."""
    return [each for each in parsed(*lines) if isinstance(each, LoggedReason)]


def generations(told: list[LogEntry]) -> list[int]:
    """List the generations that entries are about."""
    return [each.generation for each in told if isinstance(each, LoggedReason)]


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


@pytest.mark.parametrize("line", [LINE, OLD_LINE])
def test_old_and_new_brokers_say_it_alike(line: str) -> None:
    reason = (
        "Adding new member a-1 with group instance id null; client reason: rebalance (of (mine))"
    )
    found = reasons(
        line.format(group="my group", old=41, reason=reason),
        line.format(group="g", old=1, reason="the moon"),
        "[2026-11-21 00:29:04,719] Stabilized group g generation 3 with 1 members.",
        "",
    )
    rows = {row.group_id: row for row in found}
    assert set(rows) == {"my group", "g"}
    assert (rows["my group"].generation, rows["my group"].reason) == (42, reason)
    assert rows["my group"].cause == "join"
    assert "client_restart" in rows["my group"].compatible
    assert (rows["g"].cause, rows["g"].compatible) == (None, [])


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("removing member m on heartbeat expiration.", "expiry"),
        ("explicit `LeaveGroup` request for (m) members.", "leave"),
        ("Leader m re-joining group during Stable; client reason: not provided", "rejoin"),
        ("Updating metadata for member m during Stable; client reason: x", "rejoin"),
        (
            "Updating metadata for member m during Stable; client reason: subscription has changed",
            "subscription_change",
        ),
        (
            "Leader m re-joining group during Stable; client reason: cached metadata has changed",
            "topic_growth",
        ),
        (
            "Leader m re-joining group during Stable; client reason: need to revoke partitions and re-join",
            "cooperative_followup",
        ),
        ("Removing m on pending sync request expiration", "expiry"),
        (
            "Updating metadata for static member m with instance id i; client reason: x",
            "static_replaced",
        ),
        ("Adding new member m with group instance id Some(i)", "join"),
    ],
)
def test_a_reason_names_a_cause(reason: str, cause: str) -> None:
    (row,) = reasons(LINE.format(group="g", old=1, reason=reason))
    assert row.cause == cause
    assert cause in row.compatible


MODERN = (
    "[2026-11-21 00:29:{at}] [group-coordinator-event-processor-1] [GroupCoordinator id=1"
    " topic=__consumer_offsets partition=1] [GroupId {group}] {said}."
)
EPOCHS = (
    ("00,001", "Member a joins the consumer group using the consumer protocol"),
    ("00,001", "Bumped group epoch to 2 with metadata hash 7"),
    ("00,002", "Computed a new target assignment for epoch 2 with 'uniform' assignor in 4ms"),
    (
        "01,000",
        "Static member b with instance id i joins the consumer group using the consumer protocol",
    ),
    ("01,000", "Bumped group epoch to 3 with metadata hash 7"),
    ("02,000", "Bumped group epoch to 4 with metadata hash 8"),
    ("03,000", "Member a fenced from the group because the member session expired"),
    ("03,001", "Bumped group epoch to 5 with metadata hash 8"),
    ("04,000", "Static member b with instance id i left the consumer group"),
    ("04,000", "Bumped group epoch to 6 with metadata hash 0"),
    ("05,000", "Member late joins the consumer group using the consumer protocol"),
)


def test_an_epoch_has_the_reason_that_stands_before_it() -> None:
    lines = [MODERN.format(at=at, group="g", said=said) for at, said in EPOCHS]
    # another group between them, and none of what it says
    lines.insert(3, MODERN.format(at="00,500", group="h", said=EPOCHS[0][1]))
    found = {row.generation: row for row in reasons(*lines)}
    assert {number: row.cause for number, row in found.items()} == {
        2: "join",
        3: "join",
        5: "expiry",
        6: "leave",
    }
    assert {row.group_id for row in found.values()} == {"g"}
    assert found[5].reason == "Member a fenced from the group because the member session expired."


USUAL = (
    "[2026-11-21 00:29:{at}] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=1] {said}"
    " (org.apache.kafka.coordinator.group.GroupMetadataManager)"
)
"""Kafka's own layout, which names the class and not the thread."""
REQUESTS = (
    # a group that migrates: its classic members join again for what they get, which makes no epoch
    ("00,000", "[GroupId g] Member a joins the consumer group using the classic protocol"),
    ("00,001", "[GroupId g] Bumped group epoch to 2 with metadata hash 7"),
    ("00,500", "[GroupId g] Member a joins the consumer group using the classic protocol"),
    (
        "00,700",
        "[GroupId g] Dynamic member a has left group through explicit `LeaveGroup` request; client reason: bye",
    ),
    ("00,701", "[GroupId g] Bumped group epoch to 3 with metadata hash 7"),
    ("01,000", "[GroupId g] Member a joins the consumer group using the classic protocol"),
    # of several lines of a request the one that says most
    ("01,000", "[GroupId g] Computed new metadata hash: 8"),
    ("01,000", "[GroupId g] Bumped group epoch to 4 with metadata hash 8"),
    (
        "02,000",
        (
            "[GroupId g] Static member with instance id i re-joins the consumer group using the consumer protocol."
            " Created a new member c to replace the existing member b"
        ),
    ),
    ("09,000", "[GroupId g] Computed new metadata hash: 9"),
    ("09,000", "[GroupId g] Bumped group epoch to 5 with metadata hash 9"),
    # so long after it, what was said was of another request
    ("20,000", "[GroupId g] Member c updated its subscribed topics to: [t]"),
    ("30,000", "[GroupId g] Bumped group epoch to 6 with metadata hash 9"),
    ("40,000", "[GroupId s][MemberId m] Member joins the streams group"),
    (
        "40,000",
        "[GroupId s][MemberId m] Bumped streams group epoch to 2 with metadata hash 7 and validated topic epoch 1",
    ),
    (
        "50,000",
        "[GroupId s] Streams member m fenced from the group because the member session expired",
    ),
    (
        "50,001",
        "[GroupId s][MemberId m] Bumped streams group epoch to 3 with metadata hash 7 and validated topic epoch 1",
    ),
)


def test_only_what_was_said_of_the_request_that_made_an_epoch_is_its_reason() -> None:
    lines = [USUAL.format(at=at, said=f"{said}.") for at, said in REQUESTS]
    found = {(row.group_id, row.generation): row for row in reasons(*lines)}
    assert {key: row.cause for key, row in found.items()} == {
        ("g", 2): "join",
        ("g", 3): "leave",
        ("g", 4): "join",
        ("g", 5): "topic_growth",
        ("s", 2): "join",
        ("s", 3): "expiry",
    }
    assert found["g", 3].reason.endswith("client reason: bye.")


ENDS = [
    *(MODERN.format(at=at, group="g", said=said) for at, said in EPOCHS),
    *(USUAL.format(at=at, said=f"{said}.") for at, said in REQUESTS),
    "[2026-11-21 00:29:06,000] [p] Member c in group h has failed, removing it from the group.",
    "[2026-11-21 00:29:07,000] [p] [Group h] Member d has left group through explicit `LeaveGroup` request",
    USUAL.format(at="08,000", said="Group h removed dynamic members who haven't joined: [e, f]"),
    USUAL.format(
        at="09,000", said="Group h removed members who haven't sent their sync requests: [d]"
    ),
]


def test_why_members_are_gone_is_read() -> None:
    found = [each for each in parsed(*ENDS) if isinstance(each, LoggedDeparture)]
    assert sorted(
        (each.group_id, each.member_id, each.reason, f"{each.ts_ms // 1000 % 60:02}")
        for each in found
    ) == [
        ("g", "a", "expiry", "03"),
        # one that comes back under its id ends again
        ("g", "a", "leave", "00"),
        ("g", "b", "leave", "04"),
        ("h", "c", "expiry", "06"),
        ("h", "d", "expiry", "09"),
        ("h", "d", "leave", "07"),
        ("h", "e", "expiry", "08"),
        ("h", "f", "expiry", "08"),
        ("s", "m", "expiry", "50"),
    ]
