from groupsdk.broker.groups.committed_offset import CommittedOffset
from groupsdk.broker.groups.offset_store import OffsetStore


def at(position: int, offset: int = 5) -> CommittedOffset:
    return CommittedOffset(offset, position=position)


def test_what_was_put_is_there_until_it_is_removed() -> None:
    store = OffsetStore()
    store.put("g", "t", 0, at(1))
    store.put("g", "t", 1, at(2))

    assert store.get("g", "t", 0) == at(1)
    assert store.get("g", "t", 2) is store.get("g", "u", 0) is store.get("h", "t", 0) is None
    assert store.topics("g") == {"t": {0: at(1), 1: at(2)}}
    store.remove("g", "t", 0)
    store.remove("g", "t", 0)
    assert store.topics("g") == {"t": {1: at(2)}}
    store.remove("g", "t", 1)

    assert store.group_ids() == ()


def test_a_transaction_shows_nothing_before_its_end() -> None:
    store = OffsetStore()
    store.put_pending(7, "g", "t", 0, at(1))

    assert store.get("g", "t", 0) is None
    assert store.is_unstable("g", "t", 0)
    assert not store.is_unstable("g", "t", 1)
    assert store.has_open_transactions("g")
    assert store.all_group_ids() == ["g"]
    store.end_transaction(7, committed=True)
    store.end_transaction(7, committed=True)

    assert store.get("g", "t", 0) == at(1)
    assert not store.has_open_transactions("g")


def test_the_later_record_wins() -> None:
    store = OffsetStore()
    store.put_pending(7, "g", "t", 0, at(1, 50))
    store.put_pending(7, "g", "t", 1, at(3, 51))
    store.put("g", "t", 0, at(2, 60))
    store.put("g", "t", 1, at(2, 61))

    store.end_transaction(7, committed=True)

    assert store.topics("g") == {"t": {0: at(2, 60), 1: at(3, 51)}}


def test_a_tombstone_takes_pending_values_of_all_producers() -> None:
    store = OffsetStore()
    for producer_id in (7, 8):
        store.put_pending(producer_id, "g", "t", 0, at(1))
    store.put_pending(8, "g", "t", 1, at(1))
    store.put_pending(8, "h", "t", 0, at(1))

    store.remove("g", "t", 0)

    assert not store.is_unstable("g", "t", 0)
    assert store.is_unstable("g", "t", 1)
    store.remove("g", "t", 1)
    assert not store.has_open_transactions("g")
    assert store.has_open_transactions("h")
    store.end_transaction(7, committed=True)
    store.end_transaction(8, committed=True)
    assert store.group_ids() == ("h",)


def test_partitions_are_listed_once() -> None:
    store = OffsetStore()
    store.put("g", "t", 0, at(1))
    for producer_id in (7, 8):
        store.put_pending(producer_id, "g", "t", 0, at(1))
        store.put_pending(producer_id, "g", "u", 3, at(1))

    assert sorted(store.partitions("g")) == [("t", 0), ("u", 3)]
    assert list(store.partitions("h")) == []
