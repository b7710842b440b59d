"""What a user of shards writes: the callbacks of `ShardWorker` and `AsyncShardWorker`, and perhaps a store of epochs."""

from abc import abstractmethod
from collections.abc import Awaitable, Iterable, Sequence
from typing import Protocol

from groupsdk.errors import GroupSdkError
from groupsdk.shards.types import Lease, Shard


class AsyncShardCallbacks:
    """The callbacks of a shard worker for asyncio: each may be a `def` or an `async def`; only `shards` is required.

    For one shard at most one of them runs at a time. Those in the past tense of the group's decisions, `on_shards_gained`
    and `on_shards_lost`, and `shards` run within `poll`, so that heartbeats go on meanwhile but the next poll waits;
    the others run beside `poll`, and may take their time.
    """

    @abstractmethod
    def shards(self) -> Iterable[str | Shard] | Awaitable[Iterable[str | Shard]]:
        """Return the whole list of shards, by name, or as `Shard` with weight, needs and zone.

        Called on the leader, before each plan, every `shards.refresh.ms` and after `request_refresh`. All workers have to
        return the same list. If it raises, or returns what is no list of shards, everybody keeps what it has, the
        leader's `poll` raises the error, and it is called again after a backoff.
        """
        ...

    def on_shards_gained(self, leases: Sequence[Lease]) -> Awaitable[None] | None:
        """Begin to work on shards.

        Runs within `poll`. If it raises, `poll` raises the same, and the next one calls it again with the same shards,
        after a backoff from the second time on; they stay this worker's, but are not among its `leases()`.
        For each shard for which it was called, also if it raised, `on_shards_released` or `on_shards_lost` follows.

        Args:
            leases: what was gained, in the order of the names.
        """

    def on_shards_released(self, names: Sequence[str]) -> Awaitable[None] | None:
        """Stop working on shards: another worker gains them once this has returned.

        Runs beside `poll`: on a thread of its own, or in a task of its own. Until it returns or `release.timeout.ms` is
        over, what is still in progress may be finished: the leases stay in force. Several may run at once, for
        different shards. If it raises, `poll` raises the same, and it is called again after a backoff, within the same
        time. When the time is over, this worker loses all its shards, by its own clock first, and leaves the group until
        the call has returned.

        Args:
            names: what to stop, sorted.
        """

    def on_shards_lost(self, names: Sequence[str]) -> Awaitable[None] | None:
        """Drop shards at once: others may already own them.

        Runs within `poll`, before this worker joins again. If it raises, `poll` raises the same; it is not called again.

        Args:
            names: what was lost, sorted.
        """

    def on_standby_gained(self, names: Sequence[str]) -> Awaitable[None] | None:
        """Warm up for shards of other workers; returning means to be ready.

        Runs beside `poll`. If it raises, `poll` raises the same, and it is called again after a backoff. When this worker
        becomes the owner of such a shard, `on_shards_gained` is called in place of `on_standby_released`.

        Args:
            names: what to stand by for, sorted.
        """

    def on_standby_released(self, names: Sequence[str]) -> Awaitable[None] | None:
        """Drop what `on_standby_gained` has warmed up.

        Runs beside `poll`. If it raises, `poll` raises the same, and it is not called again.

        Args:
            names: what not to stand by for any more, sorted.
        """


class EpochStoreError(GroupSdkError):
    """The number of a new incarnation could not be recorded. Nothing was assigned; a later poll tries again."""

    retriable = True


class EpochStore(Protocol):
    """Records the incarnations of groups: numbers that rise though a group was forgotten and a clock went back.

    Only the leader calls it, and only when an incarnation begins: in the first generation of a group, and in one that no
    member can tie to the generation before. With threads it is called on the thread that polls, with asyncio on a thread
    of its own.
    """

    def advance(self, group_id: str, at_least: int) -> int:
        """Return a number greater than all that were returned before for the group, once it is recorded durably.

        Args:
            group_id: the group.
            at_least: the least number to return.

        Raises:
            EpochStoreError: it cannot be recorded at present.
        """
        ...


class ClockEpochStore:
    """An `EpochStore` that records nothing: `at_least` contains the leader's clock, which then has to be right."""

    def advance(self, group_id: str, at_least: int) -> int:
        return at_least
