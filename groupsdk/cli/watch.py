"""`groupsdk watch`: groups, members, lag and rebalances in the terminal, as they change."""

import asyncio
import importlib.util
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from groupsdk.admin.watching import ClusterView, Rebalance, WatchedGroup, watch_cluster
from groupsdk.cli.command import Command, SecondsRange
from groupsdk.cli.connection import Connection, connection_options
from groupsdk.cli.output import (
    cell,
    fitting_columns,
    json_option,
    plain,
    unbroken,
    write_json_line,
)
from groupsdk.cli.page import cluster_page, page_families, page_options, serve_page
from groupsdk.cli.process import StopSignals, log_level_option
from groupsdk.cli.watch_rows import (
    COLUMNS,
    MEMBER_COLUMNS,
    SEVERITIES,
    STATES,
    clock_time,
    finding_line,
    fitting,
    group_rows,
    member_rows,
    rebalance_line,
    worst_findings,
)
from groupsdk.verdict import GroupVerdict, KnownLog, VerdictKeeper
from groupsdk.verdict.log_follower import NOT_READ, LogFollower


if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from groupsdk.admin.cluster import ClusterClient
    from groupsdk.http.settings import HttpSettings

_SERVERS: Final = "--bootstrap-servers localhost:9092"
_GAP: Final = 3
"""What rich puts between columns, and at both edges."""
_SHOWN: Final = 8
"""So many rebalances, and so many findings, are shown."""


@click.command(
    cls=Command,
    examples=[
        (f"groupsdk watch {_SERVERS}", "all groups, until Ctrl-C"),
        (f"groupsdk watch 'orders-*' --members --interval 0.5 {_SERVERS}", "some, with members"),
        (f"groupsdk watch --rebalances --json {_SERVERS}", "each rebalance as a line of JSON"),
        (f"groupsdk watch --web 127.0.0.1:8080 {_SERVERS}", "a live page for a browser"),
    ],
)
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@click.option(
    "--interval",
    type=SecondsRange(0.05, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="The interval between two queries, in seconds.",
)
@click.option(
    "--members",
    is_flag=True,
    help="Show the members and their assignments, where there are no keys.",
)
@click.option("--plain", "plain_view", is_flag=True, help="Draw without keys.")
@click.option("--no-lag", is_flag=True, help="Do not look up offsets.")
@click.option(
    "--no-log", is_flag=True, help="Do not read the groups' log, and find less of what was before."
)
@click.option(
    "--rebalances", "only_rebalances", is_flag=True, help="Write only a line for each rebalance."
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="Exit after N queries.")
@page_options
@connection_options
@json_option
@log_level_option("error")
def watch(
    patterns: tuple[str, ...],
    interval: float,
    members: bool,
    plain_view: bool,
    no_lag: bool,
    no_log: bool,
    only_rebalances: bool,
    count: int | None,
    page: "HttpSettings | None",
    connection: Connection,
    as_json: bool,
) -> None:
    """Watch groups: states, members, what each has, lag, what is wrong, and rebalances as they happen with who caused them.

    Draws in a terminal, with keys where the package textual is installed (the extra groupsdk[watch]): j and k choose a
    group, Enter opens it, / searches, s sorts, q ends. --json writes a line for each query, --rebalances one for each rebalance that has ended. A
    rebalance that begins and ends between two queries is detected by its changes. With --web, a live page shows the same,
    and /metrics gives states, members and lag to Prometheus.
    """
    if page is not None:
        connection.check()
        shown = cluster_page(
            connection.settings,
            patterns,
            interval_s=interval,
            timeout_s=connection.timeout_s,
            reads_log=not no_log,
        )

        metrics = partial(page_families, shown)
        with StopSignals() as stop, serve_page(shown, page, metrics):
            stop.first.wait()
        return
    draws = not (as_json or only_rebalances)
    judge = _Judge(
        None
        if no_log or only_rebalances
        else LogFollower(connection.settings, patterns, timeout_s=connection.timeout_s)
    )
    if draws and not plain_view and _has_keys():
        connection.run(
            lambda client: _run_app(
                watch_cluster(client, patterns, interval_s=interval, with_lag=not no_lag),
                judge,
                count,
            ),
            writes=True,
        )
        return
    view = _Screen(judge, members=members) if draws else _Lines(judge, only_rebalances, as_json)

    async def follow(client: "ClusterClient") -> None:
        looks = 1
        views = watch_cluster(client, patterns, interval_s=interval, with_lag=not no_lag)
        async with judge.reading():
            with connection.waiting():
                shown = await anext(views)
            view.show(shown)
            while looks != count:
                view.show(await anext(views))
                looks += 1

    with view:
        connection.run(follow, writes=True)


def _has_keys() -> bool:
    """Return whether a person can press keys, and textual is there to hear them."""
    if os.environ.get("TERM") in (None, "dumb") or importlib.util.find_spec("textual") is None:
        return False
    return sys.stdin.isatty() and sys.stdout.isatty()


class _Judge:
    """Judges views by what was seen before, and by the groups' log where it is read."""

    def __init__(self, follower: LogFollower | None) -> None:
        self._keeper = VerdictKeeper()
        self._follower = follower

    def reading(self) -> AbstractAsyncContextManager[None]:
        """Return a block during which the log is read."""
        return nullcontext() if self._follower is None else self._follower.beside()

    @property
    def known(self) -> KnownLog:
        return NOT_READ if self._follower is None else self._follower.known

    def __call__(self, view: ClusterView) -> Mapping[str, GroupVerdict]:
        return self._keeper.observe(view, known=self.known)


async def _run_app(views: AsyncIterator[ClusterView], judge: _Judge, count: int | None) -> None:
    from groupsdk.cli.watch_app import WatchApp

    app = WatchApp(views, judge, lambda: judge.known.text, count=count)
    loop = asyncio.get_running_loop()
    # so that the terminal is as it was
    loop.add_signal_handler(signal.SIGTERM, app.exit)
    try:
        # without the mouse, so that text can still be selected
        async with judge.reading():
            await app.run_async(mouse=False)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
    if app.failed is not None:
        raise app.failed


class _Lines:
    """Writes a line for each query, or for each rebalance that has ended."""

    def __init__(self, judge: _Judge, only_rebalances: bool, as_json: bool) -> None:
        self._judge = judge
        self._only_rebalances = only_rebalances
        self._as_json = as_json
        self._written: set[tuple[str, int, int | None]] = set()

    def __enter__(self) -> "_Lines":
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, view: ClusterView) -> None:
        if not self._only_rebalances:
            write_json_line(view_json(view, self._judge(view), self._judge.known))
            return
        for each in reversed(view.rebalances):
            key = each.group_id, each.began_ms, each.ended_ms
            if each.ended_ms is None or key in self._written:
                continue
            self._written.add(key)
            if self._as_json:
                write_json_line(rebalance_json(each))
            else:
                click.echo(cell(rebalance_line(each)))


class _Screen:
    """Draws each result over the last one in a terminal, elsewhere below it."""

    def __init__(self, judge: _Judge, *, members: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        self._members = members
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._before: Any = None
        self._judge = judge

    def __enter__(self) -> "_Screen":
        if self._console.is_terminal:
            # as Ctrl-C, so that the cursor comes back
            self._before = signal.signal(signal.SIGTERM, signal.default_int_handler)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def show(self, view: ClusterView) -> None:
        drawn = draw(
            view,
            self._judge(view),
            members=self._members,
            width=self._console.width,
            log=self._judge.known.text,
        )
        if self._console.is_terminal:
            self._live.update(drawn, refresh=True)
        else:
            self._console.print(drawn)
            self._console.file.flush()


def draw(
    view: ClusterView,
    verdicts: Mapping[str, GroupVerdict] = MappingProxyType({}),
    *,
    members: bool,
    width: int,
    log: str = "",
) -> "RenderableType":
    """Draw a view: a table of groups, of their members where asked for, the worst findings, and the last rebalances.

    Some columns are left out on a terminal of few characters' `width`, the names of the groups last.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [
        Text(f"{clock_time(view.at_ms)}  {len(view.groups)} groups", "bold")
    ]
    if view.error is not None:
        parts.append(Text(cell(view.error), "bold red"))
    if log:
        parts.append(Text(cell(log), "dim"))
    parts.append(_groups(view, width, verdicts))
    if members:
        parts += [_members(each, width) for each in view.groups if each.description.members]
    findings = worst_findings(verdicts.values(), _SHOWN)
    if findings:
        parts.append(Text("Findings", "bold"))
        parts += [Text(cell(finding_line(each)), SEVERITIES[each.severity]) for each in findings]
    if view.rebalances:
        parts.append(Text("Rebalances", "bold"))
        parts += [
            Text(cell(rebalance_line(each)), "yellow" if each.ended_ms is None else "")
            for each in view.rebalances[:_SHOWN]
        ]
    return Group(*parts)


def _groups(view: ClusterView, width: int, verdicts: Mapping[str, GroupVerdict]) -> "Table":
    rows = group_rows(view, verdicts=verdicts)
    shown = fitting(rows, width, gap=_GAP).columns
    return _table(
        [COLUMNS[at] for at in shown],
        [[row.cells[at] for at in shown] for row in rows],
        COLUMNS[1:],  # names may be long: these alone are broken
    )


def _members(group: WatchedGroup, width: int) -> "Table":
    rows = [[cell(each) for each in row] for row in member_rows(group)]
    shown = fitting_columns(MEMBER_COLUMNS, rows, width - 2, ("MEMBER", "HOST"))
    return _table(
        [MEMBER_COLUMNS[at] for at in shown],
        [[row[at] for at in shown] for row in rows],
        unbroken(MEMBER_COLUMNS, shown),
        title=group.description.group_id,
    )


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    whole: Sequence[str],
    title: str = "",
) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=SIMPLE_HEAD,
        title=Text(cell(title)) if title else None,
        title_justify="left",
        pad_edge=False,
    )
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in whole)
    for row in rows:
        table.add_row(*(Text(cell(each), STATES.get(str(each), "")) for each in row))
    return table


def _findings_json(verdict: GroupVerdict | None) -> Any:
    return [] if verdict is None else plain(verdict.findings)


def rebalance_json(rebalance: Rebalance) -> dict[str, Any]:
    return {
        **plain(rebalance),
        "length_ms": rebalance.length_ms,
        "text": rebalance_line(rebalance),
    }


def view_json(
    view: ClusterView,
    verdicts: Mapping[str, GroupVerdict] = MappingProxyType({}),
    known: KnownLog = NOT_READ,
) -> dict[str, Any]:
    return {
        "at_ms": view.at_ms,
        "error": view.error,
        "log": known.text or None,
        "groups": [
            {
                **plain(each.description),
                "since_ms": each.since_ms,
                "total_lag": each.total_lag,
                "lag": [{**plain(part), "lag": part.lag} for part in each.lag],
                "findings": _findings_json(verdicts.get(each.description.group_id)),
            }
            for each in view.groups
        ],
        "rebalances": [rebalance_json(each) for each in view.rebalances],
    }
