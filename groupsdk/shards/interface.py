"""What the workers of both drivers share: the calls that wait for nothing."""

import weakref
from typing import Final

from groupsdk.clock import WallClock
from groupsdk.drivers.engine_handle import EngineHandle
from groupsdk.drivers.interface import NOT_CREATED
from groupsdk.shards.callbacks import EpochStore
from groupsdk.shards.config import ShardConfig
from groupsdk.shards.epoch_topic import open_store
from groupsdk.shards.membership import ShardMembership, ShardStatus
from groupsdk.shards.types import Lease


LONGEST_MS: Final = 2**31 - 1
"""The longest wait of a call without a limit."""


class ShardInterface:
    """What shard workers of both drivers have in common: the calls that wait for nothing, which are not awaited."""

    _groupsdk_shards: ShardMembership = NOT_CREATED
    _groupsdk_handle: EngineHandle
    _groupsdk_leave_timeout_ms = LONGEST_MS

    def _groupsdk_open(self, config: ShardConfig, store: EpochStore | None) -> None:
        """Make the deciding part; `store` is None where it is to be as the settings say."""
        handle = self._groupsdk_handle
        date = WallClock(handle.clock)
        self._groupsdk_shards = ShardMembership(
            config,
            weakref.proxy(self),  # no reference cycle, see AbstractCoordinator
            handle,
            store or open_store(config),
            handle.clock.now_ms,
            lambda: date.now_ms() // 1000,
        )

    # What the member asks and tells.

    def metadata(self) -> dict[str, bytes]:
        """Return what this worker says to the leader: how far it knows the group, what it is, and what it holds."""
        return self._groupsdk_shards.metadata()

    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        """Take up what the leader has decided; the callbacks that follow from it are due in `poll`."""
        self._groupsdk_shards.join_completed(generation, member_id, assignment)

    # The user's calls; any thread may make them.

    def wakeup(self) -> None:
        """Make a waiting `poll` or `ensure_active_group` return early. Thread-safe; signal handlers may call it."""
        self._groupsdk_shards.wake()
        self._groupsdk_handle.wakeup()

    def leases(self) -> tuple[Lease, ...]:
        """Return the leases to work under, in the order of the names; cheap, and asks nobody. Thread-safe.

        Shards that are being released are not among them, nor any once this worker's clock shows that they may be
        another's. Check `Lease.held` again before each step that must not run twice.
        """
        return self._groupsdk_shards.leases()

    def lease(self, name: str) -> Lease | None:
        """Return the lease of a shard, if it is among `leases` or just being gained; else None. Thread-safe."""
        return self._groupsdk_shards.lease(name)

    def shard_status(self) -> ShardStatus:
        """Return what this worker knows of its shards and, if it leads, of the last plan; read at once. Thread-safe."""
        return self._groupsdk_shards.status()

    def report_load(self, name: str, value: float) -> None:
        """Report how much work a shard of this worker is at present, in any unit that all workers share. Thread-safe.

        Reports are smoothed. The leader moves shards by them only beyond `load.threshold`. The load of a shard that this
        worker does not own is ignored.

        Args:
            name: the shard.
            value: its load, from 0 to 1e15.

        Raises:
            ShardError: the value is not such a number, or the name cannot be one.
        """
        self._groupsdk_shards.report_load(name, value)

    def request_refresh(self) -> None:
        """Have the leader ask `shards()` soon, because the list has changed. Thread-safe.

        On a worker that does not lead this takes a rebalance, in which nothing moves unless the list has changed.

        Raises:
            MemberClosedError: the worker is closed.
        """
        self._groupsdk_shards.request_refresh()
        self._groupsdk_handle.wakeup()

    def drain(self) -> None:
        """Have this worker's shards moved to others, a few at a time, and leave the group then: see `drained`.

        Go on polling until `drained`, then `close`. Thread-safe; a signal handler may call it.

        Raises:
            MemberClosedError: the worker is closed.
        """
        self._groupsdk_shards.drain()
        self._groupsdk_handle.wakeup()

    @property
    def drained(self) -> bool:
        """Whether the worker has given up everything after `drain`, and has left; `poll` does nothing any more."""
        return self._groupsdk_shards.owner.drained
