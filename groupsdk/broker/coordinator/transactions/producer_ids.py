"""Allocate producer ids: each at most once across all allocators of a store."""

import logging
from typing import ClassVar, Final, Protocol

from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError


logger = logging.getLogger(__name__)

BLOCK_SIZE: Final = 1_000
"""The number of ids in a block, as allocated by Kafka's controller."""
MAX_PRODUCER_ID: Final = 2**63 - 1
_MOST_ATTEMPTS: Final = 1_000  # another allocator succeeds for each claim that fails, so this many failures mean a broken store


class ProducerIdError(GroupSdkError):
    """No producer id can be allocated."""

    error_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    """The error code sent to clients."""


def log_none_left(transactional_id: str, error: ProducerIdError) -> None:
    """Log why a transactional id cannot go on."""
    logger.warning(
        "transactional id %s: cannot allocate a producer id: %s", transactional_id, error
    )


class ProducerIdsExhaustedError(ProducerIdError):
    """All producer ids up to 2^63 - 1 are allocated; no later attempt can succeed."""


class BlockStoreError(ProducerIdError):
    """The block store could not be read or written, or its content is invalid."""

    retriable = True
    error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class BlockStore(Protocol):
    """Durably stores the first producer id that is not in any block yet.

    Each call raises BlockStoreError if the store fails; ids that were being claimed must not be used then.
    """

    def next_start(self) -> int:
        """Return the first id of the block to claim next; 0 in a new store."""

    def claim(self, start: int, following: int) -> bool:
        """Claim the ids from `start` up to `following`, exclusive; False if `next_start` is not `start` any more.

        When it returns True, `next_start` is `following` for every allocator, also after a crash.
        """


class ProducerIdAllocator:
    """Allocates ids from claimed blocks (Kafka: `ProducerIdManager`).

    The remaining ids of a block are lost when the process ends; gaps are normal. A block is claimed when its first id
    is needed, since a claim is a local write; Kafka fetches it ahead of time. Not thread-safe.
    """

    def __init__(self, store: BlockStore, *, block_size: int = BLOCK_SIZE) -> None:
        if block_size < 1:
            raise ValueError(f"block_size must be at least 1, not {block_size}")
        self._store = store
        self._block_size = block_size
        self._next = 0
        self._end = 0

    def next_id(self) -> int:
        """Return an id that was never allocated before; ProducerIdsExhaustedError if none is left."""
        if self._next == self._end:
            self._next, self._end = self._claimed()
        producer_id = self._next
        self._next += 1
        return producer_id

    def _claimed(self) -> tuple[int, int]:
        for _ in range(_MOST_ATTEMPTS):
            start = self._store.next_start()
            if start < 0:
                raise BlockStoreError(f"the producer id store returned the negative id {start}")
            following = start + self._block_size
            # The start of the next block must be an int64, too, so the last ids, less than a block, stay unused.
            if following > MAX_PRODUCER_ID:
                raise ProducerIdsExhaustedError(
                    f"no block of {self._block_size} producer ids is left at {start}"
                )
            if self._store.claim(start, following):
                logger.info("producer ids %d to %d claimed", start, following - 1)
                return start, following
        raise BlockStoreError(
            f"the producer id store rejected {_MOST_ATTEMPTS} claims of the blocks that it offered"
        )
