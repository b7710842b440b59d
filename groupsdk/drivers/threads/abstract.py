"""Offer Java's shape: a class to subclass, `AbstractCoordinator`."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Self

from typing_extensions import override

from groupsdk.clock import Clock
from groupsdk.config import MemberConfig
from groupsdk.coordinator import Protocols
from groupsdk.drivers.coordinator_base import CoordinatorBase
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.types import GroupMembers, GroupMembershipOperation


class AbstractCoordinator(CoordinatorBase[GroupMember]):
    """A member of a group of your own kind: subclass it and fill in four methods.

    It mirrors Kafka's `AbstractCoordinator`. Yours: `protocol_type`, `metadata`, `perform_assignment` and
    `on_join_complete`; if you need them also `on_join_prepare` and `on_leave_prepare`. They run inside the
    calls of the driving thread (`ensure_active_group`, `poll`, `leave_group`, `close`), never on the
    heartbeat's, and under no lock.

    Threads: one thread at a time drives the member. `generation`, `generation_if_stable`, `member_id`,
    `snapshot`, `metrics`, `events`, `request_rejoin` and `wakeup` may be called from any.

    Args:
        settings: Kafka's keys, e.g. ``{"bootstrap.servers": "...", "group.id": "..."}``, or a `MemberConfig`.
        clock: the time; for tests.
        keywords: the same as keywords, e.g. ``group_id="..."``.

    Raises:
        ConfigError: a setting is unknown, missing or wrong.
    """

    @override
    def _make_member(self, config: MemberConfig, clock: Clock | None) -> GroupMember:
        return GroupMember(self, config, clock)

    # Yours to fill in.

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """The kind of group, the same for all members; a class attribute does, as does a method."""

    @abstractmethod
    def metadata(self) -> Protocols:
        """Return what to join with: protocol names by preference, each with this member's metadata."""

    @abstractmethod
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes]:
        """Share the work out, as the leader: return member id to assignment."""

    @abstractmethod
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        """Take up the assignment of a new generation; called again with the same bytes when it raised."""

    def on_join_prepare(self, generation: int, member_id: str) -> None:
        """Give up what must not run twice, before each rebalance; -1 and "": it is lost already."""

    def on_leave_prepare(self) -> None:
        """Give up all work, before the member leaves or closes."""

    # The library's.

    def ensure_active_group(self, timeout: float | None = None) -> bool:
        """Join, and wait until the member has taken up its assignment in a stable generation.

        Args:
            timeout: seconds to wait at most; None: for ever.

        Returns:
            Whether the member is active; False when the time was over, or `wakeup` was called.

        Raises:
            GroupSdkError: what went wrong, in this call or in the background since the last one.
            Exception: whatever a callback raised.
        """
        return self._member.ensure_active_group(timeout)

    def poll(self, timeout: float = 0.0) -> bool:
        """Show that the caller is alive, and run the callbacks that are due.

        Call it at least every max.poll.interval.ms, or the member leaves by itself. Returns early when a
        new assignment was taken up.

        Args:
            timeout: seconds to wait at most for something to do.

        Returns:
            Whether the member is active at the end.

        Raises:
            GroupSdkError: what went wrong, in this call or in the background since the last one.
            Exception: whatever a callback raised.
        """
        return self._member.poll(timeout)

    def leave_group(self, reason: str) -> None:
        """Leave the group now; the next `poll` or `ensure_active_group` joins again."""
        self._member.leave_group(reason)

    def metrics(self) -> dict[str, float]:
        """Return Kafka's coordinator metrics under Kafka's names."""
        return self._member.metrics()

    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Leave the group (or not, see `operation`), and end the heartbeat. Harmless when repeated.

        Args:
            timeout: seconds to wait at most for the coordinator's answer; the member is closed in any case.
            operation: whether to leave (KIP-1092).
        """
        self._member.close(timeout, operation)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
