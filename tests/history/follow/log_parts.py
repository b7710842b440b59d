"""Take logs apart into pieces, as a stream would bring them, and follow them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.history.follow.updater import Updater
from groupsdk.history.read.arrow_rows import RAW
from groupsdk.history.read.buckets import Buckets
from groupsdk.history.read.reading import TableBatches, read_arrow_batches
from groupsdk.history.sources.segment_files import segment_tasks


def raw_of(segments: Path) -> Any:
    """Read the raw records of a log."""
    batches = [batch for task in segment_tasks(str(segments)) for batch in task.raw()]
    return pa.Table.from_batches(batches, schema=RAW)


@dataclass(frozen=True, slots=True)
class RawTask:
    """Reads raw records for the local engine."""

    rows: Any
    name: str = "part-raw"
    size: int = 1

    def read(self) -> TableBatches:
        """Read them all."""
        return read_arrow_batches(self.rows.combine_chunks().to_batches())


def pieces(raw: Any, many: int, seed: int) -> list[Any]:
    """Cut a log into so many pieces, each partition at places of its own, in the order of the log."""
    random = Random(seed)
    found: list[list[Any]] = [[] for _ in range(many)]
    for partition in sorted(pc.unique(raw.column("src_partition")).to_pylist()):
        rows = raw.filter(pc.equal(raw.column("src_partition"), partition)).sort_by("src_offset")
        cuts = sorted(random.randrange(rows.num_rows + 1) for _ in range(many - 1))
        for place, (begin, end) in enumerate(zip([0, *cuts], [*cuts, rows.num_rows], strict=True)):
            found[place].append(rows.slice(begin, end - begin))
    return [pa.concat_tables(each) for each in found]


def land(rows: Any, landing: Buckets) -> None:
    """Write what is read of raw records."""
    landing.files("part").write(read_arrow_batches(rows.combine_chunks().to_batches()))


def follow(updater: Updater, parts: Iterable[Any]) -> None:
    """Bring tables up to date with one piece after the other, from the first that does not count yet."""
    for number, rows in enumerate(parts):
        updater.update(partial(land, rows), batch=number)
