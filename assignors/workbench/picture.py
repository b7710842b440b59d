"""Draw what became of a group: one row of bars for each event, one bar for each assignor, as SVG."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape


if TYPE_CHECKING:
    from assignors.workbench.simulation import Outcome


# told apart by all kinds of colour vision, and on paper by their lightness (Okabe and Ito)
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#222222")

_MARGIN = 24
_BAR = 13
_GAP = 3
_ROW_GAP = 14
_PANEL = 210
_BETWEEN = 76
_LEAST = 1.5
_LETTER = 6.6
_LABEL_LETTERS = 34


@dataclass(frozen=True, slots=True)
class _Panel:
    """One column of bars."""

    title: str
    note: str
    value: "Callable[[Outcome], float]"
    label: "Callable[[Outcome], str]"
    bound: "Callable[[Outcome], float] | None" = None
    start: "Callable[[Outcome], float]" = lambda _: 0.0


_PANELS = (
    _Panel(
        "Partitions moved",
        "line: none as balanced moves fewer (a bound)",
        lambda each: each.quality.moves,
        lambda each: f"{each.quality.moves:,}",
        lambda each: each.quality.least_moves,
    ),
    _Panel(
        "Loads, least to greatest",
        "line: least possible maximum; * could be fairer",
        lambda each: each.quality.most,
        lambda each: (
            f"{each.quality.fewest:,} to {each.quality.most:,}{'' if each.quality.is_fairest else ' *'}"
        ),
        lambda each: each.quality.least_most,
        lambda each: each.quality.fewest,
    ),
    _Panel(
        "CPU time of the leader",
        "milliseconds, all rounds together",
        lambda each: each.cpu_ms,
        lambda each: f"{each.cpu_ms:,.2f}",
    ),
)


def picture(
    assignors: Sequence[str], events: Sequence[str], outcomes: "Sequence[Sequence[Outcome]]"
) -> str:
    """Return a self-contained SVG document; it needs no font and no script."""
    labels = [_short(event) for event in events]
    left = _MARGIN + max(len(label) for label in labels) * _LETTER + 12
    row = len(assignors) * (_BAR + _GAP) + _ROW_GAP
    top = _MARGIN + 26 + 44
    width = left + len(_PANELS) * (_PANEL + _BETWEEN) + _MARGIN
    height = top + len(events) * row + _MARGIN
    size = f'width="{width:.0f}" height="{height:.0f}"'
    font = 'font-family="system-ui, Helvetica, Arial, sans-serif" font-size="12"'
    view = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} {font}>',
        f"<title>{escape(', '.join(assignors))} side by side</title>",
        f'<rect {size} fill="#ffffff"/>',
        *_legend(assignors),
    ]
    for place, label in enumerate(labels):
        y = top + place * row
        if place % 2 == 0:
            parts.append(
                f'<rect x="{_MARGIN / 2:.0f}" y="{y - _ROW_GAP / 2:.1f}" '
                f'width="{width - _MARGIN:.0f}" height="{row}" fill="#f4f5f7"/>'
            )
        middle = y + (row - _ROW_GAP) / 2
        parts.append(_text(_MARGIN, middle + 4, label))
    for place, panel in enumerate(_PANELS):
        x = left + place * (_PANEL + _BETWEEN)
        parts += _heading(panel, x, top)
        parts += _bars(panel, x, top, row, outcomes)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(assignors: Sequence[str]) -> list[str]:
    parts = []
    x: float = _MARGIN
    for place, name in enumerate(assignors):
        parts.append(_bar(x, _MARGIN - 6, 12, _colour(place), 12))
        parts.append(_text(x + 18, _MARGIN + 4, name))
        x += 18 + len(name) * _LETTER + 24
    return parts


def _heading(panel: _Panel, x: float, top: float) -> list[str]:
    return [
        _text(x, top - 32, panel.title, 'font-weight="600"'),
        _text(x, top - 17, panel.note, 'fill="#666666" font-size="11"'),
    ]


def _bars(
    panel: _Panel, x: float, top: float, row: float, outcomes: "Sequence[Sequence[Outcome]]"
) -> list[str]:
    greatest = max((panel.value(each) for listed in outcomes for each in listed), default=0)
    scale = _PANEL / greatest if greatest else 0.0
    parts = []
    for place, listed in enumerate(outcomes):
        for number, outcome in enumerate(listed):
            y = top + place * row + number * (_BAR + _GAP)
            valid = outcome.quality.is_valid
            start, end = panel.start(outcome) * scale, panel.value(outcome) * scale
            parts.append(_bar(x + start, y, max(end - start, _LEAST), _colour(number), _BAR))
            if panel.bound is not None and valid:
                at = x + panel.bound(outcome) * scale
                parts.append(
                    f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y - 1}" y2="{y + _BAR + 1}" '
                    'stroke="#111111" stroke-width="1.5"/>'
                )
            label = panel.label(outcome) if valid else "invalid plan"
            parts.append(_text(x + max(end, start + _LEAST) + 5, y + 10.5, label, 'font-size="11"'))
    return parts


def _bar(x: float, y: float, width: float, colour: str, height: float) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'.replace(" >", ">")


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]


def _short(label: str) -> str:
    return label if len(label) <= _LABEL_LETTERS else f"{label[: _LABEL_LETTERS - 1]}…"
