"""Write the report: one self-contained HTML file that needs no network."""

from collections.abc import Callable, Container, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from groupsdk.history.explain.assignor_replay import ACTUAL
from groupsdk.history.report import drawing
from groupsdk.history.report.data import (
    MAX_ROWS,
    AdviceLine,
    GenerationMark,
    GroupPage,
    ReportData,
    StormLine,
    WhatIf,
)
from groupsdk.history.report.drawing import LETTERS, Picture
from groupsdk.history.standing import partition_seconds
from groupsdk.printable import printable_lines
from groupsdk.verdict.rules.rule import plural
from groupsdk.version import __version__


_MARGIN: Final = 0.05
_NARROW: Final = 3  # times narrower than the whole
_MAX_STORMS: Final = 5
"""How many storms of a group are drawn closer: its largest."""
_FIRST_ADVICE: Final = 5
"""How much advice stands at the top."""
_LEGEND_ROW: Final = 16
_LETTER: Final = 6.6
_ADVICE: Final = {
    "static_membership": "static membership would have avoided",
    "longer_session": "a longer session would have avoided",
    "initial_delay": "a delay of the first rebalance would have avoided",
    "poll_interval": "more time between two polls would have avoided",
    "restart_together": "deployments at once would have avoided",
    "other_assignor": "another assignor would have avoided",
    "cooperative": "the cooperative protocol would have avoided",
}

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "overview": (
        *("group", "protocol", "rebalances", "an hour", "partitions moved"),
        *("storms", "most common cause", "partition-seconds without progress"),
    ),
    "storms": (
        *("group", "from", "to", "rebalances", "partitions moved"),
        *("causes", "client behind most of it", "partition-seconds without progress"),
    ),
    "advice": (
        *("group", "advice", "setting", "pays", "rebalances spared", "of", "moves spared"),
        *("revocations spared", "partition-seconds without progress spared", "and added"),
        *("records late spared", "and added", "absences bridged", "gone for good", "generations"),
    ),
    "marks": (
        *("generation", "time", "cause", "evidence", "confidence", "members", "moved"),
        *("seconds since the last", "other coordinator", "the broker's reason"),
    ),
    "what_if": (
        *("assignor", "generations", "partitions moved", "revoked", "mean deviation"),
        *("worst spread", "failed", "rank"),
    ),
    "costs": (
        *("cause", "rebalances", "of these sure", "partition-seconds without progress"),
        "of these sure",
    ),
    "slo": (
        *("group", "objective", "read in time %", "budget left %", "burn 1h", "6h", "3d"),
        *("partitions that stand still", "partition-seconds late", "alert"),
    ),
    "quality": (
        *("partition", "first offset", "last offset", "records", "missing offsets", "bad batches"),
        *("undecodable", "unknown types", "missing generations", "from", "to"),
    ),
}


def render(data: ReportData, *, title: str = "What happened to the groups") -> str:
    """Write the report as HTML; every number in a picture stands in the table under it, too."""
    pages = [_page(page, data) for page in data.pages]
    anchors = {page.group_id: anchor_of(page.group_id) for page in data.pages}
    shown = {(page.group_id, mark.seq) for page in data.pages for mark in page.generations}
    storm_anchors = {each["of"]: each["anchor"] for page in pages for each in page["storms"]}
    links = [
        ("overview", "Overview"),
        ("advice", "Advice"),
        ("causes", "Causes"),
        ("costs", "Costs"),
    ]
    if not data.n_generations:
        links = []
    links += [(anchor, group) for group, anchor in anchors.items()]
    return printable_lines(
        environment()
        .get_template("report.html.jinja")
        .render(
            data=data,
            title=title,
            version=__version__,
            opening=opening(data),
            trust=trust(data),
            advice=[each for each in data.advice if each.pays][:_FIRST_ADVICE],
            dear_advice=[each for each in data.advice if not each.pays][:_FIRST_ADVICE],
            anchors=anchors,
            links=[*links, ("quality", "Data quality")],
            names=_NAMES,
            max_rows=MAX_ROWS,
            pages=pages,
            pictures={
                "overview": drawing.overview(data),
                "clock": drawing.clock(data),
                "causes": drawing.causes(data),
                "gaps": drawing.gaps(data),
                "quality": drawing.quality(data),
            },
            overview_rows=_overview_rows(data, anchors),
            storm_rows=_storm_rows(data, storm_anchors, anchors),
            advice_rows=_advice_rows(data, shown),
            cost_rows=[
                (
                    each.cause,
                    each.rebalances,
                    each.sure,
                    each.stalled_ms / 1000,
                    each.sure_ms / 1000,
                )
                for each in data.costs
            ],
            slo_rows=_slo_rows(data, anchors),
            missed=[each for each in data.budgets if each.budget_left < 0],
            links_of=lambda line: _generations(line, shown),
            cause_rows=[(_time(time), *rest) for time, *rest in data.causes_by_time],
            gap_rows=[(c, n, m / 1000, p / 1000, x / 1000) for c, n, m, p, x in data.gaps],
            quality_rows=[(*row[:9], _time(row[9]), _time(row[10])) for row in data.quality],
        )
    )


def svg_file(picture: Picture) -> str:
    module: Any = environment().get_template("picture.svg.jinja").make_module()
    return str(module.draw(picture, standalone=True)) + "\n"


@cache
def environment() -> Environment:
    """Return Jinja's environment with the templates of this package."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "number": lambda value: f"{value:,}",
        "place": lambda value: f"{value:.2f}".rstrip("0").rstrip("."),
        "time": _time,
        "cell": _cell,
        "advice": advice_text,
    }
    templates.filters |= filters
    templates.globals |= {"legend_of": _legend_of, "legend_height": _legend_height}
    return templates


def _legend_of(picture: Picture) -> list[dict[str, Any]]:
    """Lay out a legend in lines below the chart."""
    found = []
    x, y = 12.0, picture.height + _LEGEND_ROW - 4
    for name, colour in picture.legend:
        width = 14 + _LETTER * len(name) + 16
        if x + width > picture.width and x > 12:
            x, y = 12.0, y + _LEGEND_ROW
        found.append({"x": x, "y": y, "colour": colour, "name": name})
        x += width
    return found


def _legend_height(picture: Picture) -> float:
    found = _legend_of(picture)
    return found[-1]["y"] - picture.height + 6 if found else 0


def opening(data: ReportData) -> str:
    """Return two sentences on the subject of the report, and the group that stands out."""
    if data.start is None or data.end is None or not data.overview:
        return f"{plural(data.n_groups, 'group')}, {plural(data.n_commits, 'committed offset')}, no rebalance."
    about = (
        f"{_time(data.start)} to {_time(data.end)}: {plural(data.n_generations, 'rebalance')} of"
        f" {plural(data.n_groups, 'group')}, {plural(data.n_commits, 'committed offset')}."
    )
    first = max(data.overview, key=lambda each: each.generations)
    share = 100 * first.generations / data.n_generations
    text = (
        f" {first.group_id} rebalanced most often, {plural(first.generations, 'time')} ({share:.0f} %),"
        f" mostly for {first.top_cause}."
    )
    dearest = data.overview[0]
    if dearest.stalled_ms:
        total = sum(each.stalled_ms for each in data.costs)
        text = (
            f"{about} Partitions that usually make progress stood still for {partition_seconds(total)},"
            f" {100 * dearest.stalled_ms / total:.0f} % of it in {dearest.group_id}, most for {dearest.parts[0].cause};"
            f"{text}"
        )
    else:
        text = f"{about}{text}"
    if data.storms:
        verb = "was" if len(data.storms) == 1 else "were"
        text += f" There {verb} {plural(len(data.storms), 'storm')}."
    return text


def trust(data: ReportData) -> Markup:
    """Return how far the data can be trusted; shown before the data."""
    records = sum(row[3] for row in data.quality)
    gaps = sum(row[4] for row in data.quality)
    bad = sum(row[5] for row in data.quality)
    undecodable = sum(row[6] for row in data.quality)
    unknown = [row[7] for row in data.quality if row[7]]
    missing = sum(row[8] for row in data.quality)
    share = 100 * records / (records + gaps) if records + gaps else 0.0
    generations = data.n_generations + missing
    lost = 100 * missing / generations if generations else 0.0
    text = (
        f"{plural(records, 'record')} of {plural(len(data.quality), 'partition')} of the log"
        f" were read, {share:.1f} % of the offsets they span. {missing:,} of {generations:,} generations"
        f" ({lost:.1f} %) are missing. {bad:,} batches were damaged, {undecodable:,} records could not be"
        " decoded."
    )
    if unknown:
        text += f" Record types that are not known: {'; '.join(unknown)}."
    if missing:
        text += (
            " A generation is missing where its record was compacted away, or where the next rebalance began before"
            " its assignment was written."
        )
    if gaps:
        text += (
            " Offsets are missing where the log was compacted: only the last record of each group and offset is left"
            " of older times, and rebalances between them are not seen; or where files of the log are missing or were emptied."
        )
    return Markup("<b>How far to trust this:</b> {}").format(text)


def advice_text(line: AdviceLine) -> str:
    """Describe the rebalances, moves or revocations that a change would have avoided."""
    parts = []
    if line.rebalances:
        parts.append(f"{line.rebalances:,} of {line.of_rebalances:,} rebalances")
    if line.moves:
        parts.append(f"{plural(line.moves, 'move')} of partitions")
    if line.revoked:
        parts.append(f"{plural(line.revoked, 'revocation')}")
    if line.spared_ms:
        parts.append(f"{partition_seconds(line.spared_ms)} without progress")
    said = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
    return f"{_ADVICE.get(line.advice, line.advice)} {said}{_price(line)}:"


def _price(line: AdviceLine) -> str:
    """Describe what a change would have cost, and when it does not hold."""
    said = ""
    if line.added_ms:
        verb = "cost" if line.pays else "but cost more:"
        said = f", and {verb}" if line.pays else f", {verb}"
        said += f" {partition_seconds(line.added_ms)} without progress"
        if line.late_added:
            said += f" ({plural(line.late_added, 'record')} late)"
        if line.back:
            said += f", as nobody takes over while a member is away ({plural(line.back, 'time')})"
    if line.gone:
        said += (
            f"; {plural(line.gone, 'member')} went for good, and the partitions of each would have waited"
            " for the end of its session"
        )
    return said


def storms_to_show(page: GroupPage, data: ReportData) -> list[StormLine]:
    """Return a group's largest storms that are too short to be visible in the overall chart, in order."""
    if not page.generations:
        return []
    whole = page.end - page.generations[0].ts
    mine = [each for each in data.storms if each.group_id == page.group_id]
    narrow = []
    for each in mine:
        start, end = around(each)
        if (end - start) * _NARROW < whole and start >= page.generations[0].ts - (end - start):
            narrow.append(each)
    largest = sorted(narrow, key=lambda each: -each.generations)[:_MAX_STORMS]
    return sorted(largest, key=lambda each: each.start)


def around(storm: StormLine) -> tuple[datetime, datetime]:
    """Return a storm's time with a little before and after."""
    margin = max((storm.end - storm.start) * _MARGIN, timedelta(seconds=1))
    return storm.start - margin, storm.end + margin


def letters(marks: Sequence[GenerationMark]) -> str:
    causes = {mark.cause for mark in marks}
    named = [f"{letter} {cause}" for cause, letter in LETTERS.items() if cause in causes]
    return ", ".join([*named, *(["? any other"] if causes - LETTERS.keys() else [])])


def _page(page: GroupPage, data: ReportData) -> dict[str, Any]:
    storms = []
    for number, storm in enumerate(storms_to_show(page, data), 1):
        picture = drawing.ownership(page, around(storm))
        if picture is not None:
            caption = f"A storm, {_time(storm.start)} to {_time(storm.end)}: {plural(storm.generations, 'rebalance')}"
            if storm.culprit:
                caption += f", most of them by {storm.culprit}"
            storms.append(
                {
                    "of": storm,
                    "anchor": f"storm-{number}-{anchor_of(page.group_id)}",
                    "picture": picture,
                    "caption": caption,
                }
            )
    return {
        "of": page,
        "anchor": anchor_of(page.group_id),
        "ownership": drawing.ownership(page),
        "members": drawing.members(page),
        "what_if": drawing.what_if(page),
        "said": best_assignor(page.what_if, page.own_assignors),
        "storms": storms,
        "letters": letters(page.generations),
        "mark_rows": [
            (
                Markup('<a id="{}">{}</a>').format(
                    generation_anchor(page.group_id, mark.seq), mark.generation
                ),
                *(_time(mark.ts), mark.cause, mark.evidence),
                "" if mark.confidence is None else f"{mark.confidence:.2f}",
                *(mark.n_members, mark.moved),
                None if mark.since_previous_ms is None else mark.since_previous_ms / 1000,
                *("yes" if mark.coordinator_changed else "", mark.reason),
            )
            for mark in page.generations
        ],
        "stretch_rows": [
            (each.label, each.client, _time(each.start), _time(each.end), f"{each.share:.0%}")
            for each in page.ownership
        ],
        "stay_rows": [
            (s.client_id, s.member_id, _time(s.start), _time(s.end), s.end_reason)
            for s in page.stays
        ],
        "what_if_rows": [
            (
                *(page.label(each.assignor), each.generations, each.moves),
                *(each.revoked, each.mean_stddev),
                *(each.worst_spread, each.problems, each.rank),
            )
            for each in page.what_if
        ],
    }


def best_assignor(rows: Sequence[WhatIf], own: Sequence[str] = ()) -> str:
    """Return one sentence on what the best assignor would have changed; "" if there is nothing to say."""
    actual = next((each for each in rows if each.assignor == ACTUAL), None)
    others = [each for each in rows if each.assignor != ACTUAL and not each.problems]
    if actual is None or not others:
        return ""
    best = min(others, key=lambda each: (each.moves, each.mean_stddev or 0.0, each.revoked))
    if not actual.moves:
        return "Nothing moved."
    if best.moves >= actual.moves:
        return (
            f"No assignor would have moved fewer than the {actual.moves:,} partitions that moved."
        )
    in_place = f" in the place of {' and '.join(own)}" if own else ""
    less = 100 * (actual.moves - best.moves) / actual.moves
    return (
        f"With {best.assignor}{in_place}, {less:.0f} % fewer partitions would have moved:"
        f" {best.moves:,} instead of {actual.moves:,}."
    )


def _overview_rows(data: ReportData, anchors: Mapping[str, str]) -> list[tuple[Any, ...]]:
    return [
        (
            _link(line.group_id, anchors.get(line.group_id)),
            *(line.protocol, line.generations),
            Decimal(f"{line.generations / line.hours:.1f}") if line.hours >= 0.01 else "",
            *(line.moves, line.storms, line.top_cause, line.stalled_ms / 1000),
        )
        for line in data.overview
    ]


def _storm_rows(
    data: ReportData, storm_anchors: Mapping[StormLine, str], anchors: Mapping[str, str]
) -> list[tuple[Any, ...]]:
    return [
        (
            _link(each.group_id, storm_anchors.get(each, anchors.get(each.group_id))),
            *(_time(each.start), _time(each.end), each.generations, each.moves),
            *(each.causes, each.culprit, each.stalled_ms / 1000),
        )
        for each in data.storms
    ]


def _slo_rows(data: ReportData, anchors: Mapping[str, str]) -> list[tuple[Any, ...]]:
    return [
        (
            _link(each.group_id, anchors.get(each.group_id)),
            f"{each.percent:g} % within {each.within_ms / 1000:g} s in {each.period_ms / 86_400_000:g} days",
            *(each.good_percent, 100 * each.budget_left, each.burn_1h, each.burn_6h, each.burn_3d),
            *(each.late, each.bad_ms / 1000, each.alert or ""),
        )
        for each in data.budgets
    ]


def _generations(line: AdviceLine, shown: Container[tuple[str, int]]) -> Markup:
    """Return the generations behind a piece of advice; those that the report shows are links."""
    links = [
        _link(
            str(number),
            generation_anchor(line.group_id, seq) if (line.group_id, seq) in shown else None,
        )
        for seq, number in line.evidence
    ]
    more = f" and {line.more:,} more" if line.more else ""
    return Markup("{}{}").format(Markup(", ").join(links), more)


def _advice_rows(data: ReportData, shown: Container[tuple[str, int]]) -> list[tuple[Any, ...]]:
    return [
        (
            *(each.group_id, each.advice, each.setting, "yes" if each.pays else "no"),
            *(each.rebalances, each.of_rebalances, each.moves, each.revoked),
            *(each.spared_ms / 1000, each.added_ms / 1000, each.late_spared, each.late_added),
            *(each.back, each.gone, _generations(each, shown)),
        )
        for each in data.advice
    ]


def _link(text: str, anchor: str | None) -> Any:
    return text if anchor is None else Markup('<a href="#{}">{}</a>').format(anchor, text)


def _cell(value: Any) -> Markup:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Markup(f'<td class="n">{value:,}</td>')
    if isinstance(value, float):
        return Markup(f'<td class="n">{value:,.3f}</td>')
    return Markup("<td>{}</td>").format(escape("" if value is None else value))


def _time(value: datetime | None) -> str:
    return "" if value is None else f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03}"


def generation_anchor(group_id: str, seq: int) -> str:
    """Return the anchor of a generation within the page."""
    return f"{anchor_of(group_id)}-{seq}"


def anchor_of(group_id: str) -> str:
    """Return the anchor of a group within the page."""
    return "group-" + group_id.encode().hex()
