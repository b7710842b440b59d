"""Record a member's last rebalances: the reason for each, and the time spent in its phases."""

from dataclasses import field
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.types import NO_GENERATION, NO_GENERATION_ID, Generation


MAX_EVENTS: Final = 100
"""How many rebalances are kept."""
_MAX_TEXT_CHARS: Final = 255

Phase: TypeAlias = Literal[
    "prepare", "join", "assign", "sync", "complete", "resolve", "acknowledge"
]
"""What a rebalance does: `on_join_prepare`, JoinGroup, the leader's assignment, SyncGroup, `on_join_complete`.

A member of the consumer protocol (KIP-848) joins by a heartbeat, resolves the ids of topics, completes, and
acknowledges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceEvent:
    """One rebalance that has ended, as one member saw it. Times are milliseconds of the member's clock."""

    started_ms: int
    """When the member began to prepare its join, or to reconcile."""
    ended_ms: int
    reason: str
    """Why it began: the member's own reason to rejoin, or what the coordinator said."""
    generation_before: int
    """The generation it began in; -1 for none."""
    generation_after: int
    """The generation it led to; -1 unless it completed."""
    member_id: str
    """The member's id after it if it completed, otherwise before it; "" for none."""
    protocol_name: str | None
    """The protocol of the generation after it if it completed, otherwise before it; None for none."""
    leader: bool
    """Whether this member computed the assignment."""
    broker_assigns: bool = False
    """Whether the group coordinator computed the assignment, and no member leads: the group has members of
    the consumer protocol of KIP-848, and no member's assignor is asked."""
    member_count: int | None
    """How many members the group has; only the leader knows."""
    phases: tuple[tuple[Phase, int], ...]
    """How long each phase took, in milliseconds, in the order they first came; retries are added up."""
    attempts: int
    """How many times the member tried to join."""
    outcome: str
    """``completed``, ``failed: <error>``, ``left`` or ``lost``."""
    epoch_offset_ms: int = field(default=0, compare=False, repr=False)
    """What to add to milliseconds of the member's clock for milliseconds since 1970; `events()` of members fills it in."""

    @property
    def started_at(self) -> datetime:
        """Return when it began, as a date in UTC."""
        return _date(self.started_ms + self.epoch_offset_ms)

    @property
    def ended_at(self) -> datetime:
        """Return when it ended, as a date in UTC."""
        return _date(self.ended_ms + self.epoch_offset_ms)

    @property
    def duration_ms(self) -> int:
        """Return how long the whole rebalance took."""
        return self.ended_ms - self.started_ms

    def summary(self) -> str:
        """Return one line for the log."""
        if self.outcome == "completed":
            text = f"rebalance took {self.duration_ms} ms"
        else:
            word = self.outcome.partition(":")[0]
            text = f"rebalance {word} after {self.duration_ms} ms"
        details = ", ".join(f"{name} {duration_ms}" for name, duration_ms in self.phases)
        if self.attempts > 1:
            details += f"{'; ' if details else ''}{self.attempts} attempts"
        if self.broker_assigns:
            details += f"{'; ' if details else ''}assigned by the broker"
        if details:
            text += f" ({details})"
        text += f": {self.reason}"
        _, failed, error = self.outcome.partition("failed: ")
        return f"{text}: {error}" if failed else text


def _date(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1_000, UTC)


class RebalanceRecorder:
    """Keep the last rebalances. Not thread-safe: it belongs to the thread that runs the member's machine.

    Memory is bounded however often a rebalance is retried. A call that fits no open rebalance does
    nothing, so that recording can never break what is recorded.
    """

    __slots__ = (
        "_attempts",
        "_before",
        "_durations",
        "_open",
        "_phase",
        "_phase_ms",
        "_reason",
        "_started_ms",
        "events",
    )

    def __init__(self) -> None:
        self.events: tuple[RebalanceEvent, ...] = ()
        """The ended rebalances, oldest first."""
        self._open = False
        self._phase: Phase | None = None
        self._durations: dict[Phase, int] = {}
        self._reset("", NO_GENERATION, 0)

    def begin(self, reason: str, generation: Generation, now_ms: int) -> None:
        """Open a rebalance; does nothing if one is open, since a retry belongs to what it retries."""
        if self._open:
            return
        self._open = True
        self._reset(reason, generation, now_ms)

    def phase(self, name: Phase, now_ms: int) -> None:
        """End the previous phase and begin another."""
        if self._open:
            self._end_phase(now_ms)
            self._phase = name
            self._phase_ms = now_ms

    def attempt(self) -> None:
        """Count one more attempt to join."""
        if self._open:
            self._attempts += 1

    def complete(
        self,
        generation: Generation,
        now_ms: int,
        *,
        leader: bool = False,
        broker_assigns: bool = False,
        member_count: int | None = None,
    ) -> RebalanceEvent | None:
        """End the open rebalance in a new generation. Return its record; None if none was open."""
        return self._close(
            "completed",
            now_ms,
            after=generation,
            leader=leader,
            broker_assigns=broker_assigns,
            member_count=member_count,
        )

    def fail(self, error: BaseException | str, now_ms: int) -> RebalanceEvent | None:
        """End the open rebalance with an error, which must hold no secret. Return its record; None if none is open."""
        text = str(error)
        if isinstance(error, BaseException):
            text = f"{type(error).__name__}: {text}" if text else type(error).__name__
        return self._close(f"failed: {_one_line(text)}", now_ms)

    def leave(self, now_ms: int) -> RebalanceEvent | None:
        """End the open rebalance because the member left the group, and return its record; None if none is open."""
        return self._close("left", now_ms)

    def lose(self, now_ms: int) -> RebalanceEvent | None:
        """End the open rebalance because the group dropped the member, and return its record; None if none is open."""
        return self._close("lost", now_ms)

    @property
    def is_open(self) -> bool:
        return self._open

    def _reset(self, reason: str, generation: Generation, now_ms: int) -> None:
        self._reason = _one_line(reason)
        self._before = generation
        self._started_ms = now_ms
        self._durations = {}
        self._phase = None
        self._phase_ms = now_ms
        self._attempts = 0

    def _end_phase(self, now_ms: int) -> None:
        if self._phase is not None:
            spent_ms = self._durations.get(self._phase, 0) + now_ms - self._phase_ms
            self._durations[self._phase] = spent_ms
            self._phase = None

    def _close(
        self,
        outcome: str,
        now_ms: int,
        *,
        after: Generation | None = None,
        leader: bool = False,
        broker_assigns: bool = False,
        member_count: int | None = None,
    ) -> RebalanceEvent | None:
        if not self._open:
            return None
        self._end_phase(now_ms)
        event = RebalanceEvent(
            started_ms=self._started_ms,
            ended_ms=now_ms,
            reason=self._reason,
            generation_before=self._before.generation_id,
            generation_after=NO_GENERATION_ID if after is None else after.generation_id,
            member_id=(after or self._before).member_id,
            protocol_name=(after or self._before).protocol_name,
            leader=leader,
            broker_assigns=broker_assigns,
            member_count=member_count if leader else None,
            phases=tuple(self._durations.items()),
            attempts=self._attempts,
            outcome=outcome,
        )
        self.events = (*self.events, event)[-MAX_EVENTS:]
        self._open = False
        return event


def _one_line(text: str) -> str:
    """Return the text without line breaks and not longer than the wire would carry it (KIP-800)."""
    return " ".join(text.split())[:_MAX_TEXT_CHARS]
