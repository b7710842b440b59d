"""Reading: what becomes of the records of a log before the groups are followed."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa

from examples.history_log import Seat, commit, generation
from groupsdk.history.explain.commit_spans import REMOVED
from groupsdk.history.explain.timeline.modern_protocols import topic_id_text
from groupsdk.history.read.arrow_rows import Reject
from groupsdk.history.read.batches import Records, read_batches
from groupsdk.history.read.reading import Reader, resolve_transactions
from groupsdk.history.tables.stages import COVERAGE, DEFERRED, RECORDS, TALLY, TOPIC_HINTS
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.coordinator_records.offsets_log import write
from groupsdk.wire.records.control import build_marker
from groupsdk.wire.records.record import Record, build_batch
from tests.history.sample import segment_files


def records_of(*pairs: Any, base: int = 0, producer: int = -1) -> Records:
    """Make one batch of records, in a transaction of a producer if there is one."""
    records = [Record(base + n, 1000 * (base + n), *pair) for n, pair in enumerate(pairs)]
    data = build_batch(records, base, 0, producer, 0, transactional=producer >= 0)
    (found,) = read_batches(data)
    return found


def marker(producer: int, base: int, *, committed: bool) -> Records:
    """Make the end of a transaction."""
    (found,) = read_batches(
        build_marker(
            producer,
            0,
            committed=committed,
            coordinator_epoch=0,
            timestamp_ms=1000 * base,
            base_offset=base,
        )
    )
    return found


def rows(made: Iterator[tuple[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Gather rows by their table or stage."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, batch in made:
        found.setdefault(name, []).extend(batch.to_pylist())
    return found


def read(*every: Records, has_holes: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Read the records of partition 7."""
    reader = Reader(has_holes=has_holes)

    def made() -> Iterator[tuple[str, Any]]:
        for records in every:
            yield from reader.take(records, 7, "here")
        yield from reader.close()

    return rows(made())


def test_commits_become_a_table_and_the_groups_get_their_records_and_sums() -> None:
    found = read(
        records_of(
            commit("g", "t", 0, 5),
            commit("g", "t", 0, 6),
            generation("g", 1, {"m": Seat("c", {"t": [0]})}),
            commit("g", "t", 0, 7),
            (commit("g", "t", 0, 0)[0], None),
        )
    )
    table = found["offset_commits"]
    assert [(row["committed_offset"], row["state"]) for row in table] == [
        (5, "committed"),
        (6, "committed"),
        (7, "committed"),
        (None, "committed"),
    ]
    sums = [(row["last_offset"], row["commits"]) for row in found[RECORDS] if row["topic"]]
    assert sums == [(6, 2), (7, 1), (None, REMOVED)]
    assert [row["src_offset"] for row in found[RECORDS] if row["key"]] == [2]
    (covered,) = found[COVERAGE]
    assert (covered["records"], covered["commits"], covered["deferred"]) == (5, 4, 0)
    assert (covered["first_offset"], covered["last_offset"]) == (0, 4)


def test_over_a_hole_nothing_is_summed_up() -> None:
    both = records_of(commit("g", "t", 0, 5), commit("g", "t", 0, 6))
    both.offsets[1] = 9
    for has_holes, many in ((False, [2]), (True, [1, 1])):
        found = read(both, has_holes=has_holes)
        assert [row["commits"] for row in found[RECORDS]] == many


def test_undecodable_or_unreadable_record_is_rejected_and_counted() -> None:
    reader = Reader()
    found = rows(reader.take(records_of((b"\0\1\0\1g", b"\0\0")), 7, "here"))
    (reject,) = found["rejects"]
    assert (reject["record_type"], reject["place"], reject["lost"]) == (1, "here", 1)
    (unread,) = rows(reader.refuse([Reject(None, "there", "torn", 0)], 7))["rejects"]
    assert (unread["reason"], unread["record_type"]) == ("torn", None)
    assert list(reader.refuse([], 7)) == []
    tally = {row["what"]: row["n"] for row in rows(reader.close())[TALLY]}
    assert tally == {"undecodable": 1, "bad_batches": 1}
    assert (
        list(reader.take(records_of((b"", None)).take(pa.array([False]).to_numpy(False)), 7, ""))
        == []
    )


def test_a_topic_that_commits_name_by_both_is_told_once() -> None:
    key, topic_id = OffsetCommitKey("g", "t", 0), UUID(int=5)
    pair = write(key, OffsetCommitValue(5, 3, "m", 1000, topic_id=topic_id))
    found = read(records_of(pair, pair), records_of(pair, base=2))
    (told,) = found[TOPIC_HINTS]
    assert (told["group_id"], told["topic"], told["topic_id"]) == (
        None,
        "t",
        topic_id_text(topic_id),
    )
    assert {row["topic_id"] for row in found["offset_commits"]} == {topic_id_text(topic_id)}


def deferred_of(*every: Records) -> list[Any]:
    """Read records; gives those that wait for the ends of their transactions."""
    reader = Reader()
    return [
        batch
        for records in every
        for name, batch in reader.take(records, 7, "here")
        if name == DEFERRED
    ]


def test_commits_count_as_their_transactions_end() -> None:
    batches = deferred_of(
        records_of(commit("tx", "t", 0, 1), commit("tx", "t", 1, 2), producer=5),
        records_of(commit("tx", "t", 0, 3), base=2, producer=6),
        marker(5, 3, committed=True),
        records_of(commit("tx", "t", 0, 4), base=4, producer=5),
        marker(6, 5, committed=False),
        records_of(commit("tx", "t", 0, 9), base=6, producer=8),
        marker(5, 7, committed=False),
    )
    found = rows(resolve_transactions(batches))
    states = {row["committed_offset"]: row["state"] for row in found["offset_commits"]}
    assert states == {
        1: "committed",
        2: "committed",
        3: "aborted",
        4: "aborted",
        9: "pending",
    }
    # the groups learn that they worked, and count what is committed
    counted = [(row["last_offset"], row["commits"]) for row in found[RECORDS]]
    assert sorted(counted, key=str) == [(1, 1), (2, 1), (None, 0), (None, 0), (None, 0)]


def test_transactions_of_another_partition_stay_apart() -> None:
    one, other = (
        deferred_of(records_of(commit("tx", "t", 0, 1), producer=5))[0],
        marker(5, 3, committed=True),
    )
    elsewhere = deferred_of(other)[0]
    moved = elsewhere.set_column(0, "src_partition", pa.array([8], type=pa.int32()))
    found = rows(resolve_transactions([one, moved]))
    assert [row["state"] for row in found["offset_commits"]] == ["pending"]


def test_every_record_of_a_real_log_goes_somewhere() -> None:
    seen: dict[str, int] = {}
    for path in segment_files():
        for records in read_batches(path.read_bytes()):
            for name, found in read(records).items():
                many = (
                    sum(row.get("topic") is None for row in found)
                    if name == RECORDS
                    else len(found)
                )
                seen[name] = seen.get(name, 0) + many
    assert seen["offset_commits"] + seen[RECORDS] + seen[DEFERRED] == 1033


def test_a_group_whose_name_cannot_be_read_is_null() -> None:
    found = read(records_of((b"\0\2\0\1\xff", b""), (b"", b"x"), (b"\0\2\0\1g", b"\0\3")))
    assert [row["group_id"] for row in found[RECORDS]] == [None, None, "g"]
