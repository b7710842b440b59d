"""Sum committed offsets between one group record and the next, within one piece of a log."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.history.explain.commit_spans import LONG_PAUSE_MS, REMOVED
from groupsdk.history.read.arrow_rows import group_ids
from groupsdk.history.read.batches import Records
from groupsdk.history.read.columns import Flags, Longs, timestamps
from groupsdk.history.read.commits import Commits
from groupsdk.history.tables.stages import RECORD_ROWS
from groupsdk.history.times import LAST_MS


_NEVER: Final = LAST_MS + 1

_COLUMNS: Final = (
    *("group_id", "topic", "partition", "first_commit_ts", "last_commit_ts", "last_offset"),
    *("commits", "src_partition", "src_offset", "leader_epoch"),
)
SPANS: Final = pa.schema([RECORD_ROWS.field(each) for each in _COLUMNS])
"""A group's commits of a partition between two of its own records, or a part of them.

`src_offset` is that of the last of the commits: no record of the group stands between them, and all were written under
one leader of the log's partition. If `commits` is `REMOVED`, these are tombstones of committed offsets.
"""


def commit_parts(
    records: Records, commits: Commits, chosen: Flags, partition: int, *, has_holes: bool = False
) -> Any:
    """Sum the chosen commits of some records, which are in log order, to a record batch of the schema `SPANS`.

    A tenth or less of the commits themselves is left to be sorted, as members commit many times in a generation. Rows of the
    same group and partition, with no group record between them, are separated by a pause of more than `LONG_PAUSE_MS`, or by
    the removal of the committed offset.

    Args:
        chosen: which of the commits and tombstones count.
        has_holes: records between these may be elsewhere, group records among them: nothing is summed up over a hole.
    """
    taken = np.flatnonzero(chosen)
    if not len(taken):
        return pa.RecordBatch.from_pylist([], schema=SPANS)
    rows = commits.rows[taken]
    groups = pc.take(commits.group_id, pa.array(taken))
    topics = pc.dictionary_encode(pc.take(commits.topic, pa.array(taken)))
    since = _since(records, commits, rows, groups)
    partitions, numbers = np.unique(commits.partition[taken], return_inverse=True)
    places = topics.indices.to_numpy().astype(np.int64) * len(partitions) + numbers
    epochs, of_epoch = np.unique(records.leader_epochs[rows], return_inverse=True)
    if len(epochs) > 1:
        places = places * len(epochs) + of_epoch
    if has_holes:
        runs = np.cumsum(np.diff(records.offsets, prepend=records.offsets[:1]) != 1)[rows]
        places = places * (int(runs[-1]) + 1) + runs
    order = np.lexsort((places, since))
    since, places = since[order], places[order]
    times = records.timestamps[rows[order]]
    changes = (since[1:] != since[:-1]) | (places[1:] != places[:-1])
    # a pause stays visible: a sum would hide that nothing was committed in between
    changes |= np.diff(times) > LONG_PAUSE_MS
    is_gone = commits.is_tombstone[taken[order]]
    changes |= is_gone[1:] != is_gone[:-1]
    begins = np.flatnonzero(np.concatenate(([True], changes)))
    # within each the log order holds: the last one is the latest
    ends = np.append(begins[1:], len(order)) - 1
    last = taken[order[ends]]
    is_gone = is_gone[ends]
    known = (times >= 0) & (times <= LAST_MS)
    at = pa.array(last)
    columns = [
        pc.take(commits.group_id, at),
        pc.take(commits.topic, at),
        pa.array(commits.partition[last].astype(np.int32)),
        timestamps(np.minimum.reduceat(np.where(known, times, _NEVER), begins)),
        timestamps(np.maximum.reduceat(np.where(known, times, -1), begins)),
        pa.array(commits.offset[last], mask=is_gone),
        pa.array(np.where(is_gone, REMOVED, ends - begins + 1)),
        pa.array(np.full(len(last), partition, dtype=np.int32)),
        pa.array(records.offsets[commits.rows[last]]),
        pa.array(records.leader_epochs[commits.rows[last]].astype(np.int32)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SPANS)


def _since(records: Records, commits: Commits, rows: Longs, groups: Any) -> Longs:
    """Number the intervals between two records of a group: commits in the same interval have the same number."""
    others = np.ones(len(records), dtype=np.bool_)
    others[commits.rows] = False
    marks = np.flatnonzero(others & ~records.is_control)
    names = pa.concat_arrays([group_ids(records, marks), groups])
    codes = pc.dictionary_encode(names).indices.fill_null(-1).to_numpy(zero_copy_only=False)
    order = np.lexsort((np.concatenate([marks, rows]), codes))
    codes = codes[order]
    opens = order < len(marks)
    opens[0] = True
    opens[1:] |= codes[1:] != codes[:-1]
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(opens)
    return numbers[len(marks) :]
