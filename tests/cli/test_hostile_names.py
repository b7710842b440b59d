"""Holds that no name from a cluster steers the terminal of who looks, whatever kind of name and command.

Everything that people read of a cluster is made up here with each string hostile: it ends markup that was never begun,
makes a link, sets the title of the window, clears the screen in 7 and 8 bits, turns the direction of writing, and begins
a line that looks like another.
"""

import asyncio
import json
import logging
import sys
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import click
import pytest
from rich.console import Console

from groupsdk.admin import groups as admin, offset_reset
from groupsdk.admin.coordinator_log import OFFSETS_TOPIC, EntryKind, LogEntry, entry_of
from groupsdk.admin.descriptions import (
    Assignment,
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupType,
    Member,
    PartitionLag,
    Subscription,
)
from groupsdk.admin.diagnosis import Finding, Level
from groupsdk.admin.watching import Cause, ClusterView, Rebalance, WatchedGroup
from groupsdk.assignment import TopicPartition
from groupsdk.cli import watch as watching
from groupsdk.cli.connection import Connection
from groupsdk.cli.log import LogView
from groupsdk.cli.main import main
from groupsdk.cli.process import set_up_logging
from groupsdk.connect.store.status_backing_store import for_log
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, ConfigError, NetworkError
from groupsdk.history.report.page import render
from groupsdk.http.access import JsonAnswer
from groupsdk.telemetry.json_log import JsonFormatter
from groupsdk.wire.coordinator_records import offsets_log
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.records.record import Record
from tests.cli.conftest import Ran, Run, commands
from tests.history.report.small import small_report


EVIL: Final = (
    "[/x][link=https://evil.example]y[/link]\x1b]0;t\x07\x1b[2J\x9b2J\x85\x7f\u202e\u2066"
    "\u2028\r\ngroupsdk: all is well<script>alert(1)</script>\U000e0041"
)
MARKUP: Final = "[/x][link=https://evil.example]y[/link]\\x1b]0;t\\x07"
"""How it begins where it is shown: every bracket is there, and no control character."""
STEERING: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")


def evil(kind: str) -> str:
    """A hostile name that says of what it is."""
    return f"{kind}:{EVIL}"


GROUP = evil("group")
PART = TopicPartition(evil("topic"), 0)
MEMBER = Member(
    member_id=evil("member"),
    client_id=evil("client"),
    host=evil("host"),
    instance_id=evil("instance"),
    rack=evil("rack"),
    epoch=3,
    subscription=Subscription((PART.topic,), evil("regex"), (PART,), evil("url"), evil("other")),
    assignment=Assignment((PART,)),
    target=Assignment((), (evil("connector"),), (evil("task"),), (evil("revoked"),), evil("url")),
)
OTHER = replace(
    MEMBER,
    member_id=evil("other-member"),
    assignment=Assignment(other={EVIL: ["half: \ud800", evil("value")]}),
)
DESCRIBED = GroupDescription(
    *(GROUP, GroupType.CLASSIC, evil("state"), evil("type"), evil("assignor"), 1, (MEMBER, OTHER))
)
LAG = PartitionLag(PART.topic, 0, 1, 3, MEMBER.member_id, MEMBER.client_id, MEMBER.host)
REBALANCE = Rebalance(
    group_id=GROUP,
    began_ms=0,
    ended_ms=5,
    causes=(
        Cause(kind="joined", member_id=evil("m"), client_id=evil("client"), host=evil("host")),
        Cause(kind="epoch", detail=evil("cause")),
    ),
    phases=((evil("state"), 0),),
)
VIEW = ClusterView(
    5_000,
    (WatchedGroup(DESCRIBED, 0, (LAG,)),),
    (REBALANCE, replace(REBALANCE, ended_ms=None)),
    evil("error"),
)
ENTRY = LogEntry(
    partition=0,
    offset=1,
    timestamp_ms=2,
    kind=EntryKind.GROUP,
    record=evil("record"),
    group=GROUP,
    key={"group": GROUP},
    value={EVIL: evil("value")},
    text=evil("text"),
    problem=evil("problem"),
)


class Cluster:
    """Stands for a client of a cluster in which every string is hostile."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    async def list_groups(self, *_: Any) -> list[GroupListing]:
        return [GroupListing(GROUP, GroupType.CLASSIC, evil("state"), evil("type"), 1)]

    async def describe(self, *_: Any) -> list[GroupDescription]:
        return [DESCRIBED]

    async def describe_one(self, *_: Any) -> GroupDescription:
        return DESCRIBED

    async def describe_empty(self, *_: Any) -> GroupDescription:
        return replace(DESCRIBED, members=(), state="Empty")

    async def lag(self, *_: Any) -> list[PartitionLag]:
        return [LAG]

    async def committed(self, *_: Any) -> dict[TopicPartition, CommittedOffset]:
        return {PART: CommittedOffset(1, 2, evil("metadata"))}

    async def refuse(self, *_: Any) -> None:
        raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, evil("message"))

    async def remove(self, _: Any, __: str, members: Any, *___: Any) -> dict[str, int]:
        return {each.member_id: index for index, each in enumerate(members)}

    async def list_offsets(self, partitions: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 1)

    async def metadata(self, topics: Any) -> Any:
        found = SimpleNamespace(error_code=0, partitions={0: SimpleNamespace(replicas=[1])})
        broker = SimpleNamespace(rack=evil("rack"))
        return SimpleNamespace(topics=dict.fromkeys(topics, found), brokers={1: broker})

    async def views(self, *_: Any, **__: Any) -> AsyncIterator[ClusterView]:
        yield VIEW

    async def findings(self, *_: Any, **__: Any) -> AsyncIterator[Finding]:
        yield Finding(Level.ERROR, "reach", evil("finding"), evil("remedy"))

    async def entries(self, *_: Any, **__: Any) -> AsyncIterator[LogEntry]:
        yield ENTRY

    def run(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        if self.error is not None:
            raise self.error
        return asyncio.run(work(self))  # type: ignore[arg-type]  # a coroutine


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The hostile cluster, for every command."""
    made = Cluster()
    for name, function in (
        ("list_groups", made.list_groups),
        ("describe_groups_of", made.describe),
        ("describe_group", made.describe_one),
        ("group_lag", made.lag),
        ("committed_offsets", made.committed),
        ("delete_group", made.refuse),
        ("remove_members", made.remove),
    ):
        monkeypatch.setattr(admin, name, function)
    # which has been imported by now: a first import in here would keep the name of the cluster for good
    monkeypatch.setattr(offset_reset, "committed_offsets", made.committed)
    monkeypatch.setattr("groupsdk.cli.doctor.diagnose", made.findings)
    monkeypatch.setattr("groupsdk.cli.log.read_live", made.entries)
    monkeypatch.setattr(watching, "watch_cluster", made.views)
    monkeypatch.setattr(Connection, "run", lambda _, work, **__: made.run(work))
    return made


def check(text: str) -> None:
    """Asserts that output does nothing to a terminal but show its lines."""
    steering = {each for each in text if unicodedata.category(each) in STEERING}
    assert steering <= {"\n"}, text
    assert not any(line.startswith("groupsdk: all is well") for line in text.splitlines()), text


SERVERS = ("--bootstrap-servers", "localhost:1")
COMMANDS: Final[dict[str, list[tuple[str, ...]]]] = {
    "groups list": [()],
    "groups describe": [("--all",), (GROUP,)],
    "groups members": [(GROUP,)],
    "groups offsets": [(GROUP,)],
    "groups lag": [(GROUP,), (GROUP, "--total")],
    "groups reset": [(GROUP, "--all-topics", "--to-latest")],
    "groups remove": [(GROUP, "--all"), (GROUP, "--member", evil("nobody"))],
    "groups delete": [(GROUP,)],
    "watch": [("--count", "1"), ("--members", "--count", "1"), ("--rebalances", "--count", "1")],
    "log": [()],
    "doctor": [()],
    "assign": [("--group", GROUP, "--plan", "--explain", "all")],
}
"""The commands that print names of a cluster to standard output, each with arguments that make it print all."""
ELSEWHERE = {
    "completion": "prints nothing of a cluster",
    "broker": "writes log lines alone",
    "run": "writes log lines alone",
    "worker": "writes log lines alone",
    "history run": "writes progress, an error or the report",
    "history report": "writes progress, an error or the report",
    "history archive": "writes progress, an error or the report",
    "history follow": "writes progress, an error or the report",
    "history alert": "writes progress, an error, the report or JSON",
    "history fleet": "writes progress, an error, metrics or the report",
    "history maintain": "writes progress or an error",
    "history slo": "writes a table through rich, JSON or metrics",
}


def test_every_command_is_held() -> None:
    assert {*COMMANDS, *ELSEWHERE} == {" ".join(words) for words in commands()}


@pytest.mark.parametrize("name", COMMANDS)
def test_names_do_not_steer_the_terminal(cluster: Cluster, run: Run, name: str) -> None:
    for arguments in COMMANDS[name]:
        words = (*name.split(), *arguments, *SERVERS)
        shown = run(*words, code=None)
        check(shown.out + shown.err)
        assert MARKUP in shown.out + shown.err, "the brackets are shown, and make no markup"
        assert "Traceback" not in shown.err
        written = run(*words, "--json", code=None)
        check(written.out + written.err)
        assert not written.out or [json.loads(each) for each in documents(written)]


def documents(ran: Ran) -> list[str]:
    """The JSON documents that a command wrote: one, or one on each line."""
    return [ran.out] if ran.out.startswith(("[\n", "{\n")) else ran.out.splitlines()


@pytest.mark.parametrize(
    "error",
    [
        BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, evil("message")),
        NetworkError(evil("reason")),
        ConfigError(evil("setting")),
        OSError(5, evil("path")),
        click.UsageError(evil("usage")),
    ],
)
def test_errors_do_not_steer_the_terminal(cluster: Cluster, run: Run, error: Exception) -> None:
    cluster.error = error
    shown = run("groups", "list", *SERVERS, code=None)
    steering = {each for each in shown.err if unicodedata.category(each) in STEERING}
    assert steering <= {"\n"}
    assert MARKUP in shown.err


def test_a_reset_that_is_refused_names_the_group_in_one_line(
    cluster: Cluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "describe_group", cluster.describe_empty)
    shown = run("groups", "reset", GROUP, "--all-topics", "--to-latest", *SERVERS)
    check(shown.out + shown.err)
    assert MARKUP in shown.out


def test_a_terminal_gets_no_link_and_no_title(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(force_terminal=True, width=500, color_system=None, legacy_windows=False)
    with console.capture() as drawn:
        console.print(watching.draw(VIEW, members=True, width=500))
    check(drawn.get())
    assert f"group:{MARKUP}" in drawn.get()


def test_log_lines_do_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for line_format in (False, True):
        handler = logging.StreamHandler(sys.stderr)
        set_up_logging("info", handler)
        if line_format:
            handler.setFormatter(JsonFormatter({"service": EVIL}))
        ours, others = logging.getLogger("groupsdk.x"), logging.getLogger(f"app{EVIL}")
        error = NetworkError(evil("reason"))
        ours.error("group=%s member=%s generation=%d: failed", GROUP, EVIL, 1, exc_info=error)
        ours.warning("refused: %s", EVIL)
        shown, _, traceback = capsys.readouterr().err.partition("\n")
        check(shown)
        check(traceback.replace("\n  groupsdk: all is well", ""))
        others.warning("%s", "two\nlines")
        shown = capsys.readouterr().err
        assert {each for each in shown if not each.isprintable()} == {"\n"}
        assert ("two\nlines" in shown) != line_format, "a program's own lines stay"


def test_the_traceback_of_a_task_is_lines_that_begin_no_line_of_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logging("info")
    trace = for_log(f"Traceback (most recent call last):\n  File 'x'\nValueError: {EVIL}\nend")
    logging.getLogger("groupsdk.connect").warning("task %s failed: %s", "t\nu", trace)
    logging.getLogger("groupsdk.connect").warning("task %s failed: %s", "t", trace)
    named, line, *more = capsys.readouterr().err.splitlines()
    assert "task t\\x0au failed: end\\x0aTraceback" in named
    assert line.endswith("task t failed: end")
    assert more[:2] == ["  Traceback (most recent call last):", "    File 'x'"]
    assert all(each.startswith("  ") and each.isprintable() for each in more)


def test_a_traceback_that_another_handler_formatted_first_is_escaped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ours = logging.getLogger("groupsdk.x")
    first = logging.StreamHandler(StringIO())
    ours.addHandler(first)
    try:
        set_up_logging("info")
        ours.error("failed", exc_info=NetworkError(evil("reason")))
        check(capsys.readouterr().err.replace("\n  groupsdk: all is well", ""))
    finally:
        ours.removeHandler(first)


def spoiled(value: Any) -> Any:
    """Makes every string of a value hostile, in dataclasses and lists of them."""
    if isinstance(value, Enum | datetime | bool):
        return value
    if isinstance(value, str):
        return EVIL + value
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: spoiled(getattr(value, each.name)) for each in fields(value)}
        )
    if isinstance(value, list | tuple):
        made = map(spoiled, value)
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


def test_a_report_has_no_control_characters_and_no_markup_of_names() -> None:
    data = replace(spoiled(small_report()), bucket="minute")
    page = render(data, title=evil("title"))
    assert {each for each in page if unicodedata.category(each) in STEERING} <= {"\n", "\t"}
    assert page.count("<script>") == 1, "its own"
    assert page.encode()


def test_a_log_view_and_an_answer_in_json_are_escaped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for as_json in (False, True):
        LogView(kinds=frozenset(EntryKind), as_json=as_json).show([ENTRY])
        check(capsys.readouterr().out)
    commit = offsets_log.write(OffsetCommitKey(GROUP, EVIL, 0), OffsetCommitValue(metadata=EVIL))
    entry = entry_of(Record(0, 0, *commit), 0, OFFSETS_TOPIC)
    LogView(kinds=frozenset(EntryKind), as_kafka=True).show([entry])
    shown = capsys.readouterr().out
    check(shown)
    assert json.loads(shown)["key"]["data"] == {"group": GROUP, "topic": EVIL, "partition": 0}
    body = bytes(JsonAnswer({EVIL: EVIL}).body).decode()
    check(body)
    assert json.loads(body) == {EVIL: EVIL}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("t,0,1\rt,1,2", None),
        ('"t\x1b[2J",0', "line 1: must be"),
        ("t,0," + "9" * 5_000, "line 1: must be"),
        ("t," + "9" * 12 + ",1", "line 1: must be"),
        ('"' + "x" * 200_000 + '",0,1', "line 1: field larger than field limit"),
    ],
)
def test_a_file_of_offsets_is_read_or_told_with_its_line(
    cluster: Cluster, run: Run, tmp_path: Path, content: str, said: str | None
) -> None:
    file = tmp_path / "offsets\x1b[2J.csv"
    file.write_bytes(content.encode())
    found = run("groups", "reset", "g", "--from-file", str(file), *SERVERS, code=None)
    check(found.out + found.err)
    assert (found.code == 2) == (said is not None)
    assert said is None or said in found.err


def test_a_hostile_word_of_the_command_line_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", evil("command")]) == 2
    assert {each for each in capsys.readouterr().err if not each.isprintable()} == {"\n"}
