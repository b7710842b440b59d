"""A snapshot of a member's state, as its engine publishes it to the caller's side."""

from groupsdk.errors import EngineError, GroupSdkError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.member.actions import Call, CompleteJoin, Node, PrepareJoin
from groupsdk.member.possession import has_lapsed
from groupsdk.member.recorder import RebalanceEvent
from groupsdk.member.state import MemberState
from groupsdk.types import NO_GENERATION, Generation


@dataclass(frozen=True, slots=True)
class Failure:
    """An error for the caller's next call."""

    failure_id: int
    """Counts failures, so that the caller can say which one it has raised."""
    error: GroupSdkError


@dataclass(frozen=True, slots=True)
class MemberView:
    """The snapshot for the caller's side; times are milliseconds of the member's clock."""

    state: MemberState
    generation: Generation
    """The generation and member id; the generation's id is -1 outside the group."""
    is_leader: bool
    assignment_epoch: int
    """The number of assignments received so far."""
    joining: bool
    """Whether a join is needed or under way."""
    coordinator: Node | None
    valid_until_ms: int | None
    """Until when the group cannot have expelled the member for silence; None: not a member."""
    poll_until_ms: int
    """When the member leaves, unless the caller polls before."""
    call: Call | None
    """The callback that the caller is to run; None for none."""
    failure: Failure | None
    trouble: str | None
    """Why the coordinator cannot be found or reached at present, in words; None if it can."""
    events: tuple[RebalanceEvent, ...]
    """The last rebalances, oldest first."""
    stopped: bool
    handled: int = 0
    """How many of the caller's events the view reflects."""
    crash: EngineError | None = None
    """Why the engine ended by itself, so that nothing heartbeats any more; None: it has not."""

    def holds_at(self, now_ms: int) -> bool:
        """Return whether the group cannot have reassigned the member's work by `now_ms`.

        True also while it rebalances: what a member keeps meanwhile is still its own.
        """
        until_ms = self.held_until_ms
        return until_ms is not None and now_ms < until_ms

    def may_run_at(self, call: Call, now_ms: int) -> bool:
        """Return whether the caller may act on a call at `now_ms`, or what the call says may be over.

        A call may have waited while this process slept. An assignment is only for a member that is surely still one; and
        one that may have lost what it holds is not asked to give it up, but told that it is lost: by the next view."""
        if isinstance(call, CompleteJoin):
            return self.believes_at(now_ms)
        gives_up = isinstance(call, PrepareJoin) and call.run_callback
        return not (gives_up and has_lapsed(self.valid_until_ms, now_ms))

    @property
    def held_until_ms(self) -> int | None:
        """The time until which the group cannot have reassigned the member's work; None: it is not a member."""
        if self.valid_until_ms is None:
            return None
        return min(self.valid_until_ms, self.poll_until_ms)

    def believes_at(self, now_ms: int) -> bool:
        """Return whether the member may act as one of the group at `now_ms`.

        False as soon as the clock shows that the session or the poll deadline has passed, even when
        nothing was heard from the coordinator: by then another member may own what this one had.
        """
        return self.state is MemberState.STABLE and self.holds_at(now_ms)


NOT_STARTED = MemberView(
    state=MemberState.UNJOINED,
    generation=NO_GENERATION,
    is_leader=False,
    assignment_epoch=0,
    joining=True,
    coordinator=None,
    valid_until_ms=None,
    poll_until_ms=0,
    call=None,
    failure=None,
    trouble=None,
    events=(),
    stopped=False,
)
"""The view of a member whose engine has not handled anything yet, or does not speak for this process."""
