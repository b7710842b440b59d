"""`groupsdk doctor`: find what keeps groups from working, and say what to change."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from groupsdk.admin.descriptions import is_pattern, matches
from groupsdk.admin.diagnosis import Finding, Level, diagnose
from groupsdk.cli.command import Command, ExitCode, exit_with
from groupsdk.cli.connection import SERVERS_HINT, Connection, connection_options
from groupsdk.cli.output import cell, json_option, write_json
from groupsdk.cli.process import log_level_option
from groupsdk.errors import ConfigError, GroupSdkError


if TYPE_CHECKING:
    from groupsdk.admin.cluster import ClusterClient
    from groupsdk.verdict import GroupVerdict, Observation

_COLORS: Final = {
    "ok": "green",
    "notice": "cyan",
    "warning": "yellow",
    "error": "red",
    "critical": "red",
}
_PATIENCE: Final = 0.5
"""The share of the time after which retries end, so that their errors are seen and not only that time is up."""


@dataclass(frozen=True, slots=True)
class Line:
    """A finding about the cluster or a group, as it is written."""

    level: str
    check: str
    text: str
    remedy: str = ""
    group: str | None = None
    cost: str = ""
    confidence: float | None = None


@click.command(
    cls=Command,
    examples=[
        ("groupsdk doctor --bootstrap-servers localhost:9092", "the cluster"),
        (
            "groupsdk doctor --all-groups --bootstrap-servers localhost:9092",
            "the cluster, and a verdict over each group",
        ),
        (
            "groupsdk doctor --config consumer.properties --group 'orders-*' --topic sales",
            "a consumer's settings, whether it may read, and some groups",
        ),
    ],
)
@click.option(
    "--group",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Judge this group, and check the rights to it; * and ? match; repeatable.",
)
@click.option("--all", "--all-groups", "all_groups", is_flag=True, help="Judge all groups.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME",
    help="Check the rights to this topic; repeatable.",
)
@connection_options
@json_option
@log_level_option("error")
def doctor(
    patterns: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    connection: Connection,
    as_json: bool,
) -> None:
    """Check the cluster and the settings, and judge groups by their state, their lag and their last hour.

    Of the cluster: reach, TLS and SASL, versions, advertised addresses, rights, clocks, and timeouts that contradict, for
    the settings as a client would use them. Each finding says what to change. The exit code is 4 where there is one, and 5 if
    records of a group are not read or will be lost to it; notices alone leave it 0. All of it ends within --timeout.
    Nothing is changed, and no group is joined.
    """
    if not connection.settings.get("bootstrap.servers"):
        raise ConfigError(SERVERS_HINT)
    own = connection.others.get("group.id")
    wanted = ("*",) if all_groups else patterns or ((own,) if own else ())

    async def check() -> list[Line]:
        found = []
        async for each in _lines(connection, wanted, topics):
            found.append(each)
            if not as_json:
                _write(each)
        return found

    found = asyncio.run(check())
    if as_json:
        write_json(found)
    levels = {each.level for each in found}
    if "critical" in levels:
        exit_with(ExitCode.CRITICAL)
    if levels - {"ok", "notice"}:
        exit_with(ExitCode.FINDINGS)


async def _lines(
    connection: Connection, patterns: Collection[str], topics: Collection[str]
) -> AsyncIterator[Line]:
    """Yield the findings about the cluster, and, if it can be reached, about the groups."""
    until_s = asyncio.get_running_loop().time() + connection.timeout_s
    reached = False
    findings = diagnose(
        connection.settings,
        connection.others,
        groups=[each for each in patterns if not is_pattern(each)],
        topics=topics,
        timeout_s=_PATIENCE * connection.timeout_s,
    )
    last = "nothing"
    while True:
        try:
            async with asyncio.timeout_at(until_s):
                each = await anext(findings)
        except StopAsyncIteration:
            break
        except TimeoutError:
            yield _line(_silent(connection, last))
            return
        except (GroupSdkError, OSError) as error:
            yield Line("error", "reach", str(error), "start the broker, or restore the network")
            return
        last = each.check
        reached = reached or (each.check == "reach" and each.level is Level.OK)
        yield _line(each)
    if patterns and reached:
        for line in await _judged(connection, patterns, until_s):
            yield line


def _silent(connection: Connection, last: str) -> Finding:
    return Finding(
        Level.ERROR,
        "reach",
        f"no answer within {connection.timeout_s:g} s; the last check that ended is {last!r}",
        "a broker accepts connections and does not answer: look at its log, or restart it; if it is only slow,"
        " raise --timeout",
    )


async def _judged(connection: Connection, patterns: Collection[str], until_s: float) -> list[Line]:
    from groupsdk.admin.cluster import ClusterClient
    from groupsdk.verdict import judge
    from groupsdk.verdict.collecting import observe_groups

    timeout_s = max(0.1, until_s - asyncio.get_running_loop().time())
    async with ClusterClient(connection.settings, timeout_s=_PATIENCE * timeout_s) as client:
        try:
            async with asyncio.timeout_at(until_s):
                group_ids = await _matching(client, patterns)
        except (TimeoutError, GroupSdkError) as error:
            why = str(error) or f"no answer within {timeout_s:.1f} s"
            return [Line("error", "groups", f"cannot list the groups: {why}")]
        seen = await observe_groups(client, group_ids, timeout_s=timeout_s)
    return [line for each in seen for line in _of_group(each, judge(each))]


async def _matching(client: "ClusterClient", patterns: Collection[str]) -> list[str]:
    """Return the groups that are named, whether they exist or not, and those that match a pattern."""
    from groupsdk.admin.groups import list_groups

    named = [each for each in patterns if not is_pattern(each)]
    if len(named) == len(patterns):
        return named
    listed = [each.group_id for each in await list_groups(client)]
    matching = [each for each in listed if matches(each, patterns)]
    return sorted({*named, *matching})


def _of_group(seen: "Observation", verdict: "GroupVerdict") -> Iterable[Line]:
    if not verdict.findings:
        is_there = seen.group is not None and seen.group.state != "Dead"
        text = f"group {verdict.group!r}: " + ("nothing found" if is_there else "it does not exist")
        yield Line("ok", "group", text, group=verdict.group)
    for each in verdict.findings:
        yield Line(
            each.severity.value,
            each.rule,
            each.saw,
            each.change,
            each.group,
            each.cost,
            each.confidence,
        )


def _line(finding: Finding) -> Line:
    return Line(finding.level.value, finding.check, finding.text, finding.remedy)


def _write(line: Line) -> None:
    level = click.style(f"{line.level:8}", fg=_COLORS[line.level])
    of_group = line.group is not None and line.level != "ok"
    text = f"{line.group}: {line.text}" if of_group else line.text
    click.echo(f"{level} {line.check:9} {cell(text)}")
    if line.cost:
        sure = "" if line.confidence is None else f" ({line.confidence:.0%} sure)"
        click.echo(f"{'':18}    {cell(line.cost)}{sure}")
    if line.remedy:
        click.echo(f"{'':18} -> {cell(line.remedy)}")
