"""The API of members and coordinators, defined once for threads and for asyncio.

`MemberInterface` is common to all of them. The forms for asyncio override the calls that wait by coroutines; where a
docstring says "call", await there.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Never

from groupsdk.assignment import TopicPartition
from groupsdk.coordinator import AsyncGroupCallbacks
from groupsdk.lazy_imports import override
from groupsdk.member.recorder import RebalanceEvent
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import (
    Generation,
    GroupDescription,
    GroupMembers,
    GroupMembershipOperation,
    OffsetAndMetadata,
)


if TYPE_CHECKING:
    from concurrent.futures import Future

    from groupsdk.drivers.engine_handle import EngineHandle
    from groupsdk.member.requests import CoordinatorRequest
    from groupsdk.wire.schema import Response


class _Missing:
    """Stands for an attribute that a subclass has not set, and raises when it is read."""

    def __init__(self, error: str) -> None:
        self._error = error

    def __get__(self, coordinator: object, owner: type) -> Never:
        raise AttributeError(self._error.format(name=owner.__name__))


# typed as what takes their place: the attribute of a subclass or of an instance hides them
NOT_CREATED: Final[Any] = _Missing(
    "{name}.__init__ must call super().__init__(settings), which creates the member"
)
NO_PROTOCOL_TYPE: Final[Any] = _Missing(
    "{name} has no protocol_type, the kind of group: put protocol_type = 'work', for example, into the class"
)


def check_protocol_type(coordinator: AsyncGroupCallbacks) -> None:
    """Check that a coordinator's class sets `protocol_type`.

    Raises:
        TypeError: `protocol_type` is missing.
    """
    try:
        coordinator.protocol_type  # noqa: B018 - for the error that reading it raises
    except AttributeError as error:
        raise TypeError(str(error)) from None


class MemberInterface(ABC):
    """The methods for the owner of a membership; those that do not wait go straight to the engine's handle."""

    _groupsdk_handle: "EngineHandle"

    # These drive the member, and run callbacks: one thread or task at a time.

    @abstractmethod
    def ensure_active_group(self, timeout: float | None = None) -> bool | Awaitable[bool]:
        """Join, and wait until the member has applied its assignment in a stable generation.

        Finds the coordinator, runs the callbacks of a rebalance where one is due, and returns.

        Args:
            timeout: the longest wait, in seconds, plus one if the engine does not react; None: no limit.
                The progress made by then is kept: the join continues in the background and in the next call.

        Returns:
            Whether the member is active; False when the timeout expired, or `wakeup` was called.

        Raises:
            GroupSdkError: an error of this call, or of the background since the last one.
            Exception: whatever a callback raised.
        """

    @abstractmethod
    def poll(self, timeout: float = 0.0) -> bool | Awaitable[bool]:
        """Show that the caller is alive, and run the callbacks that are due.

        Call it at least every max.poll.interval.ms, or the member leaves by itself: a member whose loop is
        stuck must not keep its work. Returns early when a new assignment was taken up.

        Args:
            timeout: seconds to wait at most for something to do, and one more where the engine does not
                answer.

        Returns:
            Whether the member is active at the end.

        Raises:
            GroupSdkError: an error of this call, or of the background since the last one.
            Exception: whatever a callback raised.
        """

    @abstractmethod
    def leave_group(self, reason: str) -> Awaitable[None] | None:
        """Leave the group now, whether static or not; the next `poll` or `ensure_active_group` joins again.

        Args:
            reason: shown in the broker's log (KIP-800), in `events` and in the log.

        Raises:
            MemberClosedError: the member is closed.
            Exception: whatever `on_leave_prepare` raised; then the member has not left.
        """

    @abstractmethod
    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> Awaitable[None] | None:
        """Leave the group (or not, see `operation`), and end the heartbeat. Harmless when repeated.

        May be called from within a callback. While another thread drives the member, end that one first: set
        a flag of yours, call `wakeup`, join the thread, then close. An asyncio form that is cancelled here is
        closed all the same, and leaves in the background.

        Args:
            timeout: the longest wait for the coordinator, in seconds; the member is closed in any case.
            operation: whether to leave (KIP-1092).

        Raises:
            ConcurrentUseError: another thread or task is driving the member, which stays open.
            Exception: whatever `on_leave_prepare` raised; the member is closed all the same.
        """

    # These ask the group coordinator. Any thread may call them, and the callbacks may.

    @abstractmethod
    def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = 30.0
    ) -> Awaitable[None] | None:
        """Store offsets in the group under this member's generation, which the coordinator checks (OffsetCommit).

        The generation is the one at the beginning of the call: work done under it is never committed under a
        later one. May be called by any thread, and in `on_join_prepare`, `on_join_complete` and
        `on_leave_prepare`.

        Args:
            offsets: partition to offset, of topics that the cluster has; their meaning is up to the group.
            timeout: how long to retry, in seconds; None: no limit.

        Raises:
            RebalanceInProgressError: the group rebalances; poll, then commit what is still owned.
            CommitFailedError: the member is out of the group, and others may have its work.
            FencedInstanceIdError: another process has taken the group.instance.id.
            BrokerError: the coordinator refuses for another reason.
            NetworkError: there is no response in time.
            MemberClosedError: the member is closed.
        """

    @abstractmethod
    def committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = 30.0
    ) -> (
        Awaitable[dict[TopicPartition, OffsetAndMetadata | None]]
        | dict[TopicPartition, OffsetAndMetadata | None]
    ):
        """Return the stored offset of each partition, None for a partition without one (OffsetFetch).

        Waits for offsets that are part of an open transaction (KIP-447). Needs no membership.

        Args:
            partitions: the partitions.
            timeout: how long to retry, in seconds; None: no limit.

        Raises:
            RebalanceInProgressError: a join is parked on the connection; poll first.
            BrokerError: the coordinator refuses.
            NetworkError: there is no response in time.
            MemberClosedError: the member is closed.
        """

    @abstractmethod
    def describe_group(
        self, timeout: float | None = 30.0
    ) -> GroupDescription | Awaitable[GroupDescription]:
        """Return the group's state and members, as its coordinator reports them (DescribeGroups).

        Args:
            timeout: how long to retry, in seconds; None: no limit.

        Raises:
            RebalanceInProgressError: a join is parked on the connection; poll first.
            GroupAuthorizationError: the principal may not describe the group.
            BrokerError: the coordinator refuses for another reason.
            NetworkError: there is no response in time.
            MemberClosedError: the member is closed.
        """

    # These wait for nothing, and any thread may call them at any time; the forms for asyncio do not await them.

    def ask(self, request: "CoordinatorRequest") -> "Future[Response]":
        """Send the group coordinator a request of your own, beside the membership.

        It goes over the member's own connection, in order with its joins, and never waits: while the
        coordinator is unknown, or a join is parked there, the future fails at once with a
        `CoordinatorNotAvailableError` or `RebalanceInProgressError`. A commit is sent only under the
        generation that the member is in, and the member obeys what the response says of its membership.
        May be used until the member has left, in `on_leave_prepare` as well.

        Args:
            request: a message of `groupsdk.wire.messages`, in the shape of its newest version.

        Returns:
            The future response, as the coordinator gave it, with the error codes in it.

        Raises:
            MemberClosedError: the member is closed.
            TypeError: the request is the membership's own, such as JoinGroup.
        """
        return self._groupsdk_handle.ask(request)

    def request_rejoin(self, reason: str) -> None:
        """Request a rebalance, for example because the metadata has changed; it happens at the next poll.

        A member that has not been driven yet will join anyway: then nothing changes.

        Args:
            reason: shown in the broker's log (KIP-800), in `events` and in the log.

        Raises:
            MemberClosedError: the member is closed.
        """
        self._groupsdk_handle.request_rejoin(reason)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Use these credentials for connections opened from now on, for PLAIN and SCRAM.

        Open connections stay. A member whose old password was refused tries the new one at once. Replaces
        `sasl.credentials.provider`, if one is set.

        Args:
            username: the user's name.
            password: the user's password.

        Raises:
            ConfigError: the member does not authenticate this way, or the credentials cannot be used.
            MemberClosedError: the member is closed.
        """
        self._groupsdk_handle.set_sasl_credentials(username, password)

    def wakeup(self) -> None:
        """Make a waiting `poll` or `ensure_active_group` return early. Thread-safe; signal handlers may call it."""
        self._groupsdk_handle.wakeup()

    def generation(self) -> Generation:
        """Return the current generation, stable or not."""
        return self._groupsdk_handle.generation()

    def generation_if_stable(self) -> Generation | None:
        """Return the current generation if it is stable and the session is certainly alive, else None.

        A write to another system that carries this generation as a fencing token cannot come from a member that
        should know that it is out of the group. A static member may be replaced within a generation (KIP-345):
        fence it with the member id as well.
        """
        return self._groupsdk_handle.generation_if_stable()

    def member_id(self) -> str:
        """Return the current member id; "" for a member without one."""
        return self._groupsdk_handle.member_id()

    def snapshot(self) -> MemberSnapshot:
        """Return generation, member id, state and assignment epoch, read at once."""
        return self._groupsdk_handle.snapshot()

    def events(self) -> tuple[RebalanceEvent, ...]:
        """Return the last 100 rebalances, oldest first: why, when, how long each phase took, how it ended."""
        return self._groupsdk_handle.events()

    def metrics(self) -> dict[str, float]:
        """Return Kafka's coordinator metrics under Kafka's names; empty before the first use.

        The engine, which runs on a thread or in a process of its own, responds at once.

        Raises:
            EngineError: the engine does not respond.
        """
        return self._groupsdk_handle.metrics()


class CoordinatorInterface(MemberInterface):
    """What the coordinators of both forms have besides: attributes, `repr`, and the optional callback."""

    _groupsdk_handle: "EngineHandle" = NOT_CREATED

    @override
    def __repr__(self) -> str:
        name = type(self).__name__
        if "_groupsdk_handle" not in self.__dict__:
            return f"<{name}, not initialized>"
        seen = self.snapshot()
        return (
            f"<{name} group={seen.group_id!r} member={seen.member_id!r}"
            f" generation={seen.generation.generation_id} {seen.state.value}>"
        )

    def on_assignment_skipped(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Awaitable[None] | None:
        """Receive the group's members in place of `perform_assignment`, as the group keeps its assignments.

        Called on a static member that leads again after a restart (KIP-814).

        Args:
            leader_id: this member's id.
            protocol: the protocol that the group has chosen.
            members: the metadata of each member, by member id.
        """


class GroupMemberInterface(MemberInterface):
    """Further methods of a member for code that builds on it. Thread-safe."""

    @property
    def version(self) -> int:
        """A number that grows whenever the engine has published a new state: a cheap test for changes."""
        return self._groupsdk_handle.mailbox.version

    @property
    def reaches_coordinator(self) -> bool:
        """Whether the group's coordinator is known, and was reached when it was needed last."""
        view = self._groupsdk_handle.view()
        return view.coordinator is not None and view.trouble is None

    def holds_for(self, margin_ms: int) -> bool:
        """Return whether the group cannot reassign the member's work for another `margin_ms`.

        As `MemberSnapshot.holds`, looking ahead: work that needs time to stop must begin before the session ends.
        """
        return self._groupsdk_handle.holds_for(margin_ms)

    def held_until_ms(self) -> int | None:
        """Return until when, by the member's clock, the group cannot reassign its work; None: it can already."""
        return self._groupsdk_handle.held_until_ms()

    def end_with(self, owner: object) -> None:
        """End the membership when `owner` is dropped without a close, even before the member is.

        For an owner that alone drives the member, where that and its callbacks refer to each other: the garbage
        collector finds these only later, and until then the group would wait.
        """
        self._groupsdk_handle.end_with(owner)
