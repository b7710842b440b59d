"""Draw the pictures of the report as SVG, with matplotlib and without a display."""

from collections.abc import Sequence
from datetime import datetime
from io import StringIO
from typing import Any, Final

import matplotlib as mpl
from matplotlib import dates
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from groupsdk.history.report.data import GroupPage, ReportData
from groupsdk.history.report.palette import CAUSES, LETTERS, colour_of


WIDTH: Final = 11.0
_STYLE: Final[Any] = {
    # letters stay letters: they can be searched and read aloud, and the file stays small
    "svg.fonttype": "none",
    # the same data gives the same bytes
    "svg.hashsalt": "groupsdk",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
}
_MANY_MARKS: Final = 60
_LETTERS_WIDE: Final = 110
_MAX_CLIENTS: Final = 16
_SHORT: Final = 28


def overview(data: ReportData) -> str:
    """Draw which groups rebalance most, and how long they stood still for it."""
    lines = data.overview[:20][::-1]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, 1.2 + 0.28 * max(1, len(lines))))
        left, right = figure.subplots(1, 2, sharey=True)
        names = [_short(line.group_id) for line in lines]
        places = range(len(lines))
        left.barh(
            places,
            [line.generations for line in lines],
            color=[_cause(line.top_cause) for line in lines],
        )
        left.set_yticks(list(places), names)
        left.set_xlabel("rebalances; the colour is the commonest cause")
        for place, line in enumerate(lines):
            storms = f" ({line.storms} storm{'s'[: line.storms != 1]})" if line.storms else ""
            _number(left, line.generations, place, f"{line.generations:,}{storms}")
        left.margins(x=0.25)
        right.barh(places, [line.downtime_ms / 1000 for line in lines], color="#999999")
        right.set_xlabel("seconds without commits around rebalances, summed up")
        _cause_legend(figure, [line.top_cause for line in lines])
        return _svg(figure)


def ownership(page: GroupPage, period: tuple[datetime, datetime] | None = None) -> str:
    """Draw who had which partition when; a line for each generation, with the letter of its cause.

    Args:
        page: the group.
        period: what to show of its time; all of it unless given.
    """
    labels = sorted({each.label for each in page.stretches}, key=_natural)[::-1]
    rows = {label: place for place, label in enumerate(labels)}
    colours = colour_of([each.client for each in page.stretches])
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, 1.6 + 0.2 * max(2, len(labels))))
        axes = figure.subplots()
        heights: dict[tuple[str, Any], float] = {}
        for each in page.stretches:
            # shares of one topic stand on top of each other
            low = heights.get((each.label, each.start), 0.0) if page.by_topic else 0.0
            heights[each.label, each.start] = low + each.share
            axes.barh(
                rows[each.label] - 0.4 + 0.8 * (low + each.share / 2),
                dates.date2num(each.end) - dates.date2num(each.start),
                left=dates.date2num(each.start),
                height=0.8 * each.share,
                color=colours[each.client],
                linewidth=0,
            )
        axes.set_yticks(list(rows.values()), [_short(label) for label in rows])
        _time_axis(axes, page, period)
        _generations(axes, page)
        shown = list(colours.items())[:_MAX_CLIENTS]
        _legend(figure, [(_short(name), colour) for name, colour in shown])
        return _svg(figure)


def members(page: GroupPage) -> str:
    """Draw the members' stays, a row for each client; the mark at the end says how a stay ended."""
    clients = sorted({each.client_id for each in page.stays}, key=_natural)[::-1]
    rows = {client: place for place, client in enumerate(clients)}
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, 1.6 + 0.24 * max(2, len(clients))))
        axes = figure.subplots()
        reasons = set()
        _time_axis(axes, page)
        first, last = axes.get_xlim()
        free: dict[int, float] = {}
        for each in sorted(page.stays, key=lambda stay: stay.end or page.end):
            row = rows[each.client_id]
            end = each.end or page.end
            start = dates.date2num(each.start)
            axes.barh(
                row,
                max(dates.date2num(end) - start, 0),
                left=start,
                height=0.55,
                color="#9ecae1",
                edgecolor="#4a7fa5",
                linewidth=0.5,
            )
            if each.end is not None:
                reasons.add(each.end_reason)
                at = dates.date2num(end)
                axes.plot([at, at], [row - 0.4, row + 0.4], color=_dark(each.end_reason), lw=0.8)
                # a letter only where the one before leaves room for it: the table has them all
                if at < free.get(row, first):
                    continue
                free[row] = at + 2 * (last - first) / _LETTERS_WIDE
                axes.text(
                    at,
                    row,
                    LETTERS.get(each.end_reason, "D"),
                    ha="center",
                    va="center",
                    fontsize=8,
                    fontweight="bold",
                    color="white",
                    bbox={"boxstyle": "circle,pad=0.15", "fc": _dark(each.end_reason), "lw": 0},
                )
        axes.set_yticks(list(rows.values()), [_short(client) for client in rows])
        axes.set_ylim(-0.7, len(clients) - 0.3)
        legend = [(f"{LETTERS.get(r, 'D')}  {r}", _dark(r)) for r in sorted(reasons)]
        _legend(figure, legend)
        return _svg(figure)


def causes(data: ReportData) -> str:
    """Draw how many rebalances came when and from what; grey lines are changes of a coordinator."""
    names = sorted({cause for _, cause, _ in data.causes_by_time})
    times = sorted({time for time, _, _ in data.causes_by_time})
    counts = {(time, cause): n for time, cause, n in data.causes_by_time}
    width = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}[data.bucket] / 86_400
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, 3.0))
        axes = figure.subplots()
        bottoms = [0] * len(times)
        for name in names:
            heights = [counts.get((time, name), 0) for time in times]
            axes.bar(
                [dates.date2num(time) for time in times],
                heights,
                width=width * 0.9,
                align="edge",
                bottom=bottoms,
                color=_cause(name),
                linewidth=0,
            )
            bottoms = [low + more for low, more in zip(bottoms, heights, strict=True)]
        for change in data.coordinator_changes[:_MANY_MARKS]:
            axes.axvline(dates.date2num(change), color="#555555", linewidth=4, alpha=0.3)
        axes.set_ylabel(f"rebalances a {data.bucket}")
        _dates(axes)
        _cause_legend(figure, names)
        return _svg(figure)


def gaps(data: ReportData) -> str:
    """Draw for how long partitions had no commits around rebalances, by cause, and how far groups are behind."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, 1.6 + 0.3 * max(2, len(data.gaps), min(15, len(data.lag)))))
        left, right = figure.subplots(1, 2)
        rows = data.gaps[::-1]
        for place, (cause, _, median, p95, longest) in enumerate(rows):
            left.barh(place, longest / 1000, height=0.7, color=_cause(cause), alpha=0.35)
            left.barh(place, p95 / 1000, height=0.5, color=_cause(cause), alpha=0.6)
            left.barh(place, median / 1000, height=0.3, color=_cause(cause))
            _number(left, longest / 1000, place, f"{longest / 1000:,.1f}")
        left.margins(x=0.15)
        left.set_yticks(range(len(rows)), [row[0] for row in rows])
        left.set_xlabel("seconds without a commit: median, 95 %, longest")
        behind = data.lag[:15][::-1]
        for place, (_, _, median, p95, longest) in enumerate(behind):
            right.barh(place, longest, height=0.7, color="#bbbbbb")
            right.barh(place, p95, height=0.5, color="#888888")
            right.barh(place, median, height=0.3, color="#333333")
            _number(right, longest, place, f"{longest:,}")
        right.margins(x=0.15)
        right.set_xlim(left=0, right=None if any(row[4] for row in behind) else 1)
        right.set_yticks(range(len(behind)), [_short(f"{row[0]} ({row[1]})") for row in behind])
        right.set_xlabel("lag in records: median, 95 %, highest")
        return _svg(figure)


def what_if(page: GroupPage) -> str:
    """Draw how many partitions would have moved under each assignor, and how uneven it would have been."""
    rows = [each for each in page.what_if if not each.problems][::-1]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, 1.2 + 0.32 * max(2, len(rows))))
        left, right = figure.subplots(1, 2, sharey=True)
        colours = ["#D55E00" if each.assignor == "actual" else "#0072B2" for each in rows]
        places = range(len(rows))
        left.barh(places, [each.moves for each in rows], color=colours)
        left.set_yticks(list(places), [_actual(each.assignor) for each in rows])
        left.set_xlabel("partitions that moved")
        for place, each in enumerate(rows):
            _number(left, each.moves, place, f"{each.moves:,}")
        left.margins(x=0.15)
        uneven = [each.mean_stddev or 0.0 for each in rows]
        right.barh(places, uneven, color=colours)
        for place, value in enumerate(uneven):
            _number(right, value, place, f"{value:.2f}")
        right.margins(x=0.15)
        right.set_xlim(left=0, right=None if any(uneven) else 1)
        right.set_xlabel("unevenness: mean standard deviation of partitions a member")
        return _svg(figure)


def quality(data: ReportData) -> str:
    """Draw how much of each partition's offsets was there to be read."""
    rows = data.quality[:50][::-1]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, 1.2 + 0.22 * max(2, len(rows))))
        axes = figure.subplots()
        for place, row in enumerate(rows):
            there, missing = row[3], row[4]
            axes.barh(place, there, color="#009E73")
            axes.barh(place, missing, left=there, color="#D55E00", hatch="///", edgecolor="white")
        axes.set_yticks(range(len(rows)), [f"partition {row[0]}" for row in rows])
        axes.set_xlabel("offsets: records read, and missing ones (hatched)")
        _legend(figure, [("read", "#009E73"), ("missing", "#D55E00")])
        return _svg(figure)


def _number(axes: Any, value: float, place: int, text: str) -> None:
    """Write a bar's value behind its end, so that a bar of zero is seen as well."""
    axes.annotate(text, (value, place), (3, 0), textcoords="offset points", va="center", fontsize=8)


def _generations(axes: Any, page: GroupPage) -> None:
    first, last = axes.get_xlim()
    marks = [mark for mark in page.generations if first <= dates.date2num(mark.ts) <= last]
    many = len(marks) > _MANY_MARKS
    free = first
    for mark in marks:
        at = dates.date2num(mark.ts)
        axes.axvline(at, color="black", linewidth=0.3 if many else 0.6, alpha=0.35 if many else 0.6)
        # a letter only where the one before leaves room for it: the table has them all
        if at >= free:
            free = at + (last - first) / _LETTERS_WIDE
            axes.text(
                at,
                1.01,
                LETTERS.get(mark.cause, "?"),
                transform=axes.get_xaxis_transform(),
                ha="center",
                fontsize=8,
                fontweight="bold",
                color=_dark(mark.cause),
            )


def _time_axis(axes: Any, page: GroupPage, period: tuple[datetime, datetime] | None = None) -> None:
    times = [mark.ts for mark in page.generations]
    if period is not None:
        axes.set_xlim(dates.date2num(period[0]), dates.date2num(period[1]))
    elif times and max(*times, page.end) > min(times):
        first, last = dates.date2num(min(times)), dates.date2num(max(*times, page.end))
        room = (last - first) * 0.015
        axes.set_xlim(first - room, last + room)
    _dates(axes)


def _dates(axes: Any) -> None:
    locator = dates.AutoDateLocator(minticks=4, maxticks=10)
    axes.xaxis_date()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    axes.set_xlabel("UTC")


def _cause_legend(figure: Any, names: Sequence[str]) -> None:
    _legend(figure, [(f"{LETTERS.get(n, '?')}  {n}", _cause(n)) for n in sorted(set(names))])


def _legend(figure: Any, entries: Sequence[tuple[str, str]]) -> None:
    if entries:
        figure.legend(
            handles=[Patch(facecolor=colour, label=name) for name, colour in entries],
            loc="outside upper center",
            ncols=min(6, len(entries)),
            frameon=False,
            fontsize=8,
        )


def _cause(name: str) -> str:
    return CAUSES.get(name, "#777777")


def _dark(name: str) -> str:
    """A colour of a cause that white letters, and letters on white, can be read in."""
    pale = {"#F0E442": "#8a8200", "#DDDDDD": "#777777", "#56B4E9": "#1f78a8", "#E69F00": "#a06d00"}
    colour = _cause(name)
    return pale.get(colour, colour)


def _actual(assignor: str) -> str:
    return "as it happened" if assignor == "actual" else assignor


def _short(name: str) -> str:
    # a dollar would start a formula
    text = name if len(name) <= _SHORT else f"{name[: _SHORT - 1]}…"
    return text.replace("$", r"\$")


def _natural(label: str) -> tuple[str, int]:
    head, _, number = label.rpartition("-")
    return (head, int(number)) if number.isdecimal() else (label, -1)


def _svg(figure: Figure) -> str:
    figure.set_layout_engine("constrained")
    out = StringIO()
    FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
