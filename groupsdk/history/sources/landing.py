"""Write committed offsets as Parquet files where they are read: in the task that reads them, column by column.

They are nearly all of a log. Taking them to the JVM and writing them there a row at a time takes ten times as
long as reading them, and following the groups needs their sums alone.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.history.groups.families import topic_id_text
from groupsdk.history.kernel.batches import Records
from groupsdk.history.kernel.commits import read_commits
from groupsdk.history.kernel.files import TableFile
from groupsdk.history.kernel.rows import COMMITS, commit_rows, rest_rows
from groupsdk.history.kernel.spans import SPANS, commit_parts


COMMITS_FOLDER: Final = "offset_commits"
"""The table of that name, by day; without what was committed in transactions, whose ends may come later."""
PARTS_FOLDER: Final = "_stages/parts"
"""The sums of `kernel.spans`."""
NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
"""What the folder of rows without a day is called."""
MAX_OPEN: Final = 16
"""How many days are written at a time: a task sees one or two, unless a clock went astray."""

_STATE: Final = "committed"
_TEXTS: Final = ("group_id", "topic", "metadata", "topic_id", "state")
_REPEATED: Final = ("partition", "offset_leader_epoch", "leader_epoch", "value_version")
_RISING: Final = ("src_offset", "ts", "commit_ts", "committed_offset")
_LEFT_OUT: Final = ("producer_id", "transactional", "day")
_TABLE: Final = pa.schema(
    [
        *(
            pa.field(each.name, pa.string()) if each.name == "topic_id" else each
            for each in COMMITS
            if each.name not in _LEFT_OUT
        ),
        ("state", pa.string()),
    ]
)


class Landing:
    """The files of one task.

    They get their names, by which Spark sees them, when all is written: a task that fails leaves none, and
    one that runs twice puts the same files in the place of its first ones.

    Args:
        system: pyarrow's file system.
        root: the directory of the tables; see `COMMITS_FOLDER` and `PARTS_FOLDER`.
        name: of the files; no other task may have it.
    """

    def __init__(self, system: Any, root: str, name: str) -> None:
        self._system = system
        self._root = root
        self._name = name
        self._days: dict[str, TableFile] = {}
        self._written: list[TableFile] = []
        self._numbers: dict[str, int] = {}
        self._parts = self._file(PARTS_FOLDER, SPANS)

    def take(self, records: Records, partition: int, place: str) -> Iterator[Any]:
        """Write what is committed, and give the other records as rows of the schema `kernel.rows.REST`.

        Commits within transactions are among those: whether they count is told by what comes later.
        """
        commits = read_commits(records)
        plain = ~records.is_transactional[commits.rows]
        batch = commit_rows(records, commits, partition)
        for day, rows in _by_day(batch if plain.all() else batch.filter(pa.array(plain))):
            self._of_day(day).add(rows)
        self._parts.add(commit_parts(records, commits, plain, partition))
        rest = rest_rows(records, commits, partition, place, with_transactional=True)
        if rest.num_rows:
            yield rest

    def close(self) -> None:
        """Finish the files and give them their names."""
        files = self._files()
        for each in files:
            each.close()
        for each in files:
            each.publish()

    def abandon(self) -> None:
        """Remove what was written; does nothing after `close`."""
        for each in self._files():
            each.abandon()

    def _files(self) -> list[TableFile]:
        return [*self._days.values(), *self._written, self._parts]

    def _of_day(self, day: str) -> TableFile:
        if day not in self._days:
            if len(self._days) >= MAX_OPEN:
                full = self._days.pop(next(iter(self._days)))
                full.close()
                self._written.append(full)
            self._days[day] = self._file(f"{COMMITS_FOLDER}/day={day}", _TABLE)
        return self._days[day]

    def _file(self, folder: str, schema: Any) -> TableFile:
        number = self._numbers[folder] = self._numbers.get(folder, -1) + 1
        names = schema.names
        return TableFile(
            self._system,
            f"{self._root}/{folder}",
            f"{self._name}-{number}.parquet",
            schema,
            {
                "use_dictionary": [each for each in (*_TEXTS, *_REPEATED) if each in names],
                "column_encoding": {
                    each: "DELTA_BINARY_PACKED" for each in _RISING if each in names
                },
            },
        )


def _by_day(batch: Any) -> Iterator[tuple[str, Any]]:
    """Lay committed offsets out as the table has them, day by day."""
    if not batch.num_rows:
        return
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["topic_id"] = _id_texts(columns["topic_id"])
    columns["state"] = pa.repeat(pa.scalar(_STATE), batch.num_rows)
    table = pa.RecordBatch.from_arrays([columns[name] for name in _TABLE.names], schema=_TABLE)
    days = pc.dictionary_encode(columns["day"], null_encoding="encode")
    for index, day in enumerate(days.dictionary.to_pylist()):
        mine = table if len(days.dictionary) == 1 else table.filter(pc.equal(days.indices, index))
        yield NO_DAY if day is None else day.isoformat(), mine


def _id_texts(ids: Any) -> Any:
    """Write topics' ids as Kafka's tools do; there are few different ones."""
    if ids.null_count == len(ids):
        return pa.nulls(len(ids), pa.string())
    found = pc.dictionary_encode(ids)
    texts = [topic_id_text(UUID(bytes=each)) for each in found.dictionary.to_pylist()]
    return pa.array(texts, type=pa.string()).take(found.indices)
