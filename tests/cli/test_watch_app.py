"""Tests `groupsdk watch` with keys, by textual's own Pilot."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    GroupType,
    Member,
    PartitionLag,
)
from groupsdk.admin.watching import Cause, ClusterView, Rebalance, WatchedGroup
from groupsdk.assignment import TopicPartition
from groupsdk.cli.watch_app import GroupScreen, Rows, WatchApp
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError
from groupsdk.verdict import VerdictKeeper


def group(name: str, lag: int) -> WatchedGroup:
    """A group of one member that is so far behind."""
    member = Member(f"m-{name}", "app", "/h", assignment=Assignment((TopicPartition("t", 1),)))
    description = GroupDescription(
        name, GroupType.CLASSIC, "Stable", "consumer", "range", 1, (member,)
    )
    return WatchedGroup(description, 0, (PartitionLag("t", 1, 0, lag, member.member_id),))


REBALANCE = Rebalance(
    group_id="b", began_ms=0, ended_ms=5, causes=(Cause(kind="unknown", detail="why \x1b[2J"),)
)
LOG = "the groups' log is not read: READ on topic \x1b"
VIEW = ClusterView(9_000, (group("a", 5), group("b", 70), group("c-1", 7)), (REBALANCE,))


def groups(app: WatchApp) -> list[str]:
    """The first column of the overview."""
    return column(app.screen_stack[0].query_one("#groups", Rows))


def column(table: Rows, at: int = 0) -> list[str]:
    return [table.get_row_at(row)[at].plain for row in range(table.row_count)]


def words(app: WatchApp, place: str) -> str:
    return str(app.screen.query_one(place, Static).content)


def drive(
    act: Callable[[WatchApp, Pilot[None]], Awaitable[None]], size: tuple[int, int] = (100, 30)
) -> None:
    """Starts the program on a terminal of some size, shows the view, and acts."""

    async def no_views() -> AsyncIterator[ClusterView]:
        await asyncio.Event().wait()
        yield VIEW

    async def run() -> None:
        app = WatchApp(no_views(), VerdictKeeper().observe, lambda: LOG)
        async with app.run_test(size=size) as pilot:
            app.show(VIEW)
            await pilot.pause()
            await act(app, pilot)

    asyncio.run(run())


def test_group_without_members_is_found_and_explained() -> None:
    async def act(app: WatchApp, pilot: Pilot[None]) -> None:
        left = replace(group("b", 0).description, state="Empty", members=())
        empty = replace(group("b", 700), description=left)
        for at_ms in (0, 61_000):
            app.show(ClusterView(at_ms, (group("a", 0), empty)))
        await pilot.press("s", "s", "s", "s", "s")
        assert groups(app) == ["b", "a"]
        await pilot.press("g", "enter")
        await pilot.pause()
        assert "critical b: 700 records behind" in words(app, "#head")
        assert "start the consumers" in words(app, "#head")

    drive(act)


def test_keys_choose_a_group_and_open_it() -> None:
    async def act(app: WatchApp, pilot: Pilot[None]) -> None:
        assert groups(app) == ["a", "b", "c-1"]
        await pilot.press("j", "j", "k", "enter")
        await pilot.pause()
        assert isinstance(app.screen, GroupScreen)
        assert words(app, "#head").startswith("b  Stable  classic  range  1 members  lag 70")
        assert column(app.screen.query_one("#members", Rows), 2) == ["app"]
        assert column(app.screen.query_one("#partitions", Rows), 4) == ["70"]
        assert "why \\x1b[2J" in words(app, "#rebalances")
        await pilot.press("escape")
        await pilot.pause()
        assert len(app.screen_stack) == 1
        await pilot.press("G")
        assert app.query_one("#groups", Rows).chosen == "c-1"
        await pilot.press("g")
        assert app.query_one("#groups", Rows).chosen == "a"

    drive(act)


def test_open_group_changes_and_may_go() -> None:
    async def act(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        await pilot.pause()
        app.show(replace(VIEW, groups=(group("a", 6),), error="no broker answers"))
        await pilot.pause()
        assert "lag 6" in words(app, "#head")
        assert "no broker answers" in words(app, "#head")
        app.show(replace(VIEW, groups=()))
        await pilot.pause()
        assert words(app, "#head") == "a is gone"

    drive(act)


def test_groups_are_sorted_and_the_chosen_one_stays_chosen() -> None:
    async def act(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press("j", "j", "s")
        await pilot.pause()
        assert groups(app) == ["b", "c-1", "a"]
        assert app.query_one("#groups", Rows).chosen == "c-1"
        assert "by lag" in words(app, "#head")
        app.show(replace(VIEW, groups=(group("a", 500), *VIEW.groups[1:])))
        await pilot.pause()
        assert groups(app) == ["a", "b", "c-1"]
        assert app.query_one("#groups", Rows).chosen == "c-1"

    drive(act)


def test_groups_are_searched_as_the_text_is_typed() -> None:
    async def act(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", "c", "minus")
        await pilot.pause()
        assert groups(app) == ["c-1"]
        await pilot.press("enter")
        await pilot.pause()
        assert "1 of 3 groups" in words(app, "#head")
        await pilot.press("escape")
        await pilot.pause()
        assert groups(app) == ["a", "b", "c-1"]

    drive(act)


def test_narrow_terminal_keeps_the_names_of_groups() -> None:
    name = "payments-reconciliation-of-europe"

    async def act(app: WatchApp, pilot: Pilot[None]) -> None:
        app.show(ClusterView(0, (group(name, 3),)))
        await pilot.pause()
        table = app.query_one("#groups", Rows)
        first = table.ordered_columns[0]
        assert first.get_render_width(table) == len(name) + 2
        assert sum(each.get_render_width(table) for each in table.ordered_columns) <= 60
        assert column(table, len(table.ordered_columns) - 1) == ["3"]

    drive(act, size=(60, 20))


def test_no_column_is_measured_again_when_a_cell_changes() -> None:
    # with a thousand groups that takes minutes

    async def act(app: WatchApp, pilot: Pilot[None]) -> None:
        table = app.query_one("#groups", Rows)
        before = table.ordered_columns
        app.show(replace(VIEW, groups=(group("a", 500), *VIEW.groups[1:])))
        await pilot.pause()
        assert "500" in column(table, len(table.ordered_columns) - 1)
        assert not any(each.auto_width for each in table.ordered_columns)
        app.show(replace(VIEW, groups=(group("a", 6), *VIEW.groups[1:])))
        await pilot.pause()
        assert len(before) == len(table.ordered_columns)
        assert table.ordered_columns[-1].width >= len("500")

    drive(act)


def test_names_do_not_steer_the_terminal() -> None:
    async def act(app: WatchApp, pilot: Pilot[None]) -> None:
        app.show(ClusterView(0, (group("[red]\x1b[2J\u202e", 3),)))
        await pilot.pause()
        assert groups(app) == ["[red]\\x1b[2J\\u202e"]
        await pilot.press("enter")
        await pilot.pause()
        assert words(app, "#head").startswith("[red]\\x1b[2J\\u202e  Stable")

    drive(act)


def test_log_that_is_not_read_is_said_at_the_top() -> None:
    async def act(app: WatchApp, _: Pilot[None]) -> None:
        assert "READ on topic \\x1b" in words(app, "#head")

    drive(act)


def test_program_ends_with_the_last_view_or_with_what_was_raised() -> None:
    async def views() -> AsyncIterator[ClusterView]:
        yield VIEW
        yield VIEW
        raise BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "ListGroups")

    async def run(count: int | None) -> WatchApp:
        app = WatchApp(views(), VerdictKeeper().observe, str, count=count)
        await app.run_async(headless=True)
        return app

    assert asyncio.run(run(2)).failed is None
    failed = asyncio.run(run(None)).failed
    assert isinstance(failed, BrokerError)


@pytest.mark.parametrize("keys", [("q",), ("enter", "q")])
def test_q_ends_it(keys: tuple[str, ...]) -> None:
    async def act(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        await pilot.pause()
        assert app.is_running is False or app._exit

    drive(act)
