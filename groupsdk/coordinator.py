"""The contract between a kind of group and the library: `Coordinator`."""

from collections.abc import Awaitable, Mapping, Sequence
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator
from typing import Protocol, Self, runtime_checkable

from groupsdk.lazy_imports import override
from groupsdk.types import Generation, GroupMembers, GroupMembershipOperation


Protocols = Sequence[tuple[str, bytes]] | Mapping[str, bytes]
"""Protocol names with metadata, by preference: pairs such as `ProtocolMetadata`, or an ordered mapping."""


class AsyncGroupCallbacks(Protocol):
    """The half of the contract that the user writes, for asyncio: each method may be a `def` or an `async def`.

    All methods run in the thread or task that calls `poll`, `ensure_active_group`, `leave_group` or `close`, never on the
    thread that heartbeats, and under no lock. A call may take up to the rebalance timeout. The names are those of Kafka's
    `AbstractCoordinator`.

    One more method is called if it exists (`AbstractCoordinator` has it, and it does nothing):
    ``on_assignment_skipped(leader_id, protocol, members)`` in place of `perform_assignment` on a leader that
    came back as a static member: the group keeps its assignments (KIP-814).
    """

    @property
    def protocol_type(self) -> str:
        """The kind of group, e.g. "consumer", "connect", "sr"; the same for all members. Not awaited."""
        ...

    def metadata(self) -> Protocols | Awaitable[Protocols]:
        """Return the protocol names to join with, by preference, each with this member's metadata.

        Called before every join. The group uses a protocol that all members offer, and the leader gets every member's
        metadata under it.

        Returns:
            At least one protocol: pairs of name and metadata, or an ordered mapping.
        """
        ...

    def on_join_prepare(self, generation: int, member_id: str) -> Awaitable[None] | None:
        """Stop work that must not run twice; called once before each rebalance.

        If it raises, the exception reaches the caller, and the next poll joins without calling it again.

        Args:
            generation: the generation about to end; -1 if the member has none (any more): then the work was lost, and another
                member may have it already.
            member_id: this member's id; "" if the member has none (any more).
        """
        ...

    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes] | Awaitable[Mapping[str, bytes]]:
        """Assign the group's work, as the leader of the new generation.

        Args:
            leader_id: this member's id.
            protocol: the protocol that the group agreed on.
            members: member id to metadata, in the order of the ids.

        Returns:
            Member id to assignment. Members that are left out get empty bytes.
        """
        ...

    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> Awaitable[None] | None:
        """Apply the assignment of a new generation.

        If it raises, the exception reaches the caller, and the next poll calls it again with the same bytes, unless the member
        is out of the generation by then. `MemberSnapshot.assignment_epoch` distinguishes a new assignment from a second delivery.
        (generation, member id) does not: in a consumer group with members of KIP-848, a generation may bring several
        assignments.

        Args:
            generation: the new generation.
            member_id: this member's id.
            protocol: the protocol that the group agreed on.
            assignment: the bytes that the leader's `perform_assignment` returned for this member.
        """
        ...

    def on_leave_prepare(self) -> Awaitable[None] | None:
        """Give up all work, before the member leaves or closes.

        Does nothing by default. At run time the callbacks of a `GroupMember` may also lack it.
        If it raises, the exception reaches the caller: of `leave_group`, and the member has not left, or of `close`, and
        the member is closed all the same.
        """


class GroupCallbacks(AsyncGroupCallbacks, Protocol):
    """The half of the contract that the user writes, for threads; see `AsyncGroupCallbacks`."""

    @override
    def metadata(self) -> Protocols: ...

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None: ...

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes]: ...

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None: ...

    @override
    def on_leave_prepare(self) -> None: ...


@runtime_checkable
class Coordinator(GroupCallbacks, Protocol):
    """The whole contract, method by method that of Kafka's `AbstractCoordinator`.

    `AbstractCoordinator` implements everything but `protocol_type`, `metadata`, `perform_assignment` and
    `on_join_complete`.
    """

    def ensure_active_group(self, timeout: float | None = None) -> bool:
        """Join, and wait until the member is in a stable generation.

        Args:
            timeout: the longest wait in seconds; None for no limit.

        Returns:
            Whether the member is in a stable generation.

        Raises:
            GroupSdkError: the membership has failed; see `AbstractCoordinator.ensure_active_group`.
        """
        ...

    def generation(self) -> Generation:
        """Return the current generation, stable or not."""
        ...

    def generation_if_stable(self) -> Generation | None:
        """Return the current generation if it is stable and the session is certainly alive."""
        ...

    def member_id(self) -> str:
        """Return the current member id; "" for a member without one."""
        ...

    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Leave the group and stop heartbeating. Idempotent.

        Args:
            timeout: the longest wait in seconds.
            operation: whether to leave the group; by default a static member stays in it (KIP-1092).
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def refuse_generator(value: object) -> None:
    """Reject a generator returned by a function of the user's that contains `yield`.

    Raises TypeError if it is a generator; left alone, its code would never run and count as done.
    """
    if isgenerator(value) or isasyncgen(value):
        raise TypeError(
            f"{value.__qualname__} is a generator function, and calling it runs nothing: callbacks"
            " return their result"
        )


async def awaited(value: object) -> object:
    """Return the result of a callback that may be `async def`: the value, awaited if it is awaitable.

    Raises TypeError if the result is a generator.
    """
    if isawaitable(value):
        value = await value
    refuse_generator(value)
    return value


def refuse_unrun(value: object) -> None:
    """Reject the result of a function of the user's whose code has not run yet, and would not.

    Raises TypeError if it is a generator, or the coroutine of an `async def`.
    """
    refuse_generator(value)
    if iscoroutine(value):
        value.close()  # or Python would complain that nobody awaited it
        raise TypeError(
            f"{value.__qualname__} is an `async def`, which nobody awaits here: use `def`"
        )
