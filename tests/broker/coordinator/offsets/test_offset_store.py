from itertools import count
from typing import Any
from uuid import UUID

from hypothesis import given, strategies as st

from groupsdk.broker.coordinator.consumer.topics import TopicInfo
from groupsdk.broker.coordinator.group.records import (
    CommittedOffset,
    OffsetCommitRecords,
    OffsetTombstone,
)
from groupsdk.broker.coordinator.offsets.offset_metadata_manager import OffsetStore
from groupsdk.broker.coordinator.runtime.contract import ProducerStamp


def at(offset: int = 5) -> CommittedOffset:
    return CommittedOffset(offset)


def put(
    store: OffsetStore,
    topic: str,
    partition: int,
    offset: int = 5,
    *,
    group_id: str = "g",
    producer_id: int | None = None,
) -> None:
    producer = None if producer_id is None else ProducerStamp(producer_id, 0)
    store.replay(OffsetCommitRecords(group_id, topic, {partition: at(offset)}), producer)


def remove(store: OffsetStore, topic: str, partition: int) -> None:
    store.replay_tombstone(OffsetTombstone("g", topic, partition))


def test_stored_offset_is_there_until_it_is_removed() -> None:
    store = OffsetStore()
    put(store, "t", 0, 1)
    put(store, "t", 1, 2)

    assert store.get("g", "t", 0) == at(1)
    assert store.get("g", "t", 2) is store.get("g", "u", 0) is store.get("h", "t", 0) is None
    assert store.topics("g") == {"t": {0: at(1), 1: at(2)}}
    remove(store, "t", 0)
    remove(store, "t", 0)
    assert store.topics("g") == {"t": {1: at(2)}}
    remove(store, "t", 1)

    assert store.all_group_ids() == []


def test_a_transaction_shows_nothing_before_its_end() -> None:
    store = OffsetStore()
    put(store, "t", 0, 1, producer_id=7)

    assert store.get("g", "t", 0) is None
    assert store.is_unstable("g", "t", 0)
    assert not store.is_unstable("g", "t", 1)
    assert store.has_open_transactions("g")
    assert store.all_group_ids() == ["g"]
    store.replay_marker(7, committed=True)
    store.replay_marker(7, committed=True)

    assert store.get("g", "t", 0) == at(1)
    assert not store.has_open_transactions("g")


def test_the_later_record_wins() -> None:
    store = OffsetStore()
    put(store, "t", 0, 50, producer_id=7)
    put(store, "t", 0, 60)
    put(store, "t", 1, 61)
    put(store, "t", 1, 51, producer_id=7)

    assert store.is_unstable("g", "t", 0)
    store.replay_marker(7, committed=True)

    assert store.topics("g") == {"t": {0: at(60), 1: at(51)}}


def test_the_later_record_wins_whichever_transaction_ends_first() -> None:
    for first, second in ((7, 8), (8, 7)):
        store = OffsetStore()
        put(store, "t", 0, 70, producer_id=7)
        put(store, "t", 0, 80, producer_id=8)

        store.replay_marker(first, committed=True)
        store.replay_marker(second, committed=True)

        assert store.get("g", "t", 0) == at(80), f"{first} ends first"


places = st.tuples(st.sampled_from("ab"), st.integers(0, 1))
events = st.one_of(
    st.tuples(st.just("put"), places, st.none() | st.integers(1, 2)),
    st.tuples(st.just("remove"), places),
    st.tuples(st.just("end"), st.integers(1, 2), st.booleans()),
)


@given(st.lists(events, max_size=30))
def test_of_all_committed_records_the_last_one_in_the_log_counts(happened: list[Any]) -> None:
    store, numbers = OffsetStore(), count()
    committed: dict[Any, int] = {}
    pending: dict[tuple[Any, int], int] = {}
    for kind, what, *rest in happened:
        if kind == "put":
            number, (producer,) = next(numbers), rest
            put(store, what[0], what[1], number, producer_id=producer)
            if producer is None:
                committed[what] = number
            else:
                pending[what, producer] = number
        elif kind == "remove":
            remove(store, *what)
            committed.pop(what, None)
            pending = {each: number for each, number in pending.items() if each[0] != what}
        else:
            store.replay_marker(what, committed=rest[0])
            for place, number in [(p, n) for (p, w), n in pending.items() if w == what]:
                del pending[place, what]
                if rest[0]:
                    committed[place] = max(number, committed.get(place, number))

    assert {place: store.get("g", *place) for place in store.partitions("g")} == {
        place: at(committed[place]) if place in committed else None
        for place in {*committed, *(each for each, _ in pending)}
    }


def test_a_tombstone_takes_pending_values_of_all_producers() -> None:
    store = OffsetStore()
    for producer_id in (7, 8):
        put(store, "t", 0, producer_id=producer_id)
    put(store, "t", 1, producer_id=8)
    put(store, "t", 0, group_id="h", producer_id=8)

    remove(store, "t", 0)

    assert not store.is_unstable("g", "t", 0)
    assert store.is_unstable("g", "t", 1)
    remove(store, "t", 1)
    assert not store.has_open_transactions("g")
    assert store.has_open_transactions("h")
    store.replay_marker(7, committed=True)
    store.replay_marker(8, committed=True)
    assert store.all_group_ids() == ["h"]


def test_partitions_are_listed_once() -> None:
    store = OffsetStore()
    put(store, "t", 0)
    for producer_id in (7, 8):
        put(store, "t", 0, producer_id=producer_id)
        put(store, "u", 3, producer_id=producer_id)

    assert sorted(store.partitions("g")) == [("t", 0), ("u", 3)]
    assert list(store.partitions("h")) == []


def test_lags_are_known_where_offset_and_end_are() -> None:
    store = OffsetStore()
    for partition, offset in enumerate((1, 9, 5, 0)):
        put(store, "t", partition, offset)
    t, u = (TopicInfo(UUID(int=n), name, 4) for n, name in ((1, "t"), (2, "u")))
    ends = {("t", 0): 8, ("t", 1): 8, ("t", 3): 8, ("u", 0): 8}

    found = store.lags("g", [t, u], lambda topic, partition: ends.get((topic, partition)))

    assert found == {t.topic_id: {0: 7, 1: 0, 3: 8}, u.topic_id: {}}
    assert store.lags("h", [t], lambda topic, partition: 8) == {t.topic_id: {}}
