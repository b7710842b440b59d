"""`groupsdk watch` with keys, in a terminal: all groups, and one of them. Needs the package textual (extra `watch`)."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.console import JustifyMethod
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from groupsdk.admin.watching import ClusterView, WatchedGroup
from groupsdk.cli.output import cell
from groupsdk.cli.watch_rows import (
    COLUMNS,
    MEMBER_COLUMNS,
    NUMBERS,
    SEVERITIES,
    STATES,
    GroupRow,
    Order,
    clock_time,
    finding_line,
    fitting,
    group_rows,
    member_rows,
    rebalance_line,
)
from groupsdk.errors import GroupSdkError
from groupsdk.lazy_imports import override
from groupsdk.verdict import GroupVerdict


_GAP: Final = 2
"""The columns of textual's table have a space on each side."""
_SCROLLBAR: Final = 2
_PARTITIONS: Final = 500
"""So many partitions of a group are shown, the furthest behind first."""
_REBALANCES: Final = 50
_LAG_COLUMNS: Final = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "CLIENT", "HOST")
_MOVES: Final[list[BindingType]] = [
    Binding("j", "move(1)", "down", show=False),
    Binding("k", "move(-1)", "up", show=False),
    Binding("g,home", "jump(False)", "first", show=False),
    Binding("G,end", "jump(True)", "last", show=False),
]

Row = tuple[str, Sequence[Text]]
"""A row's key, and its cells."""
Columns = tuple[tuple[str, int], ...]
"""The name of each column, and its width."""


class Rows(DataTable[Text]):
    """A table whose rows change in place: what is chosen and where it is scrolled to stay."""

    BINDINGS: ClassVar[list[BindingType]] = _MOVES

    def __init__(self, **more: str) -> None:
        super().__init__(cursor_type="row", zebra_stripes=False, **more)  # type: ignore[arg-type]
        self._columns_shown: Columns = ()
        self._rows_shown: list[Row] = []

    @property
    def chosen(self) -> str | None:
        """The key of the row at the cursor; None where there is none."""
        at = self.cursor_row
        return self._rows_shown[at][0] if 0 <= at < len(self._rows_shown) else None

    def show(self, names: Sequence[str], rows: list[Row], width: int | None = None) -> None:
        """Show rows under columns of these names; `width` is that of the first one, by default of its content."""
        columns = self._columns(names, rows, width)
        same = [key for key, _ in rows] == [key for key, _ in self._rows_shown]
        if columns != self._columns_shown or not same:
            self._fill(columns, rows)
        else:
            for at, (_, cells) in enumerate(rows):
                for column, text in enumerate(cells):
                    if text != self._rows_shown[at][1][column]:
                        self.update_cell_at(Coordinate(at, column), text)
        self._rows_shown = rows

    def _columns(self, names: Sequence[str], rows: list[Row], width: int | None) -> Columns:
        # given, as textual would measure each cell again for each change; they only grow, so that few changes refill it
        before = dict(self._columns_shown)
        found = []
        for at, name in enumerate(names):
            needed = max([_width(name), *(_width(cells[at].plain) for _, cells in rows)])
            found.append((name, max(needed, before.get(name, 0))))
        if width is not None:
            found[0] = names[0], width
        return tuple(found)

    def _fill(self, columns: Columns, rows: list[Row]) -> None:
        chosen, top = self.chosen, self.scroll_y
        with self.app.batch_update():
            self.clear(columns=columns != self._columns_shown)
            if columns != self._columns_shown:
                for name, width in columns:
                    self.add_column(Text(name), width=width)
            for _, cells in rows:
                self.add_row(*cells)
            keys = [key for key, _ in rows]
            if chosen in keys:
                self.move_cursor(row=keys.index(chosen), scroll=False)
            self.scroll_to(y=top, animate=False)
        self._columns_shown = columns

    def action_move(self, by: int) -> None:
        self.move_cursor(row=self.cursor_row + by)

    def action_jump(self, last: bool) -> None:
        self.move_cursor(row=self.row_count - 1 if last else 0)


class GroupScreen(Screen[None]):
    """One group: its state, members, partitions and rebalances."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "all groups"),
        Binding("tab", "focus_next", "members or partitions"),
        Binding("q", "app.quit", "quit"),
    ]

    def __init__(
        self, group_id: str, view: ClusterView, verdicts: Mapping[str, GroupVerdict]
    ) -> None:
        super().__init__()
        self._group_id = group_id
        self._view = view
        self._verdicts = verdicts

    @override
    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Rows(id="members")
        yield Rows(id="partitions")
        yield Static(id="rebalances")
        yield Footer()

    def on_mount(self) -> None:
        self.show(self._view, self._verdicts)

    def show(self, view: ClusterView, verdicts: Mapping[str, GroupVerdict]) -> None:
        found = [each for each in view.groups if each.description.group_id == self._group_id]
        head = self.query_one("#head", Static)
        if not found:
            head.update(Text(f"{cell(self._group_id)} is gone", "bold red"))
            return
        (group,) = found
        head.update(_group_head(view, group, verdicts.get(self._group_id)))
        self.query_one("#members", Rows).show(
            MEMBER_COLUMNS,
            [(row[0], [*map(_text, map(cell, row))]) for row in member_rows(group)],
        )
        self.query_one("#partitions", Rows).show(_LAG_COLUMNS, _partition_rows(group))
        mine = [each for each in view.rebalances if each.group_id == self._group_id]
        lines = [rebalance_line(each) for each in mine[:_REBALANCES]]
        self.query_one("#rebalances", Static).update(Text("\n".join(map(cell, lines))))


def _partition_rows(group: WatchedGroup) -> list[Row]:
    behind = sorted(group.lag, key=lambda each: (-(each.lag or 0), each.topic, each.partition))
    return [
        (
            f"{each.topic}-{each.partition}",
            [
                _text(cell(value))
                for value in (
                    *(each.topic, each.partition, each.committed, each.end, each.lag),
                    *(each.client_id, each.host),
                )
            ],
        )
        for each in behind[:_PARTITIONS]
    ]


def _group_head(view: ClusterView, group: WatchedGroup, verdict: GroupVerdict | None) -> Text:
    told = group.description
    head = Text(f"{cell(told.group_id)}  ", "bold")
    head.append(cell(told.state), STATES.get(told.state, ""))
    epoch = "" if told.epoch is None else f"  epoch {told.epoch}"
    head.append(
        f"  {told.type}  {cell(told.assignor or told.protocol_type)}{epoch}"
        f"  {len(told.members)} members  lag {group.total_lag}  {clock_time(view.at_ms)}"
    )
    if view.error is not None:
        head.append(f"\n{cell(view.error)}", "bold red")
    for each in () if verdict is None else verdict.findings:
        head.append(f"\n{cell(finding_line(each))}", SEVERITIES[each.severity])
    if len(group.lag) > _PARTITIONS:
        head.append(f"\nthe {_PARTITIONS} partitions that are furthest behind, of {len(group.lag)}")
    return head


class WatchApp(App[None]):
    """All groups of a cluster, each in a row; draws the views that it is given until one of them is the last.

    Args:
        views: where they come from. What it raises ends the program, and is kept in `failed`.
        count: end after so many; None: never.
    """

    CSS = """
    #rebalances { max-height: 8; }
    #wanted { display: none; }
    #wanted.asked { display: block; }
    #members { height: 1fr; }
    #partitions { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "ask", "search"),
        Binding("s", "order", "sort"),
        Binding("enter", "open", "open", priority=False),
        Binding("escape", "all", "all groups", show=False),
        Binding("q", "quit", "quit"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        views: AsyncIterator[ClusterView],
        judge: Callable[[ClusterView], Mapping[str, GroupVerdict]],
        log: Callable[[], str],
        *,
        count: int | None = None,
    ) -> None:
        super().__init__()
        self._views = views
        self._count = count
        self._view = ClusterView(0)
        self._judge = judge
        self._log_text = log
        self._verdicts: Mapping[str, GroupVerdict] = {}
        self._wanted = ""
        self._order = Order.GROUP
        self.failed: GroupSdkError | None = None

    @override
    def compose(self) -> ComposeResult:
        yield Static(Text("waiting for the cluster"), id="head")
        yield Rows(id="groups")
        yield Static(id="rebalances")
        yield Input(id="wanted", placeholder="part of a group's id, or a pattern such as orders-*")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#groups", Rows).focus()
        self.run_worker(self._follow(), exclusive=True)

    async def _follow(self) -> None:
        shown = 0
        try:
            async for view in self._views:
                self.show(view)
                shown += 1
                if shown == self._count:
                    break
        except GroupSdkError as error:
            self.failed = error
        self.exit()

    def show(self, view: ClusterView) -> None:
        """Draw a view; one group that is open as well."""
        self._view = view
        self._verdicts = self._judge(view)
        self._draw()
        if isinstance(self.screen, GroupScreen):
            self.screen.show(view, self._verdicts)

    def _draw(self) -> None:
        base = self.screen_stack[0]
        rows = group_rows(self._view, self._wanted, self._order, self._verdicts)
        fit = fitting(rows, self.size.width - _SCROLLBAR, gap=_GAP)
        base.query_one("#groups", Rows).show(
            [COLUMNS[at] for at in fit.columns],
            [(row.group_id, [_group_cell(row, at) for at in fit.columns]) for row in rows],
            fit.name_width,
        )
        base.query_one("#head", Static).update(self._head(len(rows)))
        lines = [rebalance_line(each) for each in self._view.rebalances[:_REBALANCES]]
        base.query_one("#rebalances", Static).update(Text("\n".join(map(cell, lines))))

    def _head(self, shown: int) -> Text:
        view = self._view
        of = f"{shown} of {len(view.groups)} groups" if self._wanted else f"{shown} groups"
        head = Text(f"{clock_time(view.at_ms)}  {of}", "bold")
        head.append(f"  by {self._order}", "not bold")
        if self._wanted:
            head.append(f"  /{cell(self._wanted)}", "not bold")
        if view.error is not None:
            head.append(f"\n{cell(view.error)}", "bold red")
        if log := self._log_text():
            head.append(f"\n{cell(log)}", "dim")
        return head

    def on_resize(self) -> None:
        self._draw()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if event.data_table.id == "groups":
            chosen = self.query_one("#groups", Rows).chosen
            if chosen is not None:
                self.push_screen(GroupScreen(chosen, self._view, self._verdicts))

    def action_ask(self) -> None:
        if not isinstance(self.screen, GroupScreen):
            box = self.query_one("#wanted", Input)
            box.add_class("asked")
            box.focus()

    def action_all(self) -> None:
        """Show all groups again."""
        self.query_one("#wanted", Input).value = ""
        self._end_question()

    def action_order(self) -> None:
        self._order = self._order.following
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._wanted = event.value
        self._draw()

    def on_input_submitted(self) -> None:
        self._end_question()

    def _end_question(self) -> None:
        self.query_one("#wanted", Input).remove_class("asked")
        self.query_one("#groups", Rows).focus()


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _text(text: str) -> Text:
    return Text(text, no_wrap=True)


def _group_cell(row: GroupRow, at: int) -> Text:
    column, text = COLUMNS[at], row.cells[at]
    style = SEVERITIES[row.severity] if column == "FINDING" else STATES.get(text, "")
    return _styled(text, style, right=column in NUMBERS)


@lru_cache(maxsize=16_384)
def _styled(text: str, style: str, *, right: bool) -> Text:
    # kept: most cells of a thousand groups are as they were a second ago
    justify: JustifyMethod = "right" if right else "left"
    return Text(text, style, justify=justify, overflow="ellipsis", no_wrap=True)
