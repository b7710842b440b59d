"""A worker of a group that shares out shards, driven by the caller's thread: `ShardWorker`."""

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from groupsdk.clock import Clock
from groupsdk.coordinator import refuse_unrun
from groupsdk.drivers.caller import checked_timeout_ms
from groupsdk.drivers.engine_handle import Pause as MailboxPause
from groupsdk.drivers.interface import NOT_CREATED
from groupsdk.drivers.one_thread import OneThread, busy_text, nested_text
from groupsdk.drivers.threads.member import AbstractCoordinator
from groupsdk.lazy_imports import override
from groupsdk.settings.config import MemberConfig
from groupsdk.shards.callbacks import AsyncShardCallbacks, EpochStore
from groupsdk.shards.config import ShardConfig
from groupsdk.shards.interface import LONGEST_MS, ShardInterface
from groupsdk.shards.membership import ShardMembership
from groupsdk.shards.steps import (
    Ask,
    Beside,
    Drive,
    LeaveGroup,
    Outcome,
    Pause,
    Step,
    Steps,
    StoreCall,
)
from groupsdk.shards.types import Lease, Shard
from groupsdk.types import GroupMembers, GroupMembershipOperation


if TYPE_CHECKING:
    from groupsdk.shards.keywords import ShardSettings


T = TypeVar("T")


class ShardWorker(ShardInterface, AbstractCoordinator, AsyncShardCallbacks):
    """A worker that owns some of its group's shards: subclass it, set `protocol_type` and write `shards`.

    The group's leader plans who owns which shard; every worker carries out its part. A shard that stays with its worker
    keeps running through a rebalance. One that moves is released first, and gained by the next worker after that. Each
    `Lease` has an epoch that only rises, for fencing. See `AsyncShardCallbacks` for what you may write.

    Threads: one thread at a time drives the worker (`poll`, `ensure_active_group`, `leave_group`, `close`). `leases`,
    `lease`, `shard_status`, `report_load`, `request_refresh`, `drain`, `drained` and all that `AbstractCoordinator` names
    may be called from any thread; `drain`, `request_refresh` and `wakeup` also by a signal handler.

    Args:
        settings: dotted keys, e.g. ``{"bootstrap.servers": "...", "group.id": "..."}``, or a `ShardConfig`.
        epoch_store: where the beginnings of epochs are recorded; None: as `epoch.topic` says.
        clock: the time; for tests.
        keywords: the same as keywords, e.g. ``group_id="..."``.

    Raises:
        ConfigError: a setting is unknown, missing or wrong.
    """

    _groupsdk_alone: OneThread = NOT_CREATED

    def __init__(
        self,
        settings: Mapping[str, Any] | ShardConfig | MemberConfig | None = None,
        /,
        *,
        epoch_store: EpochStore | None = None,
        clock: Clock | None = None,
        **keywords: "Unpack[ShardSettings]",
    ) -> None:
        config = ShardConfig.given(settings, keywords)
        super().__init__(config.member, clock=clock)
        self._groupsdk_open(config, epoch_store)
        self._groupsdk_alone = OneThread(busy_text("thread", "worker"), nested_text("worker"))

    # Yours to fill in; see `AsyncShardCallbacks`. Here, so that type checkers refuse an `async def`.

    @override
    @abstractmethod
    def shards(self) -> Iterable[str | Shard]: ...

    @override
    def on_shards_gained(self, leases: Sequence[Lease]) -> None: ...

    @override
    def on_shards_released(self, names: Sequence[str]) -> None: ...

    @override
    def on_shards_lost(self, names: Sequence[str]) -> None: ...

    @override
    def on_standby_gained(self, names: Sequence[str]) -> None: ...

    @override
    def on_standby_released(self, names: Sequence[str]) -> None: ...

    # The library's.

    @override
    def poll(self, timeout: float = 0.0) -> bool:
        """Take part in the group: as `AbstractCoordinator.poll`, and the callbacks of shards.

        Returns early where the worker was told of shards that it gained or lost.
        """
        timeout_ms = checked_timeout_ms(timeout)
        if timeout_ms == 0 and self._groupsdk_shards.idle() and self._groupsdk_handle.quiet():
            return True
        longest_ms = LONGEST_MS if timeout_ms is None else timeout_ms
        return self._groupsdk_alone.run(
            lambda: self._groupsdk_run(self._groupsdk_shards.poll(longest_ms)),
            driving=True,
            within_callbacks=False,
        )

    @override
    def ensure_active_group(self, timeout: float | None = None) -> bool:
        timeout_ms = checked_timeout_ms(timeout)
        return self._groupsdk_alone.run(
            lambda: self._groupsdk_run(self._groupsdk_shards.activate(timeout_ms)),
            driving=True,
            within_callbacks=False,
        )

    @override
    def leave_group(self, reason: str) -> None:
        """Have everything stopped, by `on_shards_released`, and leave; the next `poll` joins again.

        What has not stopped after `release.timeout.ms` is told as lost. See `AbstractCoordinator.leave_group`.
        """

        def leave() -> None:
            AbstractCoordinator.leave_group(self, reason)
            self._groupsdk_run(self._groupsdk_shards.stand_down())

        self._groupsdk_alone.run(leave, driving=True, within_callbacks=False)

    @override
    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Have everything stopped, by `on_shards_released`, leave the group, and end. Harmless when repeated.

        It waits for the callbacks of standbys as well, once it has left.

        Args:
            timeout: the longest wait in seconds, for the callbacks (at most `release.timeout.ms`) and for the coordinator.
            operation: whether to leave (KIP-1092).

        Raises:
            ConcurrentUseError: another thread is driving the worker, which stays open.
            Exception: whatever a callback raised; the worker is closed all the same.
        """
        timeout_ms = checked_timeout_ms(timeout)
        self._groupsdk_leave_timeout_ms = LONGEST_MS if timeout_ms is None else timeout_ms

        def close() -> None:
            AbstractCoordinator.close(self, timeout, operation)
            self._groupsdk_run(self._groupsdk_shards.stand_down())

        self._groupsdk_alone.run(close, driving=True)

    # What the member asks and tells.

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None:
        self._groupsdk_run(self._groupsdk_shards.join_prepared(generation, member_id))

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes]:
        generation = self.generation().generation_id
        return self._groupsdk_run(self._groupsdk_shards.assignment_performed(generation, members))

    @override
    def on_leave_prepare(self) -> None:
        self._groupsdk_run(self._groupsdk_shards.leaving(self._groupsdk_leave_timeout_ms))

    # Carrying out steps.

    def _groupsdk_run(self, steps: Steps[T]) -> T:
        outcome: Outcome | None = None
        try:
            while True:
                step = next(steps) if outcome is None else steps.send(outcome)
                outcome = self._groupsdk_outcome(step)
        except StopIteration as end:
            result: T = end.value
            return result
        except RuntimeError as error:
            # what a user's callback raised, as a generator changes it
            if isinstance(error.__cause__, StopIteration):
                raise error.__cause__ from None
            raise

    def _groupsdk_outcome(self, step: Step) -> Outcome:
        if isinstance(step, Pause):
            return Outcome(self._groupsdk_carry_out(step))
        try:
            return Outcome(self._groupsdk_carry_out(step))
        except BaseException as error:  # noqa: BLE001  # the deciding part raises it
            return Outcome(error=error)

    def _groupsdk_carry_out(self, step: Step) -> object:
        match step:
            case Drive(timeout_ms, until_active):
                seconds = None if timeout_ms is None else timeout_ms / 1000
                if until_active:
                    return AbstractCoordinator.ensure_active_group(self, seconds)
                return AbstractCoordinator.poll(self, 0.0 if seconds is None else seconds)
            case Ask(call):
                result = call()
                refuse_unrun(result)
                return result
            case StoreCall(call):
                return call()
            case Beside():
                self._groupsdk_start_beside(step)
            case Pause(timeout_ms):
                self._groupsdk_pause(timeout_ms)
            case LeaveGroup(reason):
                AbstractCoordinator.leave_group(self, reason)
        return None

    def _groupsdk_pause(self, timeout_ms: int) -> None:
        mailbox = self._groupsdk_handle.mailbox
        version = mailbox.version
        if not self._groupsdk_shards.has_news:
            self._groupsdk_member._wait(MailboxPause(version, timeout_ms))  # noqa: SLF001  # of the one member that both are

    def _groupsdk_start_beside(self, step: Beside) -> None:
        name = f"groupsdk-{step.call.callback.value}-{step.call.call_id}"
        run = _Besides(self._groupsdk_shards, self._groupsdk_handle.wakeup, step)
        try:
            threading.Thread(target=run, name=name, daemon=True).start()
        except RuntimeError as error:  # the machine has no room for a thread
            self._groupsdk_shards.ended(step.call, error)


class _Besides:
    """One call of a callback beside poll; refers to the worker only through the callback."""

    def __init__(self, part: ShardMembership, wakeup: Callable[[], None], step: Beside) -> None:
        self._part = part
        self._wakeup = wakeup
        self._step = step

    def __call__(self) -> None:
        """Run it, and report its end."""
        error: BaseException | None = None
        try:
            refuse_unrun(self._step.run())
        except BaseException as raised:  # noqa: BLE001  # the next poll raises it
            error = raised
        self._part.ended(self._step.call, error)
        self._wakeup()
