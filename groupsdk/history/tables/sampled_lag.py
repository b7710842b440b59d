"""Compare committed offsets with samples of partitions' ends."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.errors import ConfigError
from groupsdk.history.read.reading import COMMITTED
from groupsdk.history.read.whole_log import SAMPLED
from groupsdk.history.tables.schemas import TABLES


COMMIT_COLUMNS: Final = (
    *("group_id", "topic", "partition", "ts", "committed_offset", "state"),
    *("src_partition", "src_offset"),
)
"""The columns of `offset_commits` that `sampled` takes."""
_ENDS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("end_offset", pa.int64()),
    ]
)


def read_end_offsets(path: str) -> Any:
    """Read samples of partitions' ends from JSON lines of a file of this machine; a time without a zone is in UTC.

    Raises ConfigError if the file cannot be read, or a line has no topic, partition, ts and end_offset.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        rows = [_sample(json.loads(line)) for line in lines if line.strip()]
        return pa.Table.from_pylist(rows, schema=_ENDS)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise ConfigError(
            f"--end-offsets {path} must have JSON lines with topic, partition, ts and end_offset: {error!r}"
        ) from error


def _sample(row: dict[str, Any]) -> dict[str, Any]:
    time = datetime.fromisoformat(row["ts"])
    return {
        "topic": row["topic"],
        "partition": int(row["partition"]),
        "ts": time if time.tzinfo is not None else time.replace(tzinfo=UTC),
        "end_offset": int(row["end_offset"]),
    }


def sampled(commits: Any, ends: Any) -> Any:
    """Make the rows of the table `lag` that compare what a group had committed with samples of the ends.

    The time lag is how long before the sample the partition's end was at the committed offset or below it: null where
    no sample is that old, or a later one has a lower end.
    """
    schema = TABLES["lag"].arrow_schema
    samples = _by_partition(ends)
    counts = pc.and_(
        pc.equal(commits.column("state"), COMMITTED),
        pc.is_valid(commits.column("committed_offset")),
    )
    wanted = pc.is_in(commits.column("topic"), pc.unique(ends.column("topic")))
    rows = commits.filter(pc.and_(counts, wanted)).sort_by(
        [(name, "ascending") for name in ("group_id", "topic", "partition", "ts", *_PLACE)]
    )
    found = [schema.empty_table()]
    for group, topic, partition, begin, end in _runs(rows):
        if (topic, partition) in samples:
            mine = rows.slice(begin, end - begin)
            found.append(
                _compared(group, topic, partition, mine, samples[topic, partition], schema)
            )
    return pa.concat_tables(found)


_PLACE: Final = ("src_partition", "src_offset")


def _by_partition(ends: Any) -> dict[tuple[str, int], tuple[Any, Any]]:
    """Return the samples of each partition: their times in microseconds, in order, and the ends."""
    ordered = ends.sort_by([(name, "ascending") for name in ("topic", "partition", "ts")])
    times = ordered.column("ts").cast(pa.int64()).to_numpy()
    offsets = ordered.column("end_offset").to_numpy()
    return {
        (topic, partition): (times[begin:end], offsets[begin:end])
        for _, topic, partition, begin, end in _runs(ordered)
    }


def _runs(rows: Any) -> Any:
    """List the runs of sorted rows with equal group, topic and partition, with their bounds."""
    if not rows.num_rows:
        return
    names = [each for each in ("group_id", "topic", "partition") if each in rows.column_names]
    changed = np.zeros(rows.num_rows, dtype=np.bool_)
    for name in names:
        codes = pc.dictionary_encode(rows.column(name).combine_chunks()).indices.to_numpy()
        changed |= np.diff(codes, prepend=-1) != 0
    begins = np.flatnonzero(changed).tolist()
    keys = rows.select(names).take(begins).to_pylist()
    for key, begin, end in zip(keys, begins, [*begins[1:], rows.num_rows], strict=True):
        yield key.get("group_id"), key["topic"], key["partition"], begin, end


def _compared(
    group: str, topic: str, partition: int, commits: Any, samples: tuple[Any, Any], schema: Any
) -> Any:
    times, ends = samples
    committed_at = commits.column("ts").cast(pa.int64()).to_numpy()
    last = np.searchsorted(committed_at, times, side="right") - 1
    known = last >= 0
    times, ends = times[known], ends[known]
    committed = commits.column("committed_offset").to_numpy()[last[known]]
    reached = _reached(*samples, committed)
    # a later one: the end went back meanwhile, so its time means nothing
    time_lag = np.where(ends <= committed, 0, (times - reached) // 1000)
    unknown = (ends > committed) & ((reached < 0) | (reached >= times))
    many = len(times)
    return pa.table(
        {
            "group_id": pa.repeat(pa.scalar(group, pa.string()), many),
            "topic": pa.repeat(pa.scalar(topic, pa.string()), many),
            "partition": pa.repeat(pa.scalar(partition, pa.int32()), many),
            "ts": pa.array(times).cast(schema.field("ts").type),
            "committed_offset": pa.array(committed),
            "end_offset": pa.array(ends),
            # a commit may be ahead of a sample that is older than it
            "lag": pa.array(np.maximum(ends - committed, 0)),
            "time_lag_ms": pa.array(time_lag, mask=unknown),
            "kind": pa.repeat(pa.scalar(SAMPLED), many),
        },
        schema=schema,
    )


def _reached(times: Any, ends: Any, committed: Any) -> Any:
    """Return the time of the last sample whose end was not beyond each committed offset; -1 if there is none."""
    order = np.argsort(ends, kind="stable")
    latest = np.maximum.accumulate(times[order])
    place = np.searchsorted(ends[order], committed, side="right") - 1
    return np.where(place >= 0, latest[np.maximum(place, 0)], -1)
