"""Lay out the report's charts: positioned and coloured bars, marks and labels, which a template writes as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Final, NamedTuple

from groupsdk.history.explain.assignor_replay import ACTUAL
from groupsdk.history.explain.changes import Cause
from groupsdk.history.report.data import GroupPage, OwnershipSpan, ReportData


# Colour-blind safe: Okabe and Ito's palette, and the darker half of Paul Tol's "muted" one for what goes beyond it
SERIES: Final = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999"),
    *("#332288", "#AA4499", "#117733", "#882255", "#44AA99", "#999933", "#661100", "#6699CC"),
)

_LOOKS: Final = {
    Cause.JOIN: ("J", "#0072B2"),
    Cause.LEAVE: ("L", "#56B4E9"),
    Cause.EXPIRY: ("X", "#D55E00"),
    Cause.POLL_TIMEOUT: ("P", "#CC6677"),
    Cause.CLIENT_RESTART: ("R", "#E69F00"),
    Cause.COORDINATOR_RESTART: ("C", "#882255"),
    Cause.STATIC_REPLACED: ("S", "#F0E442"),
    Cause.SUBSCRIPTION_CHANGE: ("U", "#CC79A7"),
    Cause.TOPIC_GROWTH: ("G", "#009E73"),
    Cause.TOPIC_DELETED: ("D", "#117733"),
    Cause.WORK_CHANGE: ("W", "#999933"),
    Cause.COOPERATIVE_FOLLOWUP: ("F", "#44AA99"),
    Cause.REJOIN: ("A", "#332288"),
    Cause.CREATED: ("0", "#DDDDDD"),
    Cause.UNKNOWN: ("?", "#777777"),
}
LETTERS: Final = {str(cause): letter for cause, (letter, _) in _LOOKS.items()}
"""A letter for each cause, for readers who cannot distinguish the colours."""
CAUSES: Final = {str(cause): colour for cause, (_, colour) in _LOOKS.items()}
"""A colour for each cause, the same in every picture."""

WIDTH: Final = 1060
_ROW: Final = 16
_TOP: Final = 26
_RIGHT: Final = 16
_LETTER: Final = 6.4
_MIN_BAR: Final = 0.8
_MAX_LABEL: Final = 34
_TICKS: Final = 6
_BARS: Final = 30
_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 2 * 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400),
)
_OTHER: Final = "#777777"
_UNSURE: Final = 0.45
_BROKERS: Final = "other coordinators"


def colour_of(names: list[str]) -> dict[str, str]:
    """Assign each name a colour; the same names get the same colours, which repeat after sixteen."""
    return {name: SERIES[place % len(SERIES)] for place, name in enumerate(sorted(set(names)))}


class Bar(NamedTuple):
    """A filled rectangle; `colour` is a CSS colour, `opacity` from 0 to 1, and `title` the tooltip."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    title: str
    opacity: float = 1.0


class Text(NamedTuple):
    """A label; `anchor` is SVG's text-anchor: "start", "middle" or "end", and `is_faint` draws it in grey."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    is_faint: bool = False


class Line(NamedTuple):
    """A vertical or horizontal line from `x1`, `y1` to `x2`, `y2`; `is_faint` draws it in grey."""

    x1: float
    y1: float
    x2: float
    y2: float
    is_faint: bool = True


@dataclass(slots=True)
class Picture:
    """One picture: its size, and its `bars`, `lines` and `texts` in drawing order."""

    title: str
    """The text for screen readers."""
    height: float = 0.0
    width: float = WIDTH
    bars: list[Bar] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)
    """The names in the legend and their colours."""


def short(text: str, most: int = _MAX_LABEL) -> str:
    """Shorten a long name in the middle."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


class _Rows:
    """Rows with labels at the left, below a scale."""

    def __init__(self, title: str, labels: Sequence[str]) -> None:
        self.picture = Picture(title)
        longest = max((len(short(each)) for each in labels), default=0)
        self.left = 12 + _LETTER * longest
        self.right = WIDTH - _RIGHT
        self.top = _TOP
        self.bottom = self.top + _ROW * len(labels)
        self.at = {label: self.top + _ROW * place for place, label in enumerate(labels)}
        self.picture.height = self.bottom + 22
        for label, y in self.at.items():
            self.picture.texts.append(Text(self.left - 6, y + _ROW - 4, short(label), "end"))

    def bar(
        self, label: str, x1: float, x2: float, colour: str, title: str, opacity: float = 1.0
    ) -> None:
        width = max(x2 - x1, _MIN_BAR)
        bar = Bar(x1, self.at[label] + 2, width, _ROW - 4, colour, title, opacity)
        self.picture.bars.append(bar)

    def scale(self, x: float, text: str) -> None:
        self.picture.lines.append(Line(x, self.top, x, self.bottom))
        anchor = "middle"
        if x + _LETTER * len(text) / 2 > WIDTH:
            x, anchor = WIDTH - 2, "end"
        self.picture.texts.append(Text(x, self.bottom + 14, text, anchor, is_faint=True))


class _Times(_Rows):
    """Rows over a time."""

    def __init__(self, title: str, labels: Sequence[str], start: datetime, end: datetime) -> None:
        super().__init__(title, labels)
        self.start = start
        self.end = max(end, start + timedelta(milliseconds=1))
        self._scale()

    def x(self, time: datetime) -> float:
        share = (time - self.start) / (self.end - self.start)
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)

    def _scale(self) -> None:
        seconds = (self.end - self.start).total_seconds()
        step = next((each for each in _STEPS if seconds / each <= _TICKS), 0)
        if not step:
            # a clock that was astray by centuries would get a label for each of their years
            step = _STEPS[-1] * ceil(seconds / _STEPS[-1] / _TICKS)
        first = -(-self.start.timestamp() // step) * step
        shape = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86_400 else "%m-%d"
        if step >= _STEPS[-1]:
            shape = "%Y-%m"
        last_day = ""
        while first <= self.end.timestamp():
            at = datetime.fromtimestamp(first, self.start.tzinfo)
            day = f"{at:%m-%d}"
            text = f"{at:{shape}}"
            if step < 86_400 and day != last_day:
                text, last_day = f"{day} {text}", day
            self.scale(self.x(at), text)
            first += step


class _Numbers(_Rows):
    """Rows over numbers from 0."""

    def __init__(self, title: str, labels: Sequence[str], most: float, unit: str = "") -> None:
        super().__init__(title, labels)
        self.most = most or 1.0
        step = _round(self.most / 5)
        at = 0.0
        while at <= self.most:
            self.scale(self.x(at), f"{at:,.10g}{unit}")
            at += step

    def x(self, value: float) -> float:
        return self.left + value / self.most * (self.right - self.left - 60)


def _round(value: float) -> float:
    """Return a round number that is not below the value."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(power * each for each in (1, 2, 5, 10) if power * each >= value)


def ownership(page: GroupPage, period: tuple[datetime, datetime] | None = None) -> Picture | None:
    """Draw the owner of each partition by generation, for a period or the whole; None if there is nothing to draw."""
    if not page.ownership:
        return None
    start, end = period or (min(each.start for each in page.ownership), page.end)
    shown = page.ownership
    if period is not None:
        shown = [each for each in shown if each.start < end and each.end > start]
    if not shown:
        return None
    labels = sorted({each.label for each in shown}, key=_by_number)
    rows = _Times(f"Who had what in {page.group_id}", labels, start, end)
    colours = colour_of([each.client for each in page.ownership])
    if page.by_topic:
        _shares(rows, shown, colours)
    else:
        for each in shown:
            rows.bar(
                each.label,
                rows.x(each.start),
                rows.x(each.end),
                colours[each.client],
                f"{each.label}: {each.client}, {each.start:%H:%M:%S} to {each.end:%H:%M:%S}",
            )
    _marks(rows, page, start, end)
    clients = sorted({each.client for each in shown})
    rows.picture.legend = [(short(each), colours[each]) for each in clients]
    return rows.picture


def _shares(rows: _Times, shown: Sequence[OwnershipSpan], colours: dict[str, str]) -> None:
    """Draw a topic's row as clients side by side, each as high as its share."""
    clients = sorted({each.client for each in shown})
    filled: dict[tuple[str, datetime], float] = {}
    for each in sorted(shown, key=lambda each: clients.index(each.client)):
        x1, x2 = rows.x(each.start), rows.x(each.end)
        place = each.label, each.start
        below = filled.get(place, 0.0)
        filled[place] = below + each.share
        height = (_ROW - 4) * each.share
        y = rows.at[each.label] + 2 + (_ROW - 4) * min(below, 1.0)
        title = f"{each.label}: {each.client}, {each.share:.0%}"
        width = max(x2 - x1, _MIN_BAR)
        rows.picture.bars.append(Bar(x1, y, width, height, colours[each.client], title))


def _by_number(label: str) -> tuple[str, int]:
    topic, _, number = label.rpartition("-")
    return (topic, int(number)) if number.isdecimal() else (label, -1)


def _marks(rows: _Times, page: GroupPage, start: datetime, end: datetime) -> None:
    """Draw a line for each generation, with the letter of its cause where there is room."""
    last = -100.0
    for mark in page.generations:
        if not start <= mark.ts <= end:
            continue
        x = rows.x(mark.ts)
        rows.picture.lines.append(Line(x, rows.top - 4, x, rows.bottom, is_faint=False))
        if x - last >= _LETTER + 2:
            letter = LETTERS.get(mark.cause, "?")
            rows.picture.texts.append(Text(x, rows.top - 8, letter, "middle"))
            last = x


def members(page: GroupPage) -> Picture | None:
    """Draw the memberships, a row for each client; None if there are none."""
    if not page.stays:
        return None
    start = min(each.start for each in page.stays)
    clients = sorted({each.client_id for each in page.stays}, key=_by_number)[:_BARS]
    rows = _Times(f"Who came and went in {page.group_id}", clients, start, page.end)
    used = {}
    for each in page.stays:
        if each.client_id not in rows.at:
            continue
        reason = each.end_reason or "stays"
        colour = CAUSES.get(reason, _OTHER)
        used[reason] = colour
        rows.bar(
            each.client_id,
            rows.x(each.start),
            max(rows.x(each.start) + 1, rows.x(each.end or page.end) - 1),
            colour,
            f"{each.client_id} ({each.member_id}): {each.start:%m-%d %H:%M:%S}"
            f" to {'the end' if each.end is None else format(each.end, '%H:%M:%S')}, {reason}",
        )
    rows.picture.legend = sorted(used.items())
    return rows.picture


def causes(data: ReportData) -> Picture | None:
    """Draw the rebalances of each cause over time; None if there are none."""
    if not data.causes_by_time or data.start is None or data.end is None:
        return None
    seconds = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}[data.bucket]
    there = {each[1] for each in data.causes_by_time}
    names = [each for each in LETTERS if each in there]
    names += sorted(there - set(names))
    begin = min(each[0] for each in data.causes_by_time)
    end = max(each[0] for each in data.causes_by_time) + timedelta(seconds=seconds)
    rows = _Times("Rebalances by cause over time", names, begin, end)
    most = max(each[2] for each in data.causes_by_time)
    for time, cause, n, sure in data.causes_by_time:
        x1 = rows.x(time)
        x2 = rows.x(time + timedelta(seconds=seconds))
        title = f"{time:%m-%d %H:%M:%S}: {n:,} of {cause}, {sure:,} of them sure"
        rows.bar(cause, x1, x2, CAUSES.get(cause, _OTHER), title, 0.35 + 0.65 * n / most)
    for change in data.coordinator_changes:
        x = rows.x(change)
        rows.picture.lines.append(Line(x, rows.top - 6, x, rows.bottom, is_faint=False))
    rows.picture.legend = [(each, CAUSES.get(each, _OTHER)) for each in names]
    return rows.picture


def overview(data: ReportData) -> Picture | None:
    """Draw what each cause cost each group, in partition-seconds without progress; None if no group rebalanced.

    Where nothing stood still, or the log has no commits, rebalances are drawn. What is not sure is paler.
    """
    lines = data.overview[:_BARS]
    if not lines:
        return None
    is_cost = any(line.stalled_ms for line in lines)
    name = "Partition-seconds without progress" if is_cost else "Rebalances"
    most = max(line.stalled_ms / 1000 if is_cost else line.generations for line in lines)
    rows = _Numbers(f"{name} by group and cause", [line.group_id for line in lines], most)
    used: dict[str, str] = {}
    for line in lines:
        at = 0.0
        for part in line.parts:
            whole, sure = (
                (part.stalled_ms / 1000, part.sure_ms / 1000)
                if is_cost
                else (part.rebalances, part.sure)
            )
            if not whole:
                continue
            colour = used[part.cause] = CAUSES.get(part.cause, _OTHER)
            title = (
                f"{line.group_id}: {part.cause}, {part.stalled_ms / 1000:,.1f} partition-seconds,"
                f" {part.rebalances:,} rebalances, {part.sure:,} of these causes are sure"
            )
            for length, opacity in ((sure, 1.0), (whole - sure, _UNSURE)):
                if length:
                    x1, x2 = rows.x(at), rows.x(at + length)
                    rows.bar(line.group_id, x1, x2, colour, title, opacity)
                    at += length
        text = f"{at:,.0f}"
        rows.picture.texts.append(
            Text(rows.x(at) + 5, rows.at[line.group_id] + _ROW - 4, text, is_faint=True)
        )
    rows.picture.legend = sorted(used.items())
    return rows.picture


def clock(data: ReportData) -> Picture | None:
    """Draw when the groups stood still, on one clock, with other coordinators of the log in a lane above; None if none did."""
    if not data.clock or data.start is None or data.end is None:
        return None
    named = {each.group_id for each in data.clock}
    labels = [line.group_id for line in data.overview if line.group_id in named][:_BARS]
    start = min(data.start, *(each.start for each in data.clock), data.clock[0].start)
    end = max(data.end, *(each.end for each in data.clock), data.clock[0].end)
    rows = _Times("When groups stood still", [_BROKERS, *labels], start, end)
    used: dict[str, str] = {}
    for each in data.clock:
        if each.group_id not in rows.at:
            continue
        colour = used[each.cause] = CAUSES.get(each.cause, _OTHER)
        title = (
            f"{each.group_id}: {each.partitions:,} partitions, {each.stalled_ms / 1000:,.1f} partition-seconds"
            f" without progress, {each.start:%m-%d %H:%M:%S} to {each.end:%H:%M:%S}, {each.cause}"
        )
        rows.bar(each.group_id, rows.x(each.start), rows.x(each.end), colour, title, 0.8)
    colour = CAUSES[str(Cause.COORDINATOR_RESTART)]
    for change in data.coordinator_changes:
        x = rows.x(change)
        title = f"{change:%m-%d %H:%M:%S}: another broker leads a partition of the log"
        rows.bar(_BROKERS, x, x + 3, colour, title)
        rows.picture.lines.append(Line(x, rows.top, x, rows.bottom))
    rows.picture.legend = sorted(used.items())
    return rows.picture


def gaps(data: ReportData) -> Picture | None:
    """Draw how long commits paused around rebalances of each cause; None if unknown."""
    if not data.gaps:
        return None
    most = max(high for _, _, _, high, _ in data.gaps) / 1000
    rows = _Numbers("Gaps between commits by cause", [each[0] for each in data.gaps], most, " s")
    for cause, n, median, high, longest in data.gaps:
        colour = CAUSES.get(cause, _OTHER)
        title = f"{cause}, {n:,} times: median {median / 1000:,.3f} s, 95 % below {high / 1000:,.3f} s, longest {longest / 1000:,.3f} s"
        rows.bar(cause, rows.x(0), rows.x(max(0, high) / 1000), colour, title, 0.35)
        _value(rows, cause, max(0, median) / 1000, "", colour, title)
    return rows.picture


def what_if(page: GroupPage) -> Picture | None:
    """Draw how many partitions each assignor would have moved; None if no assignor has a result, or none moves any."""
    done = [each for each in page.what_if if not each.problems]
    most = max((each.moves for each in done), default=0)
    if not most:
        return None
    names = [page.label(each.assignor) for each in done]
    rows = _Numbers(f"Partitions moved in {page.group_id}, by assignor", names, most)
    for each in done:
        colour = _OTHER if each.assignor == ACTUAL else "#0072B2"
        name = page.label(each.assignor)
        title = f"{name}: {each.moves:,} moved, {each.revoked:,} revoked"
        _value(rows, name, each.moves, f"{each.moves:,}", colour, title)
    return rows.picture


def quality(data: ReportData) -> Picture | None:
    """Draw how much of each partition of the log was present; None if all of it was."""
    worse = [row for row in data.quality if row[4] or row[5]][:_BARS]
    if not worse:
        return None
    rows = _Numbers("Offsets that were there", [f"partition {row[0]}" for row in worse], 100, " %")
    for partition, _, _, records, missing, *_ in worse:
        share = 100 * records / (records + missing) if records + missing else 0.0
        title = f"partition {partition}: {records:,} of {records + missing:,} offsets"
        _value(rows, f"partition {partition}", share, f"{share:.1f} %", "#0072B2", title)
    return rows.picture


def _value(rows: _Numbers, label: str, value: float, text: str, colour: str, title: str) -> None:
    rows.bar(label, rows.x(0), rows.x(value), colour, title)
    if text:
        at = Text(rows.x(value) + 5, rows.at[label] + _ROW - 4, text, is_faint=True)
        rows.picture.texts.append(at)
