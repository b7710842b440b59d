"""Update the totals over the whole log: coverage, tallies, hints to topic names, open transactions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.errors import GroupSdkError
from groupsdk.history.read.reading import PENDING, resolve_transactions
from groupsdk.history.tables.stage_tables import BATCH_ROWS
from groupsdk.history.tables.stages import COVERAGE, RECORDS, TALLY, TOPIC_HINTS
from groupsdk.history.tables.table_files import declared


FOLDED: Final = (COVERAGE, TALLY, TOPIC_HINTS)
"""The stages kept in one file, whose rows are summed with each update's."""

_HOW: Final[Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]]] = {
    COVERAGE: (
        ("src_partition", "leader_epoch"),
        {
            "first_offset": "min",
            "last_offset": "max",
            "records": "sum",
            "first_ts": "min",
            "last_ts": "max",
            "since": "min",
            "commits": "sum",
            "deferred": "sum",
            "modern": "sum",
        },
    ),
    TALLY: (("src_partition", "what"), {"n": "sum"}),
    TOPIC_HINTS: (("group_id", "topic", "topic_id", "last_partition", "is_open"), {}),
}


class LateTransactionError(GroupSdkError):
    """Records of transactions arrived after later ones had been resolved: all of them must be read again."""


def fold(name: str, before: Any, new: Any) -> Any:
    """Add the rows of a table in `FOLDED` up. Return an Arrow table with one row for each key."""
    keys, how = _HOW[name]
    every = pa.concat_tables([before, new])
    found = every.group_by(list(keys)).aggregate(list(how.items()))
    columns = {key: found.column(key) for key in keys}
    columns |= {column: found.column(f"{column}_{kind}") for column, kind in how.items()}
    schema = declared(name)
    return pa.table([columns[each] for each in schema.names], schema=schema)


@dataclass(frozen=True, slots=True)
class ResolvedTransactions:
    """The commits within transactions after an update.

    `done` has batches, each with its table or stage, that later records do not change; `pending` those of open transactions, whose
    records are the `open_rows` for the next update. `last` is the last offset that was processed, by partition.
    """

    done: list[tuple[str, Any]]
    pending: list[tuple[str, Any]]
    open_rows: Any
    last: Mapping[str, int]


def resolve_more(carried: Any, new: Any, last: Mapping[str, int]) -> ResolvedTransactions:
    """Resolve commits within transactions, up to the current end of the log.

    `carried` and `last` are of the update before; `new` are the rows of the stage "deferred" read since.
    Raises LateTransactionError if some of them precede others that were processed already.
    """
    spans = new.group_by("src_partition").aggregate([("src_offset", "min"), ("src_offset", "max")])
    after = dict(last)
    for row in spans.to_pylist():
        partition = str(row["src_partition"])
        if row["src_offset_min"] <= last.get(partition, -1):
            raise LateTransactionError(
                f"partition {partition}: offset {row['src_offset_min']} of a transaction came after"
                f" {last[partition]}; the tables have to be made again"
            )
        after[partition] = row["src_offset_max"]
    every = pa.concat_tables([carried, new]).sort_by(
        [("src_partition", "ascending"), ("src_offset", "ascending")]
    )
    done: list[tuple[str, Any]] = []
    pending: list[tuple[str, Any]] = []
    open_places: set[tuple[int, int]] = set()
    for name, batch in resolve_transactions(every.to_batches(max_chunksize=BATCH_ROWS)):
        if name == "offset_commits":
            is_open = pc.equal(batch.column("state"), PENDING)
            open_places |= set(_places(batch.filter(is_open)))
        elif name == RECORDS:
            # follows the commits that it sums
            is_open = _among(batch, open_places)
        else:
            done.append((name, batch))
            continue
        done.append((name, batch.filter(pc.invert(is_open))))
        pending.append((name, batch.filter(is_open)))
    still = every.filter(_among(every, open_places))
    return ResolvedTransactions(done, pending, still, after)


def _places(rows: Any) -> list[tuple[int, int]]:
    return list(
        zip(
            rows.column("src_partition").to_pylist(),
            rows.column("src_offset").to_pylist(),
            strict=True,
        )
    )


def _among(rows: Any, places: set[tuple[int, int]]) -> Any:
    return pa.array([each in places for each in _places(rows)], type=pa.bool_())
