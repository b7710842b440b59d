"""The sums of commits, held against a look at one record after the other."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples.history_log import Pair, Seat, commit, generation
from groupsdk.history.explain.commit_spans import REMOVED
from groupsdk.history.read.batches import Records, read_batches
from groupsdk.history.read.commit_parts import SPANS, commit_parts
from groupsdk.history.read.commits import read_commits
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value
from groupsdk.wire.records.record import Record, build_batch
from tests.history.sample import segment_files


def parts_of(records: Records) -> list[dict[str, Any]]:
    """Sum up all commits of some records."""
    commits = read_commits(records)
    found = commit_parts(records, commits, np.ones(len(commits), dtype=np.bool_), 3)
    assert found.schema == SPANS
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def one_by_one(records: list[Record]) -> Iterator[tuple[Any, ...]]:
    """Sum up the same, record by record."""
    sums: dict[tuple[Any, ...], list[Any]] = {}
    numbers: dict[str, int] = {}
    removed: dict[tuple[str, str, int], bool] = {}
    cuts: dict[tuple[str, str, int], int] = {}
    for record in records:
        key: Any = read_key(record.key or b"")
        if not hasattr(key, "topic"):
            numbers[key.group] = numbers.get(key.group, 0) + 1
            continue
        value: Any = read_value(key, record.value)
        interval = key.group, key.topic, key.partition
        if removed.get(interval, False) != (value is None):
            removed[interval] = value is None
            cuts[interval] = cuts.get(interval, 0) + 1
        place = (*interval, numbers.get(key.group, 0), cuts.get(interval, 0))
        found = sums.setdefault(place, [None, None, 0, 0, 0])
        if record.timestamp >= 0:
            times = [each for each in (*found[:2], record.timestamp) if each is not None]
            found[:2] = min(times), max(times)
        many = REMOVED if value is None else found[3] + 1
        found[2:] = None if value is None else value.offset, many, record.offset
    for (group, topic, partition, *_), found in sums.items():
        yield group, topic, partition, *found


PAIRS = st.one_of(
    st.builds(
        commit,
        st.sampled_from(["a", "b", "ä"]),
        st.sampled_from(["t", "u"]),
        st.integers(0, 2),
        st.integers(0, 1000),
    ),
    st.builds(lambda group: (commit(group, "t", 0, 0)[0], None), st.sampled_from(["a", "b"])),
    st.builds(
        lambda group, number: generation(group, number, {"m": Seat("c", {"t": [0]})}),
        st.sampled_from(["a", "b"]),
        st.integers(0, 9),
    ),
)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(-1, 50), PAIRS), min_size=1, max_size=40))
def test_sums_are_those_of_one_record_after_the_other(given_: list[tuple[int, Pair]]) -> None:
    records = [Record(5 + n, ts, *pair) for n, (ts, pair) in enumerate(given_)]
    (read,) = read_batches(build_batch(records, 5))
    rows = parts_of(read)
    found = [
        (
            row["group_id"],
            row["topic"],
            row["partition"],
            *(
                None if row[name] is None else round(row[name].timestamp() * 1000)
                for name in ("first_commit_ts", "last_commit_ts")
            ),
            row["last_offset"],
            row["commits"],
            row["src_offset"],
        )
        for row in rows
    ]
    assert sorted(found, key=repr) == sorted(one_by_one(records), key=repr)
    assert {row["src_partition"] for row in rows} <= {3}


@pytest.mark.parametrize("number", range(len(segment_files())))
def test_no_commit_of_a_real_log_is_lost(number: int) -> None:
    for records in read_batches(segment_files()[number].read_bytes()):
        commits = read_commits(records)
        rows = parts_of(records)
        sums = [row["commits"] for row in rows if row["commits"] != REMOVED]
        assert sum(sums) == int((~commits.is_tombstone).sum())
        assert len(sums) < len(commits)


def test_only_what_is_chosen_counts() -> None:
    records = [Record(n, 7, *commit("g", "t", 0, n)) for n in range(4)]
    (read,) = read_batches(build_batch(records))
    commits = read_commits(read)
    (row,) = commit_parts(read, commits, np.array([True, True, False, False]), 0).to_pylist()
    assert (row["commits"], row["last_offset"], row["src_offset"]) == (2, 1, 1)
    assert commit_parts(read, commits, np.zeros(4, dtype=np.bool_), 0).num_rows == 0
