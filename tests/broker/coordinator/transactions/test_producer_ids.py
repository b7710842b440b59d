"""Tests that every producer id is handed out once, whoever asks and whatever breaks."""

import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

from groupsdk.broker.coordinator.transactions.producer_ids import (
    MAX_PRODUCER_ID,
    BlockStoreError,
    ProducerIdAllocator,
    ProducerIdsExhaustedError,
)
from groupsdk.error_code import ErrorCode
from tests.broker.coordinator.transactions.driving import MemoryBlockStore


class FlakyStore(MemoryBlockStore):
    """Fails before or after it has taken a claim down, as told."""

    def __init__(self) -> None:
        super().__init__()
        self.trouble: str | None = None

    @override
    def next_start(self) -> int:
        if self.trouble == "read":
            raise BlockStoreError("cannot be read")
        return super().next_start()

    @override
    def claim(self, start: int, following: int) -> bool:
        if self.trouble == "before":
            raise BlockStoreError("cannot be written")
        claimed = super().claim(start, following)
        if self.trouble == "after":
            raise BlockStoreError("written, but the answer is lost")
        return claimed


def test_ids_come_in_blocks_of_a_thousand() -> None:
    store = MemoryBlockStore()
    allocator = ProducerIdAllocator(store)
    assert store.next_start() == 0
    assert [allocator.next_id() for _ in range(1_000)] == [*range(1_000)]
    assert store.next_start() == 1_000
    assert allocator.next_id() == 1_000
    assert store.next_start() == 2_000


def test_two_allocators_on_one_store_share_no_id() -> None:
    store = MemoryBlockStore()
    one, two = ProducerIdAllocator(store, block_size=3), ProducerIdAllocator(store, block_size=3)
    ids = [allocator.next_id() for _ in range(10) for allocator in (one, two)]
    assert len(set(ids)) == len(ids) == 20
    assert max(ids) < 24


def test_a_lost_race_takes_the_next_block() -> None:
    class Raced(MemoryBlockStore):
        races = 2

        @override
        def claim(self, start: int, following: int) -> bool:
            if self.races:
                self.races -= 1
                super().claim(start, following)  # another allocator was faster
            return super().claim(start, following)

    assert ProducerIdAllocator(Raced(), block_size=10).next_id() == 20


def test_a_store_that_refuses_everything_is_an_error() -> None:
    class Broken(MemoryBlockStore):
        @override
        def claim(self, start: int, following: int) -> bool:
            return False

    with pytest.raises(BlockStoreError, match="rejected 1000 claims"):
        ProducerIdAllocator(Broken()).next_id()


def test_a_store_below_zero_is_an_error() -> None:
    with pytest.raises(BlockStoreError, match="negative id -5"):
        ProducerIdAllocator(MemoryBlockStore(-5)).next_id()


def test_exhaustion_is_an_error_and_stays_one() -> None:
    store = MemoryBlockStore(MAX_PRODUCER_ID - 10)
    allocator = ProducerIdAllocator(store, block_size=10)
    ids = [allocator.next_id() for _ in range(10)]
    assert ids[-1] == MAX_PRODUCER_ID - 1
    assert store.next_start() == MAX_PRODUCER_ID
    for _ in range(2):
        with pytest.raises(ProducerIdsExhaustedError, match="no block of 10"):
            allocator.next_id()
    assert not ProducerIdsExhaustedError.retriable
    assert ProducerIdsExhaustedError.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert BlockStoreError.retriable
    assert BlockStoreError.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_block_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="block_size must be at least 1, not 0"):
        ProducerIdAllocator(MemoryBlockStore(), block_size=0)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from([None, None, None, "read", "before", "after", "crash"]),
        ),
        max_size=80,
    )
)
def test_no_id_twice_through_failures_and_crashes(steps: list[tuple[int, str | None]]) -> None:
    store = FlakyStore()
    allocators = [ProducerIdAllocator(store, block_size=4) for _ in range(3)]
    handed_out: list[int] = []
    for which, trouble in steps:
        if trouble == "crash":
            allocators[which] = ProducerIdAllocator(store, block_size=4)
            continue
        store.trouble = trouble
        try:
            handed_out.append(allocators[which].next_id())
        except BlockStoreError:
            assert trouble is not None
    assert len(set(handed_out)) == len(handed_out)
