"""Offer Java's shape: a class to subclass, `AbstractCoordinator`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from groupsdk.clock import Clock
from groupsdk.config import MemberConfig
from groupsdk.coordinator import Protocols
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.membership.recorder import RebalanceEvent
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import Generation, GroupMembers, GroupMembershipOperation


class AbstractCoordinator(ABC):
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

    def __init__(
        self,
        settings: Mapping[str, Any] | MemberConfig | None = None,
        /,
        *,
        clock: Clock | None = None,
        **keywords: Any,
    ) -> None:
        config = MemberConfig.given(settings, keywords)
        self._member = GroupMember(self, config, clock)

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

    def on_join_prepare(self, generation: int, member_id: str) -> None:  # noqa: B027  # optional
        """Give up what must not run twice, before each rebalance; -1 and "": it is lost already."""

    def on_leave_prepare(self) -> None:  # noqa: B027  # optional
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

    def request_rejoin(self, reason: str) -> None:
        """Ask for a rebalance at the next poll; the reason is shown in the broker's log (KIP-800)."""
        self._member.request_rejoin(reason)

    def leave_group(self, reason: str) -> None:
        """Leave the group now; the next `poll` or `ensure_active_group` joins again."""
        self._member.leave_group(reason)

    def wakeup(self) -> None:
        """Make a waiting `poll` or `ensure_active_group` of another thread return soon, once."""
        self._member.wakeup()

    def generation(self) -> Generation:
        """Return the current generation, stable or not."""
        return self._member.generation()

    def generation_if_stable(self) -> Generation | None:
        """Return the current generation if it is stable and the session is certainly alive, else None."""
        return self._member.generation_if_stable()

    def member_id(self) -> str:
        """Return the current member id; "" where there is none."""
        return self._member.member_id()

    def snapshot(self) -> MemberSnapshot:
        """Return generation, member id, state and assignment epoch, read at once."""
        return self._member.snapshot()

    def metrics(self) -> dict[str, float]:
        """Return Kafka's coordinator metrics under Kafka's names."""
        return self._member.metrics()

    def events(self) -> tuple[RebalanceEvent, ...]:
        """Return the last 100 rebalances, oldest first: why, how long each phase took, how it ended."""
        return self._member.events()

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
