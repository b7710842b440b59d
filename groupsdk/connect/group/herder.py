"""Decide what a worker does next with its assignment and configurations, without I/O.

The rules are those of Kafka's `DistributedHerder`: nothing is started before this worker's configurations are at
the offset of the assignment, what was revoked is followed by another rebalance at once, and work that was held
back is waited for no longer than the leader said. Everything that moves a worker from state
to state is in `TRANSITIONS`; docs/connect.md draws it.
"""

import logging
from dataclasses import dataclass
from enum import Enum
from typing import Final

from groupsdk.connect.group.work import NO_WORK, Work
from groupsdk.connect.store.config_backing_store import ClusterConfigState, ConfigChanges
from groupsdk.wire.connect_protocol import ConnectAssignment, ConnectorTaskId


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadConfigs:
    """Read the configurations to their end, then call `configs_read`."""


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Step: ask for a rebalance."""

    reason: str
    """For the log and for the coordinator (KIP-800)."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Step: run exactly this work, that is, stop everything else, and start what is not running yet."""

    work: Work
    generation: int
    """The group's generation that assigned them, from which their fencing token is made."""


Step = ReadConfigs | Rejoin | Reconcile


@dataclass(frozen=True, slots=True)
class Reaction:
    """The immediate reaction to new configurations, besides `Step`."""

    restart_connectors: frozenset[str] = frozenset()
    """Configured otherwise, and owned here, or with a task that is: `run` reads its connector's configuration."""
    stop_tasks: frozenset[ConnectorTaskId] = frozenset()
    """Owned tasks whose configuration changed or is gone; they start again after the rebalance."""
    retarget: frozenset[str] = frozenset()
    """Connectors with another target state."""


class HerderState(Enum):
    """The state of a worker between two rebalances."""

    OUTSIDE = "outside"
    """In no group, or in one that has assigned nothing yet.

    action: run nothing.
    transition: assigned => ASSIGNED
    """
    ASSIGNED = "assigned"
    """Has an assignment that is not carried out.

    action: compare the configurations with those that the leader assigned by; read them first where they are older,
        or where the leader lacked some itself.
    transition: configurations are older => READING; they are newer => REJOINING; they are the same => RUNNING, or
        REJOIN_DUE where work was revoked
    """
    READING = "reading"
    """Reads the configurations to their end.

    action: start nothing.
    transition: read => CAUGHT_UP; not read in time => REJOIN_DUE
    """
    CAUGHT_UP = "caught_up"
    """Has read the configurations, and not carried the assignment out.

    action: compare again; where the leader lacked configurations, join again.
    transition: as from ASSIGNED
    """
    RUNNING = "running"
    """Runs what it is assigned.

    action: wait until connectors or tasks change, or the delay is over for which the leader holds lost work back.
    transition: another rebalance is needed => REJOIN_DUE; assigned => ASSIGNED
    """
    REJOIN_DUE = "rejoin_due"
    """Goes on with its work, and has to ask for a rebalance.

    action: ask for it.
    transition: asked => REJOINING
    """
    REJOINING = "rejoining"
    """Has asked for a rebalance, and goes on with its work until the next assignment.

    transition: assigned => ASSIGNED; another rebalance is needed => REJOIN_DUE
    """


class HerderTrigger(Enum):
    ASSIGNED = "assigned"
    OLDER = "configurations are older"
    READ = "read"
    NOT_READ = "not read in time"
    NEWER = "they are newer, or the leader lacked some"
    SAME = "they are the same"
    SAME_AND_REVOKED = "they are the same, and work was revoked"
    REJOIN_NEEDED = "connectors have changed, or the delay is over"
    ASKED = "asked"
    LOST = "out of the group"


_UNRESOLVED: Final = (HerderState.ASSIGNED, HerderState.CAUGHT_UP)
TRANSITIONS: Final[dict[tuple[HerderState, HerderTrigger], HerderState]] = {
    **{(state, HerderTrigger.ASSIGNED): HerderState.ASSIGNED for state in HerderState},
    **{(state, HerderTrigger.OLDER): HerderState.READING for state in _UNRESOLVED},
    (HerderState.READING, HerderTrigger.READ): HerderState.CAUGHT_UP,
    (HerderState.READING, HerderTrigger.NOT_READ): HerderState.REJOIN_DUE,
    **{(state, HerderTrigger.NEWER): HerderState.REJOINING for state in _UNRESOLVED},
    **{(state, HerderTrigger.SAME): HerderState.RUNNING for state in _UNRESOLVED},
    **{(state, HerderTrigger.SAME_AND_REVOKED): HerderState.REJOIN_DUE for state in _UNRESOLVED},
    (HerderState.RUNNING, HerderTrigger.REJOIN_NEEDED): HerderState.REJOIN_DUE,
    (HerderState.REJOINING, HerderTrigger.REJOIN_NEEDED): HerderState.REJOIN_DUE,
    (HerderState.REJOIN_DUE, HerderTrigger.ASKED): HerderState.REJOINING,
    **{(state, HerderTrigger.LOST): HerderState.OUTSIDE for state in HerderState},
}
"""(state, trigger) -> next state."""
_CARRIED_OUT: Final = (HerderState.RUNNING, HerderState.REJOIN_DUE, HerderState.REJOINING)
_NOTHING: Final = ConnectAssignment(offset=-1)


class Herder:
    """The state of one worker between rebalances.

    Call `assigned` and `revoked` for the coordinator's callbacks and `configs_changed` for new records, then carry
    out what `step` returns until it returns None.
    """

    def __init__(self) -> None:
        self._state = HerderState.OUTSIDE
        self._assignment = _NOTHING
        self._work = NO_WORK
        self._generation = -1
        self._reason = ""
        self._rejoin_at_ms: int | None = None

    @property
    def state(self) -> HerderState:
        return self._state

    @property
    def work(self) -> Work:
        return self._work

    @property
    def settled(self) -> bool:
        """Whether the last assignment was carried out, or abandoned for the next one."""
        return self._state in _CARRIED_OUT

    @property
    def rejoin_at_ms(self) -> int | None:
        """When the next rebalance for delayed work is due."""
        return self._rejoin_at_ms

    def assigned(self, assignment: ConnectAssignment, generation: int, now_ms: int) -> None:
        """Handle a complete assignment: kept and new work."""
        self._move(HerderTrigger.ASSIGNED)
        self._assignment = assignment
        self._generation = generation
        self._work = NO_WORK
        if not assignment.failed:
            self._work = Work(assignment.connectors, assignment.tasks)
        delay_ms = assignment.delay_ms
        self._rejoin_at_ms = now_ms + delay_ms if delay_ms > 0 else None

    def revoked(self, work: Work) -> None:
        self._work = self._work.minus(work)

    def lost(self) -> None:
        self._move(HerderTrigger.LOST)
        self._assignment = _NOTHING
        self._work = NO_WORK
        self._rejoin_at_ms = None

    def configs_read(self, succeeded: bool) -> None:
        """Handle the result of `ReadConfigs`; if they were not read, the next step is to rejoin."""
        if succeeded:
            self._move(HerderTrigger.READ)
        else:
            self._reason = "configurations could not be read"
            self._move(HerderTrigger.NOT_READ)

    def configs_changed(self, old: ClusterConfigState, new: ClusterConfigState) -> Reaction:
        """Handle new configurations. Return what to restart or stop at once; a rebalance that is due comes from `step`."""
        changes = ConfigChanges.between(old, new)
        # before the assignment is carried out, `step` compares it with the newest ones anyway
        if (changes.needs_rebalance or old.epoch != new.epoch) and self.settled:
            self._need_rejoin("connectors or their tasks have changed")
        return Reaction(
            restart_connectors=changes.connectors_changed.intersection(
                [*self._work.connectors, *(each.connector for each in self._work.tasks)]
            ),
            stop_tasks=self._affected(old, new, changes),
            retarget=changes.targets_changed,
        )

    def changed_tasks(
        self, old: ClusterConfigState, new: ClusterConfigState
    ) -> frozenset[ConnectorTaskId]:
        """Return the owned tasks that have to be restarted."""
        changes = ConfigChanges.between(old, new)
        of_changed = (t for t in self._work.tasks if t.connector in changes.connectors_changed)
        return self._affected(old, new, changes).union(of_changed)

    def step(self, configs: ClusterConfigState, now_ms: int) -> Step | None:
        """Return the next step; None if there is nothing to do until the next event."""
        if self._state in _UNRESOLVED:
            return self._check_assignment(configs)
        if self._state is HerderState.READING:
            return ReadConfigs()
        if self._rejoin_at_ms is not None and now_ms >= self._rejoin_at_ms:
            self._need_rejoin("the delay for lost work is over")
        if self._state is HerderState.REJOIN_DUE:
            return self._rejoin(HerderTrigger.ASKED)
        return None

    def _affected(
        self, old: ClusterConfigState, new: ClusterConfigState, changes: ConfigChanges
    ) -> frozenset[ConnectorTaskId]:
        if old.epoch != new.epoch:
            return frozenset(self._work.tasks)  # their fencing tokens are of the past
        return changes.tasks_changed.intersection(self._work.tasks)

    def _check_assignment(self, configs: ClusterConfigState) -> Step:
        assignment, is_read = self._assignment, self._state is HerderState.CAUGHT_UP
        if configs.offset < assignment.offset or (assignment.failed and not is_read):
            self._move(HerderTrigger.OLDER)
            return ReadConfigs()
        if assignment.failed:
            self._reason = "the leader lacked configurations"
            return self._rejoin(HerderTrigger.NEWER)
        if configs.offset != assignment.offset:
            # the leader shared out connectors and tasks that may be gone by now
            self._reason = f"configurations at {configs.offset}, the assignment was made at {assignment.offset}"
            return self._rejoin(HerderTrigger.NEWER)
        if assignment.revoked_connectors or assignment.revoked_tasks:
            # what was given up is handed out in the next round
            self._reason = "revoked work has stopped"
            self._move(HerderTrigger.SAME_AND_REVOKED)
        else:
            self._move(HerderTrigger.SAME)
        return Reconcile(self._work, self._generation)

    def _need_rejoin(self, reason: str) -> None:
        if self._state is not HerderState.REJOIN_DUE:
            self._reason = reason
            self._move(HerderTrigger.REJOIN_NEEDED)

    def _rejoin(self, trigger: HerderTrigger) -> Rejoin:
        self._rejoin_at_ms = None
        self._move(trigger)
        return Rejoin(self._reason)

    def _move(self, trigger: HerderTrigger) -> None:
        try:
            self._state = TRANSITIONS[self._state, trigger]
        except KeyError:
            raise ValueError(
                f"no transition from {self._state.name} on '{trigger.value}'"
            ) from None
