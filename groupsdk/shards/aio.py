"""A worker of a group that shares out shards, driven by a task of the caller's event loop: `AsyncShardWorker`."""

from abc import abstractmethod
from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from groupsdk.clock import Clock
from groupsdk.coordinator import awaited
from groupsdk.drivers.aio.member import AsyncAbstractCoordinator
from groupsdk.drivers.caller import checked_timeout_ms
from groupsdk.drivers.engine_handle import Pause as MailboxPause
from groupsdk.drivers.interface import NOT_CREATED
from groupsdk.errors import ConcurrentUseError
from groupsdk.lazy_imports import override
from groupsdk.settings.config import MemberConfig
from groupsdk.shards.callbacks import AsyncShardCallbacks, EpochStore
from groupsdk.shards.config import ShardConfig
from groupsdk.shards.interface import LONGEST_MS, ShardInterface
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
from groupsdk.shards.types import Shard
from groupsdk.types import GroupMembers, GroupMembershipOperation


if TYPE_CHECKING:
    from asyncio import Task

    from groupsdk.shards.keywords import ShardSettings


T = TypeVar("T")


class AsyncShardWorker(ShardInterface, AsyncAbstractCoordinator, AsyncShardCallbacks):
    """`ShardWorker` for asyncio: each callback may be a `def` or an `async def`.

    Callbacks that run beside `poll` are tasks on the event loop; one that never awaits holds the loop up, but no
    heartbeat, and its leases end by the clock all the same. One task at a time drives the worker. What is not awaited may
    be called from any task and any thread. The arguments are those of `ShardWorker`.
    """

    _groupsdk_driver: "Task[Any] | None" = NOT_CREATED

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
        self._groupsdk_besides: set[Task[None]] = set()
        self._groupsdk_driver = None

    @override
    @abstractmethod
    def shards(self) -> Iterable[str | Shard] | Awaitable[Iterable[str | Shard]]: ...

    # The library's.

    @override
    async def poll(self, timeout: float = 0.0) -> bool:
        """Take part in the group: as `AsyncAbstractCoordinator.poll`, and the callbacks of shards.

        Returns early where the worker was told of shards that it gained or lost.
        """
        import asyncio

        timeout_ms = checked_timeout_ms(timeout)
        if timeout_ms == 0 and self._groupsdk_shards.idle() and self._groupsdk_handle.quiet():
            await asyncio.sleep(0)  # a loop of polls must let others run
            return True
        return await self._groupsdk_drive(
            self._groupsdk_shards.poll(LONGEST_MS if timeout_ms is None else timeout_ms)
        )

    @override
    async def ensure_active_group(self, timeout: float | None = None) -> bool:
        return await self._groupsdk_drive(
            self._groupsdk_shards.activate(checked_timeout_ms(timeout))
        )

    @override
    async def leave_group(self, reason: str) -> None:
        """Have everything stopped, by `on_shards_released`, and leave; see `ShardWorker.leave_group`."""
        await AsyncAbstractCoordinator.leave_group(self, reason)
        await self._groupsdk_drive(self._groupsdk_shards.stand_down())

    @override
    async def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Have everything stopped, by `on_shards_released`, leave the group, and end; see `ShardWorker.close`."""
        timeout_ms = checked_timeout_ms(timeout)
        self._groupsdk_leave_timeout_ms = LONGEST_MS if timeout_ms is None else timeout_ms
        await AsyncAbstractCoordinator.close(self, timeout, operation)
        await self._groupsdk_run(self._groupsdk_shards.stand_down())

    # What the member asks and tells.

    @override
    async def on_join_prepare(self, generation: int, member_id: str) -> None:
        await self._groupsdk_run(self._groupsdk_shards.join_prepared(generation, member_id))

    @override
    async def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes]:
        generation = self.generation().generation_id
        return await self._groupsdk_run(
            self._groupsdk_shards.assignment_performed(generation, members)
        )

    @override
    async def on_leave_prepare(self) -> None:
        await self._groupsdk_run(self._groupsdk_shards.leaving(self._groupsdk_leave_timeout_ms))

    # Carrying out steps.

    async def _groupsdk_drive(self, steps: Steps[T]) -> T:
        import asyncio

        driver = self._groupsdk_driver
        if driver is not None and not driver.done() and not driver.get_loop().is_closed():
            steps.close()
            raise ConcurrentUseError(
                "another task is using the worker, or a callback of it: a worker has one caller at a time"
                " (wakeup() makes a waiting one return), and callbacks may call close() alone"
            )
        self._groupsdk_driver = asyncio.current_task()
        try:
            return await self._groupsdk_run(steps)
        finally:
            self._groupsdk_driver = None

    async def _groupsdk_run(self, steps: Steps[T]) -> T:
        outcome: Outcome | None = None
        try:
            while True:
                step = next(steps) if outcome is None else steps.send(outcome)
                outcome = await self._groupsdk_outcome(step)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _groupsdk_outcome(self, step: Step) -> Outcome:
        if isinstance(step, Pause):
            return Outcome(await self._groupsdk_carry_out(step))
        try:
            return Outcome(await self._groupsdk_carry_out(step))
        except BaseException as error:  # noqa: BLE001  # the deciding part raises it
            return Outcome(error=error)

    async def _groupsdk_carry_out(self, step: Step) -> object:
        import asyncio

        match step:
            case Drive(timeout_ms, until_active):
                seconds = None if timeout_ms is None else timeout_ms / 1000
                if until_active:
                    return await AsyncAbstractCoordinator.ensure_active_group(self, seconds)
                return await AsyncAbstractCoordinator.poll(
                    self, 0.0 if seconds is None else seconds
                )
            case Ask(call):
                return await awaited(call())
            case StoreCall(call):
                return await asyncio.to_thread(call)
            case Beside():
                task = asyncio.create_task(self._groupsdk_run_beside(step))
                self._groupsdk_besides.add(task)
                task.add_done_callback(self._groupsdk_besides.discard)
            case Pause(timeout_ms):
                await self._groupsdk_pause(timeout_ms)
            case LeaveGroup(reason):
                await AsyncAbstractCoordinator.leave_group(self, reason)
        return None

    async def _groupsdk_pause(self, timeout_ms: int) -> None:
        version = self._groupsdk_handle.mailbox.version
        if not self._groupsdk_shards.has_news:
            await self._groupsdk_member._wait(MailboxPause(version, timeout_ms))  # noqa: SLF001  # of the one member that both are

    async def _groupsdk_run_beside(self, step: Beside) -> None:
        error: BaseException | None = None
        try:
            await awaited(step.run())
        except BaseException as raised:  # noqa: BLE001  # the next poll raises it
            error = raised
        self._groupsdk_shards.ended(step.call, error)
        self._groupsdk_handle.wakeup()
