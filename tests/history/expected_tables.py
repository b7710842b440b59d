"""Compare the tables of the logs that the tests have with those that were made of them before.

    python -m tests.history.expected_tables          # write the expectation anew, after a change that is meant

`data/expected_tables.json` has the number of rows and a digest of each table. It was written with the pipeline of SQL steps
that the walk over the groups took the place of.
"""

import gzip
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from groupsdk.history.local import run
from groupsdk.history.pipeline import Options
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.tables.stage_tables import RUN_TABLES
from tests.history import made_logs
from tests.history.sample import DATA, SEGMENTS, partition_of
from tests.history.simulated import write_groups


EXPECTED: Final = DATA / "expected_tables.json"
APART: Final = 10
"""By how much the partitions of each further log are moved, to lie beside those before."""
_NOWHERE: Final = ("place", "cluster_id")
"""Columns with paths and names of the runs."""


def unpack(names: Sequence[str], root: Path) -> Path:
    """Unpack logs into one below a directory; returns where its segments are."""
    for place, name in enumerate(names):
        for packed in sorted((DATA / name).glob("*/*.log.gz")):
            number = partition_of(packed.parent) + APART * place
            file = root / "segments" / f"__consumer_offsets-{number}" / packed.stem
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(gzip.decompress(packed.read_bytes()))
    return root / "segments"


def sample(root: Path) -> Path:
    """Return where the sample is."""
    return Path(shutil.copytree(SEGMENTS, root / "segments"))


def simulated(root: Path) -> Path:
    """Write the log of made-up groups."""
    write_groups(root, 3)
    return root


def unpacked(*names: str) -> Callable[[Path], Path]:
    """Return what unpacks these logs into one."""
    return lambda root: unpack(names, root)


LOGS: Final[dict[str, Callable[[Path], Path]]] = {
    "sample": sample,
    "protocols": unpacked("protocols"),
    "recorded and scenes": unpacked("recorded", "scenes"),
    "newer": unpacked("newer"),
    "transactions": made_logs.write_transactions,
    "bad input": made_logs.write_bad_input,
    "damaged": made_logs.write_damaged,
    "simulated": simulated,
}
"""Each writes a log below a directory, and returns where."""


def rows_of(folder: Path) -> list[tuple[tuple[str, Any], ...]]:
    """Read the rows of a table, in the order of their values, without what differs from place to place."""
    files = [str(each) for each in folder.rglob("*.parquet") if each.name[0] not in "._"]
    by_day = ds.partitioning(pa.schema([("day", pa.string())]), flavor="hive")
    table = ds.dataset(
        files, format="parquet", partitioning=by_day, partition_base_dir=str(folder)
    ).to_table()
    names = [name for name in sorted(table.schema.names) if name not in _NOWHERE]
    columns = (map(_plain, table.column(name).to_pylist()) for name in names)
    return sorted(
        (tuple(zip(names, row, strict=True)) for row in zip(*columns, strict=True)), key=str
    )


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        # sums come out differently in their last bits, by the order in which they are made
        return round(value, 9)
    if isinstance(value, list):
        pairs = bool(value) and isinstance(value[0], tuple)
        return sorted(map(_plain, value), key=str) if pairs else [_plain(each) for each in value]
    return value


def explained(
    name: str, root: Path, tables: Iterable[str], options: Options | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Make the tables of a recorded log below a directory, without what its coordinator said, and read some of them."""
    run(segment_tasks(str(unpack([name], root))), str(root / "out"), options)
    return {each: [dict(row) for row in rows_of(root / "out" / each)] for each in tables}


def digests(out: Path) -> dict[str, list[Any]]:
    """Return the number of rows and a digest of each table."""
    found = {}
    for name in RUN_TABLES:
        rows = rows_of(out / name)
        found[name] = [len(rows), sha256("\n".join(map(str, rows)).encode()).hexdigest()[:16]]
    return found


def expected() -> dict[str, dict[str, list[Any]]]:
    """Read what is expected of each log."""
    read: dict[str, dict[str, list[Any]]] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return read


def main() -> None:
    """Write the expectation."""
    every = {}
    for name, write in LOGS.items():
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch) / "log"
            root.mkdir()
            run(segment_tasks(str(write(root))), f"{scratch}/out")
            every[name] = digests(Path(scratch) / "out")
    EXPECTED.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
