"""Write the report: one HTML file that needs no network, no script and nothing beside it."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Any, Final

from groupsdk.history.report import figures
from groupsdk.history.report.data import MAX_ROWS, GroupPage, ReportData, WhatIf
from groupsdk.version import __version__


_MARGIN: Final = 0.05
_NARROW: Final = 3  # times narrower than the whole

_STYLE: Final = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1100px; padding: 0 1rem; color: #1a1a1a; }
h1 { margin-bottom: 0; } h2 { margin-top: 3rem; border-bottom: 2px solid #ddd; } h3 { margin-top: 2rem; }
p.trust { background: #f4f1e6; border-left: 5px solid #a06d00; padding: .6rem 1rem; }
p.question { color: #444; font-style: italic; margin: .3rem 0; }
figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; }
details { margin: .5rem 0; } summary { cursor: pointer; color: #0072B2; }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; max-height: 32rem; overflow-y: auto; }
th, td { padding: .2rem .6rem; text-align: left; border-bottom: 1px solid #e5e5e5; vertical-align: top; }
th { position: sticky; top: 0; background: #f7f7f7; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
nav a { margin-right: 1rem; }
"""


def render(data: ReportData, *, title: str = "What happened to the groups") -> str:
    """Write the report as HTML.

    Every number in a picture stands in the table under it, too.
    """
    parts = [
        f"<h1>{escape(title)}</h1>",
        _counts(data),
        f'<p class="trust">{_trust(data)}</p>',
        _navigation(data),
    ]
    if not data.n_generations:
        parts.append("<p>The log has no rebalances: nothing can be drawn.</p>")
    else:
        parts += [_overview(data), _causes(data), _costs(data)]
        parts += [_group(page, storm_to_show(page, data)) for page in data.pages]
    parts.append(_quality(data))
    parts.append(f"<p><small>groupsdk {escape(__version__)}; all times are UTC.</small></p>")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _counts(data: ReportData) -> str:
    return (
        f"<p>{_period(data)}: {data.n_generations:,} rebalances of {data.n_groups:,} groups,"
        f" {data.n_commits:,} committed offsets.</p>"
    )


def _period(data: ReportData) -> str:
    if data.start is None or data.end is None:
        return "No time at all"
    return f"{_time(data.start)} to {_time(data.end)}"


def _trust(data: ReportData) -> str:
    """Say how far the data can be trusted, before anything is shown of it."""
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
        f"<b>How far to trust this:</b> {records:,} records of {len(data.quality)} partitions of the log"
        f" were read, {share:.1f} % of the offsets they span. {missing:,} of {generations:,} generations"
        f" ({lost:.1f} %) are missing. {bad:,} batches were damaged, {undecodable:,} records could not be"
        " decoded."
    )
    if unknown:
        text += f" Record types that are not known: {escape('; '.join(unknown))}."
    if gaps:
        text += (
            " Offsets are missing where the log was compacted: of older times only the last record of each"
            " group and offset is left, and rebalances between them are not seen."
        )
    return text


def _navigation(data: ReportData) -> str:
    links = [("overview", "Overview"), ("causes", "Causes"), ("costs", "Costs")]
    links += [(_anchor(page), page.group_id) for page in data.pages]
    links.append(("quality", "Data quality"))
    return "<nav>" + " ".join(f'<a href="#{a}">{escape(t)}</a>' for a, t in links) + "</nav>"


def _overview(data: ReportData) -> str:
    rows = [
        (
            *(line.group_id, line.protocol, line.generations),
            f"{line.generations / line.hours:.1f}" if line.hours >= 0.01 else "",
            *(line.moves, line.storms, line.top_cause, _seconds(line.downtime_ms)),
        )
        for line in data.overview
    ]
    names = (
        *("group", "protocol", "rebalances", "an hour", "partitions moved"),
        *("storms", "commonest cause", "seconds without commits"),
    )
    storm_names = (
        *("group", "from", "to", "rebalances", "partitions moved"),
        *("causes", "client behind most of it", "seconds without commits"),
    )
    storms = [
        (g, _time(a), _time(b), n, m, causes, culprit, _seconds(down))
        for g, a, b, n, m, causes, culprit, down in data.storms
    ]
    text = _section(
        *("overview", "1. Overview", "Which group first?"),
        figures.overview(data),
        _table(names, rows, open_=True),
    )
    return (
        text
        + "<h3>Storms</h3>"
        + (_table(storm_names, storms, open_=True) if storms else "<p>There was none.</p>")
    )


def _causes(data: ReportData) -> str:
    rows = [(_time(time), cause, n) for time, cause, n in data.causes_by_time]
    changes = ", ".join(_time(each) for each in data.coordinator_changes[:50])
    text = f"<p>Other coordinators (grey): {changes}.</p>" if changes else ""
    return _section(
        *("causes", "2. Causes", "What changed, and when?"),
        figures.causes(data),
        text + _table(("from", "cause", "rebalances"), rows),
    )


def _costs(data: ReportData) -> str:
    gaps = [(c, n, _seconds(m), _seconds(p), _seconds(x)) for c, n, m, p, x in data.gaps]
    names = ("cause", "rebalances", "median s", "95 % s", "longest s")
    text = _table(names, gaps, open_=True)
    text += _table(("group", "kind", "median", "95 %", "highest"), data.lag, what="the lag")
    text += (
        "<p>The lag of the kind <i>lower_bound</i> is against the highest offset that any group had"
        " committed by then: the log does not hold the ends of partitions.</p>"
    )
    question = (
        "What did a rebalance cost? For how long was nothing committed, how far behind are groups?"
    )
    return _section("costs", "3. Costs", question, figures.gaps(data), text)


def storm_to_show(page: GroupPage, data: ReportData) -> tuple[datetime, datetime] | None:
    """Return the period around a group's largest storm, where it is too narrow to be seen in the whole."""
    storms = [row for row in data.storms if row[0] == page.group_id]
    if not storms or not page.generations:
        return None
    _, start, end, *_ = max(storms, key=lambda row: row[3])
    margin = max((end - start) * _MARGIN, timedelta(seconds=1))
    whole = page.end - page.generations[0].ts
    shown = (start - margin, end + margin)
    return shown if (shown[1] - shown[0]) * _NARROW < whole else None


def _group(page: GroupPage, storm: tuple[datetime, datetime] | None) -> str:
    marks = [
        (
            *(mark.generation, _time(mark.ts), mark.cause, mark.evidence, f"{mark.confidence:.2f}"),
            *(mark.n_members, mark.moved, _maybe_seconds(mark.since_previous_ms)),
            *("yes" if mark.coordinator_changed else "", mark.reason),
        )
        for mark in page.generations
    ]
    names = (
        *("generation", "time", "cause", "evidence", "confidence", "members", "moved"),
        *("seconds since the last", "other coordinator", "the broker's reason"),
    )
    stretches = [
        (each.label, each.client, _time(each.start), _time(each.end), f"{each.share:.0%}")
        for each in page.stretches
    ]
    stays = [
        (s.client_id, s.member_id, _time(s.start), _time(s.end) if s.end else "", s.end_reason)
        for s in page.stays
    ]
    parts = [f'<h2 id="{_anchor(page)}">Group {escape(page.group_id)}</h2>']
    if page.stretches:
        shown = "topics, as there are too many partitions" if page.by_topic else "partitions"
        parts.append(
            _figure(
                *("4. Ownership", f"Who had which {shown}, and what moved?"),
                figures.ownership(page) + _closer(page, storm),
                _table(names, marks)
                + _table(
                    ("partition", "client", "from", "to", "share"), stretches, what="stretches"
                ),
            )
        )
    else:
        parts.append(_table(names, marks, open_=True))
    if page.stays:
        left_out = f"<p>{page.left_out_stays:,} earlier stays are left out.</p>"
        parts.append(
            _figure(
                *("5. Members", "Who comes and goes?"),
                figures.members(page),
                _table(("client", "member", "from", "to", "end"), stays)
                + (left_out if page.left_out_stays else ""),
            )
        )
    if page.what_if:
        parts.append(_what_if(page))
    return "\n".join(parts)


def _closer(page: GroupPage, storm: tuple[datetime, datetime] | None) -> str:
    if storm is None:
        return ""
    caption = f"Its largest storm, {_time(storm[0])} to {_time(storm[1])}:"
    return f"<figcaption>{caption}</figcaption>{figures.ownership(page, storm)}"


def _what_if(page: GroupPage) -> str:
    names = (
        *("assignor", "generations", "partitions moved", "revoked", "mean deviation"),
        *("worst spread", "failed", "rank"),
    )
    rows = [
        (
            *(each.assignor, each.generations, each.moves, each.revoked),
            each.mean_stddev,
            *(each.worst_spread, each.problems, each.rank),
        )
        for each in page.what_if
    ]
    said = advice(page.what_if)
    text = f"<p><b>{escape(said)}</b></p>" if said else ""
    question = "What would another assignor have made of it?"
    picture = figures.what_if(page) if any(not each.problems for each in page.what_if) else ""
    return _figure("6. What if", question, picture, text + _table(names, rows, open_=True))


def advice(rows: Sequence[WhatIf]) -> str:
    """Say in one sentence what the best assignor would have changed; "" where there is nothing to say."""
    actual = next((each for each in rows if each.assignor == "actual"), None)
    others = [each for each in rows if each.assignor != "actual" and not each.problems]
    if actual is None or not others:
        return ""
    best = min(others, key=lambda each: (each.moves, each.mean_stddev or 0.0, each.revoked))
    if best.moves >= actual.moves:
        return (
            f"No assignor would have moved fewer than the {actual.moves:,} partitions that moved."
        )
    less = 100 * (actual.moves - best.moves) / actual.moves
    return (
        f"With {best.assignor}, {less:.0f} % fewer partitions would have moved:"
        f" {best.moves:,} in place of {actual.moves:,}."
    )


def _quality(data: ReportData) -> str:
    names = (
        *("partition", "first offset", "last offset", "records", "missing offsets", "bad batches"),
        *("undecodable", "unknown types", "missing generations", "from", "to"),
    )
    rows = [(*row[:9], _time(row[9]), _time(row[10])) for row in data.quality]
    text = _table(names, rows, open_=True)
    if data.rejects:
        text += "<h3>What could not be read</h3>"
        text += _table(("reason", "how often"), data.rejects, open_=True)
    question = "How far can this be trusted?"
    return _section("quality", "7. Data quality", question, figures.quality(data), text)


def _section(anchor: str, title: str, question: str, picture: str, rest: str) -> str:
    return f'<h2 id="{anchor}">{title}</h2>' + _inner(question, picture, rest)


def _figure(title: str, question: str, picture: str, rest: str) -> str:
    return f"<h3>{title}</h3>" + _inner(question, picture, rest)


def _inner(question: str, picture: str, rest: str) -> str:
    return f'<p class="question">{escape(question)}</p><figure>{picture}</figure>{rest}'


def _table(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    open_: bool = False,
    what: str = "the numbers",
) -> str:
    every = list(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in every[:MAX_ROWS])
    left_out = len(every) - MAX_ROWS
    more = f"<p>{left_out:,} more rows are left out.</p>" if left_out > 0 else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
    state = " open" if open_ else ""
    return f"<details{state}><summary>{what} ({len(every):,} rows)</summary>{table}</details>"


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td class="n">{value:,}</td>'
    if isinstance(value, float):
        return f'<td class="n">{value:,.3f}</td>'
    return f"<td>{escape('' if value is None else str(value))}</td>"


def _time(value: datetime | None) -> str:
    return "" if value is None else f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03}"


def _seconds(milliseconds: int) -> float:
    return milliseconds / 1000


def _maybe_seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else _seconds(milliseconds)


def _anchor(page: GroupPage) -> str:
    return "group-" + page.group_id.encode().hex()
