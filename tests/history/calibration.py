"""Hold the confidence of causes against what coordinators said: `python -m tests.history.calibration [--docs] [DIRECTORY...]`.

Each directory has `segments` and `coordinator-log.txt`, as the commands of `tests.history.recording` write them; the logs
that the tests have are read as well. Causes are told from the segments alone. `--docs` writes the table into docs/history.md.
"""

import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from groupsdk.history.local import run
from groupsdk.history.pipeline import Options
from groupsdk.history.sources.segment_files import segment_tasks
from tests.history.expected_tables import rows_of, unpack
from tests.history.truth import Truths


PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "history.md"
BEGIN, END = "<!-- calibration:begin -->", "<!-- calibration:end -->"
KEPT: Final = ("recorded", "scenes", "connect", "fresh", "dawdling", "newer", "polling", "loaded")
"""The logs that the tests have, with what their coordinators said."""
BANDS: Final = ((0.9, 1.01), (0.7, 0.9), (0.4, 0.7), (0.0, 0.4))
"""From a confidence, and up to another that is not among them."""
_GROUPS: Final = (
    ("members that poll too seldom", re.compile(r"polling")),
    ("Connect's workers", re.compile(r"workers-")),
    ("going online to KIP-848 and back", re.compile(r"migrating")),
    ("clients that flap", re.compile(r"flapping")),
    ("members that are slow to rejoin", re.compile(r"dawdling|slow")),
    ("a broker that was away", re.compile(r"calm")),
    ("share and streams", re.compile(r"sharing|counting")),
    ("KIP-848", re.compile(r".*modern")),
    ("static members", re.compile(r".*static")),
    ("cooperative", re.compile(r".*(cooperative|java$)")),
    ("classic", re.compile(r"")),
)
"""What the groups of the recordings are there for; the first that fits counts."""


@dataclass(frozen=True, slots=True)
class Call:
    """Something that was told with a confidence, and whether it was right."""

    log: str
    group: str
    confidence: float
    is_right: bool

    @property
    def kind(self) -> str:
        """What the group is there for."""
        return next(name for name, pattern in _GROUPS if pattern.match(self.group))


def calls(log: str, segments: Path, truths: Truths, scratch: Path) -> Iterator[Call]:
    """Tell the causes of a log from its segments, and hold them against what the coordinator said."""
    out = scratch / log
    run(segment_tasks(str(segments)), str(out), Options(assignors=()))
    rows = [dict(row) for row in rows_of(out / "generations")]
    for each in truths.judge(rows):
        if each.confidence is not None:
            yield Call(log, each.group, each.confidence, each.is_right)
    numbers = {(row["group_id"], row["seq"]): row for row in rows}
    for row in map(dict, rows_of(out / "departures")):
        made = numbers.get((row["group_id"], row["seq"]))
        if made is None or row["confidence"] is None:
            continue
        end = truths.end(
            row["group_id"], row["member_id"], made["generation"], made["missing_before"]
        )
        if end:
            yield Call(log, row["group_id"], row["confidence"], row["reason"] in end)


def every_call(directories: Sequence[Path], scratch: Path) -> list[Call]:
    """Tell all of it: the logs that the tests have, and others."""
    found: list[Call] = []
    for name in KEPT:
        root = scratch / f"unpacked-{name}"
        segments = unpack([name], root)
        found += calls(name, segments, Truths.of(name), scratch)
    for directory in directories:
        truths = Truths(directory / "coordinator-log.txt")
        found += calls(directory.name, directory / "segments", truths, scratch)
    return found


def table(found: Iterable[Call]) -> str:
    """Lay it out: what was told with which confidence, and how much of it was right."""
    of_kind: defaultdict[str, list[Call]] = defaultdict(list)
    for call in found:
        of_kind[call.kind].append(call)
    every = [call for mine in of_kind.values() for call in mine]
    heads = [f"{low:g} or more" if high > 1 else f"{low:g} to {high:g}" for low, high in BANDS]
    lines = [f"| groups | told | {' | '.join(heads)} |", f"|---|{'---|' * (len(heads) + 1)}"]
    for kind, _ in _GROUPS:
        if of_kind[kind]:
            lines.append(_row(kind, of_kind[kind]))
    return "\n".join([*lines, _row("all", every)])


def _row(name: str, mine: Sequence[Call]) -> str:
    cells = []
    for low, high in BANDS:
        band = [call for call in mine if low <= call.confidence < high]
        right = sum(call.is_right for call in band)
        cells.append(f"{right} of {len(band)}" if band else "")
    return f"| {name} | {len(mine)} | {' | '.join(cells)} |"


def write(text: str, page: Path = PAGE) -> None:
    """Put the table between its marks in the page."""
    whole = page.read_text(encoding="utf-8")
    before, _, rest = whole.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main(arguments: Sequence[str]) -> Any:
    """Print the table, and write it into the docs if that is wanted."""
    directories = [Path(each) for each in arguments if each != "--docs"]
    with tempfile.TemporaryDirectory() as scratch:
        text = table(every_call(directories, Path(scratch)))
    print(text)
    if "--docs" in arguments:
        write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
