"""Drive one member from the caller's thread."""

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent import futures
from contextlib import suppress
from inspect import isawaitable, iscoroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock, Deadline
from groupsdk.config import MemberConfig
from groupsdk.coordinator import GroupCallbacks
from groupsdk.drivers.caller import Await, Run, checked_timeout_ms, refuse_generator, run_call
from groupsdk.drivers.hosts.host import OpenHost, open_host
from groupsdk.drivers.member_base import Drive, Finish, MemberBase, Pause
from groupsdk.drivers.one_thread import OneThread
from groupsdk.membership.actions import Call
from groupsdk.membership.events import CallerEvent
from groupsdk.types import GroupDescription, GroupMembershipOperation, OffsetAndMetadata


if TYPE_CHECKING:
    from groupsdk.drivers.group_calls import Steps

T = TypeVar("T")


class GroupMember(MemberBase):
    """One member of a group, driven from the caller's thread.

    The engine (heartbeats, connections) runs on a host of its own and starts with the first call that needs
    it. The user's callbacks run inside `ensure_active_group`, `poll`, `leave_group` and `close`, on the
    thread that calls these, which may be used by one thread at a time. All other methods may be called from
    any thread at any time.

    Args:
        callbacks: what kind of group it is.
        config: the member's settings.
        clock: the time; for tests.
        open_host: makes what the engine runs on; for tests.
    """

    def __init__(
        self,
        callbacks: GroupCallbacks,
        config: MemberConfig,
        clock: Clock | None = None,
        open_host: OpenHost = open_host,
    ) -> None:
        super().__init__(callbacks, config, clock, open_host)
        self._alone = OneThread(
            "another thread is using the member; a member has one caller at a time (wakeup() makes a waiting one"
            " return)",
            "a callback may close its member, but not drive it",
        )

    def ensure_active_group(self, timeout: float | None = None) -> bool:
        """Join, and wait until the member has taken up its assignment in a stable generation.

        Finds the coordinator, runs the callbacks of a rebalance where one is due, and returns.

        Args:
            timeout: seconds to wait at most, and one more where the engine does not answer; None: for ever.
                What has been reached by then goes on in the background and in the next call.

        Returns:
            Whether the member is active; False when the time was over, or `wakeup` was called.

        Raises:
            GroupSdkError: what went wrong, in this call or in the background since the last one.
            Exception: whatever a callback raised.
        """
        timeout_ms = checked_timeout_ms(timeout)
        return self._caller(lambda: self._drive(self._begin(timeout_ms, self._active)))

    def poll(self, timeout: float = 0.0) -> bool:
        """Show that the caller is alive, and run the callbacks that are due.

        Call it at least every max.poll.interval.ms, or the member leaves by itself: a member whose loop is
        stuck must not keep its work. Returns early when a new assignment was taken up.

        Args:
            timeout: seconds to wait at most for something to do, and one more where the engine does not
                answer.

        Returns:
            Whether the member is active at the end.

        Raises:
            GroupSdkError: what went wrong, in this call or in the background since the last one.
            Exception: whatever a callback raised.
        """
        timeout_ms = checked_timeout_ms(timeout)
        if timeout_ms == 0 and self._quiet():
            return True

        def drive() -> bool:
            self._drive(self._begin(timeout_ms, self._delivery()))
            return self._active_now()

        return self._caller(drive)

    def leave_group(self, reason: str) -> None:
        """Leave the group now, whether static or not; the next `poll` or `ensure_active_group` joins again.

        Args:
            reason: shown in the broker's log (KIP-800), in `events` and in the log.

        Raises:
            MemberClosedError: the member is closed.
            Exception: whatever `on_leave_prepare` raised; then the member has not left.
        """

        def leave() -> None:
            self._check_usable()
            if self._host is None:
                return
            self._leave_prepare()
            lag = self._leave(reason)
            while (pause := lag()) is not None:
                self._wait(pause)

        self._caller(leave)

    def give_up_join(self) -> None:
        """Give up a JoinGroup that waits at the coordinator, so that `ask` need not wait behind it.

        For requests before leaving, in `on_leave_prepare`: until all members have joined, the coordinator takes
        commits of the generation before. Does nothing where no join waits.
        """
        lag = self._give_up_join()
        while (pause := lag()) is not None:
            self._wait(pause)

    def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = 30.0
    ) -> None:
        """Store offsets in the group under this member's generation, which the coordinator checks (OffsetCommit).

        The generation is that of the beginning of the call: what was worked out under it is never committed
        under a later one. May be called by any thread, and in `on_join_prepare`, `on_join_complete` and
        `on_leave_prepare`.

        Args:
            offsets: partition to offset, of topics that the cluster has; what they mean is up to the group.
            timeout: seconds to try, retriable errors included; None: for ever.

        Raises:
            RebalanceInProgressError: the group rebalances; poll, then commit what is still owned.
            CommitFailedError: the member is out of the group, and others may have its work.
            FencedInstanceIdError: another process has taken the group.instance.id.
            BrokerError: the coordinator refuses for another reason.
            NetworkError: no answer in time.
            MemberClosedError: the member is closed.
        """
        self._call(self._group_calls().commit(offsets, timeout))

    def committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = 30.0
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the stored offset of each partition, None where there is none (OffsetFetch).

        Offsets that are part of an open transaction are waited for (KIP-447). Needs no membership.

        Args:
            partitions: which ones.
            timeout: seconds to try, retriable errors included; None: for ever.

        Raises:
            RebalanceInProgressError: a join is parked on the connection; poll first.
            BrokerError: the coordinator refuses.
            NetworkError: no answer in time.
            MemberClosedError: the member is closed.
        """
        return self._call(self._group_calls().committed(partitions, timeout))

    def describe_group(self, timeout: float | None = 30.0) -> GroupDescription:
        """Return the group's state and members, as its coordinator tells (DescribeGroups).

        Args:
            timeout: seconds to try, retriable errors included; None: for ever.

        Raises:
            RebalanceInProgressError: a join is parked on the connection; poll first.
            GroupAuthorizationError: the principal may not describe the group.
            BrokerError: the coordinator refuses for another reason.
            NetworkError: no answer in time.
            MemberClosedError: the member is closed.
        """
        return self._call(self._group_calls().describe(timeout))

    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Leave the group (or not, see `operation`), and end the heartbeat. Harmless when repeated.

        May be called from within a callback. While another thread drives the member, have that one end first: set
        a flag of yours, call `wakeup`, join the thread, then close.

        Args:
            timeout: seconds to wait at most for the coordinator's answer; the member is closed in any case.
            operation: whether to leave (KIP-1092).

        Raises:
            ConcurrentUseError: another thread is driving the member, which stays open.
            Exception: whatever `on_leave_prepare` raised; the member is closed all the same.
        """
        if self._closed or self._forked:
            return
        deadline = Deadline(self._clock, checked_timeout_ms(timeout))
        operation = GroupMembershipOperation(operation)

        def close() -> None:
            host = self._shut()
            try:
                if host is not None:
                    self._leave_prepare()
            finally:
                timeout_ms = self._end(host, operation, deadline)
                if host is not None:
                    with suppress(TimeoutError):
                        host.ended.result(timeout_ms / 1000)
                    if not host.ended.done():
                        host.abort()
                        with suppress(TimeoutError):
                            host.ended.result(1)

        self._caller(close, within_callbacks=True)

    # Details.

    def _call(self, steps: "Steps[T]") -> T:
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Await):
                futures.wait([step.answer], step.timeout_ms / 1000)
            else:
                time.sleep(step.delay_ms / 1000)

    def _drive(self, drive: Drive) -> bool:
        while not isinstance(step := self._next(drive), Finish):
            if isinstance(step, Run):
                self._run(step.call)
            else:
                self._wait(step)
        return step.reached

    def _wait(self, pause: Pause) -> None:
        self._mailbox.wait_newer(pause.version, pause.timeout_ms)

    def _run(self, call: Call) -> None:
        try:
            answer = self._answer(run_call(call, self._callbacks))
        except BaseException as error:
            self._failed(call, error)
            raise
        self._answered(call, answer)

    def _answer(
        self, running: Generator[Callable[[], object], Any, CallerEvent]
    ) -> CallerEvent | None:
        value: object = None
        while True:
            try:
                ask = running.send(value)
            except StopIteration as end:
                answer: CallerEvent = end.value
                return answer
            value = _plain_result(ask())
            if self._closed:  # by the callback; nothing more is wanted of it
                return None

    def _leave_prepare(self) -> None:
        prepare = getattr(self._callbacks, "on_leave_prepare", None)
        if prepare is not None:
            _plain_result(prepare())

    def _caller(self, work: Callable[[], T], *, within_callbacks: bool = False) -> T:
        return self._alone.run(work, driving=True, within_callbacks=within_callbacks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _plain_result(value: object) -> object:
    """Return what a callback returned, unless it would have to be awaited.

    Raises:
        TypeError: it would; left alone, its code would never run and count as done. So would a generator's.
    """
    refuse_generator(value)
    if not isawaitable(value):
        return value
    if iscoroutine(value):
        value.close()
    raise TypeError(
        "the callbacks of AbstractCoordinator and GroupMember must not be `async def`; use"
        " AsyncAbstractCoordinator or AsyncGroupMember"
    )
