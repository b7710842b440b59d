"""Read a member's whole state at one moment."""

from dataclasses import dataclass
from typing import Self

from groupsdk.config import MemberConfig
from groupsdk.membership.state import MemberState
from groupsdk.membership.view import MemberView
from groupsdk.types import NO_GENERATION, Generation


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """Generation, member id, state and assignment, read at once.

    Two reads one after the other may straddle a rebalance (KAFKA-19242); one snapshot cannot.
    """

    group_id: str
    group_instance_id: str | None
    generation: Generation
    state: MemberState
    stable: bool
    """Whether the member is in a stable generation and may act as one of the group: the state says so, and
    the clock shows that neither its session nor its poll deadline has passed."""
    is_leader: bool
    assignment_epoch: int
    """Counts the assignments received: tells a new one from the same one under a new generation."""
    rejoin_pending: bool
    """Whether a rebalance is needed or under way."""
    coordinator: str | None
    """Where the group coordinator is; None while that is not known."""
    trouble: str | None
    """Why the coordinator cannot be found or reached at present; None where all is well."""

    @property
    def member_id(self) -> str:
        """The member id; "" where there is none."""
        return self.generation.member_id

    @classmethod
    def of(cls, config: MemberConfig, view: MemberView | None, now_ms: int) -> Self:
        """Read a snapshot out of a view; None: the member has not been started, or is closed."""
        return cls(
            group_id=config.group_id,
            group_instance_id=config.group_instance_id,
            generation=NO_GENERATION if view is None else view.generation,
            state=MemberState.UNJOINED if view is None else view.state,
            stable=view is not None and view.believes_at(now_ms),
            is_leader=view is not None and view.is_leader,
            assignment_epoch=0 if view is None else view.assignment_epoch,
            rejoin_pending=view is None or view.joining,
            coordinator=None if view is None or view.coordinator is None else str(view.coordinator),
            trouble=None if view is None else view.trouble,
        )
