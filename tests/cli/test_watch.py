"""Tests how `groupsdk watch` writes and draws."""

import asyncio
import io
from dataclasses import replace

from rich.console import Console

from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    GroupType,
    Member,
    PartitionLag,
)
from groupsdk.admin.watching import Cause, ClusterView, Rebalance, WatchedGroup
from groupsdk.assignment import TopicPartition
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.assign import what_if
from groupsdk.cli.watch import draw, view_json
from groupsdk.verdict import Finding, GroupVerdict, KnownLog, Severity
from tests.cli.conftest import Run
from tests.cli.peers import librdkafka, own_protocol


CAUSE = Cause(kind="joined", member_id="m-1", client_id="c", host="/h")
OPEN = Rebalance(group_id="g", began_ms=0, causes=(CAUSE,), phases=(("Assigning", 0),), members=2)
DONE = Rebalance(group_id="g", began_ms=0, ended_ms=20, causes=(CAUSE,), moved=3, members=2)
MEMBER = Member("m-1\x1b[2J", "c", "/h", assignment=Assignment((TopicPartition("t", 1),)))
VIEW = ClusterView(
    5_000,
    (
        WatchedGroup(
            GroupDescription("g", GroupType.CLASSIC, "Stable", "consumer", "range", 1, (MEMBER,)),
            2_000,
            (PartitionLag("t", 1, 3, 10, "m-1\x1b[2J"),),
        ),
    ),
    (OPEN, DONE),
    "no broker answers",
)


def drawn(width: int, view: ClusterView = VIEW) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(draw(view, members=True, width=width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_narrow_terminal_breaks_no_word() -> None:
    group = replace(
        VIEW.groups[0].description, state="CompletingRebalance", assignor="cooperative-sticky"
    )
    shown = drawn(80, replace(VIEW, groups=(replace(VIEW.groups[0], description=group),)))
    for word in ("CompletingRebalance", "cooperative-sticky", "ASSIGNED", "LAG"):
        assert word in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_member_is_a_line_of_whole_words_in_a_narrow_terminal() -> None:
    member = replace(MEMBER, member_id="orders-1-" + "f" * 36, client_id="orders-1")
    group = replace(VIEW.groups[0].description, members=(member,))
    narrow = drawn(50, replace(VIEW, groups=(replace(VIEW.groups[0], description=group),)))
    (line,) = (each for each in narrow.splitlines() if "orders-1" in each)
    assert line.split() == ["orders-1", "/h", "1", "0", "t(1)"]


def test_a_view_is_drawn() -> None:
    shown = drawn(200)
    for text in ("1 groups", "Stable", "3 s", "t(1)", "no broker answers", "c (m-1) at /h joined"):
        assert text in shown
    assert "\x1b[2J" not in shown
    assert "goes on, Assigning" in shown


def test_findings_are_drawn_and_are_in_the_json() -> None:
    finding = Finding(
        "growing_lag", Severity.WARNING, "g", "lag \x1b[2J grew", "cost", "change", 0.8
    )
    verdicts = {"g": GroupVerdict("g", 0, (finding,))}
    console = Console(file=io.StringIO(), width=200)
    console.print(draw(VIEW, verdicts, members=False, width=200, log="no log \x1b"))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "growing_lag" in shown
    assert "no log \\x1b" in shown
    assert "warning g: lag \\x1b[2J grew -> change" in shown
    assert view_json(VIEW, verdicts)["groups"][0]["findings"][0]["severity"] == "warning"
    assert view_json(VIEW)["groups"][0]["findings"] == []
    assert "switched off" in view_json(VIEW)["log"]
    assert view_json(VIEW, {}, KnownLog())["log"] is None


def test_a_view_becomes_json() -> None:
    shown = view_json(VIEW)
    assert shown["groups"][0]["total_lag"] == 7
    assert shown["groups"][0]["lag"][0]["lag"] == 7
    assert [each["length_ms"] for each in shown["rebalances"]] == [None, 20]


def test_looks_are_lines_of_json(broker: EmbeddedBroker, group_id: str, run: Run) -> None:
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    with own_protocol(broker.bootstrap_servers, group_id):
        words = ("watch", group_id, "--count", "2", "--interval", "0.05")
        first, second = run(*words, "--json", *servers).lines
        assert first["groups"][0]["group_id"] == second["groups"][0]["group_id"] == group_id
        assert first["at_ms"] <= second["at_ms"]
        [alone] = run(*words[:2], "--count", "1", "--no-log", "--json", *servers).lines
        assert "switched off" in alone["log"]
        assert group_id[:20] in run(*words, "--members", *servers).out
        assert run(*words, "--rebalances", *servers).out == ""


def test_what_if_shows_the_assignment_of_a_live_group() -> None:
    async def ask(servers: str) -> str:
        async with ClusterClient({"bootstrap.servers": servers}) as client:
            return await what_if(client, "g", "sticky")

    with (
        EmbeddedBroker(topics={"t": 4}) as broker,
        librdkafka(broker.bootstrap_servers, "g", "t"),
    ):
        said = asyncio.run(ask(broker.bootstrap_servers))
    assert said == "0 of 4 partitions would move; members would have 4 to 4, the fairest possible."
