"""Decide what a worker does next with its assignment and configurations; does nothing itself.

The rules are those of Kafka's `DistributedHerder`: nothing is started before this worker's configurations are at
the offset of the assignment, what was revoked is followed by another rebalance at once, and work that was held
back is waited for no longer than the leader said.
"""

import logging
from dataclasses import dataclass

from groupsdk.connect.config_state import ClusterConfigState, ConfigChanges
from groupsdk.connect.work import NO_WORK, Work
from groupsdk.wire.connect_protocol import ConnectAssignment, ConnectorTaskId


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadConfigs:
    """Read the configurations to their end, then call `configs_read`."""


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Ask for a rebalance."""

    reason: str


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Run exactly this work: stop what is not in it, start what does not run yet."""

    work: Work
    generation: int


Step = ReadConfigs | Rejoin | Reconcile


@dataclass(frozen=True, slots=True)
class Reaction:
    """What to do about new configurations at once, besides `Step`."""

    restart_connectors: frozenset[str] = frozenset()
    """Configured otherwise, and owned here."""
    stop_tasks: frozenset[ConnectorTaskId] = frozenset()
    """Configured otherwise or gone, and owned here; they start again after the rebalance."""
    retarget: frozenset[str] = frozenset()
    """Connectors with another target state."""


class Herder:
    """The state of one worker between rebalances.

    Call `assigned` and `revoked` as the coordinator says, `configs_changed` when records came in, and do what
    `step` returns until it returns None.
    """

    def __init__(self) -> None:
        self._assignment: ConnectAssignment | None = None
        self._work = NO_WORK
        self._generation = -1
        self._resolved = True
        self._must_read = False
        self._rejoin: str | None = None
        self._rejoin_at_ms: int | None = None
        self._revoked = False

    @property
    def work(self) -> Work:
        """What this worker owns."""
        return self._work

    @property
    def resolved(self) -> bool:
        """Whether the last assignment is carried out."""
        return self._resolved and self._assignment is not None

    @property
    def rejoin_at_ms(self) -> int | None:
        """When the next rebalance is due for work that is held back."""
        return self._rejoin_at_ms

    # What happens.

    def assigned(self, assignment: ConnectAssignment, generation: int, now_ms: int) -> None:
        """Take note of an assignment, whole: kept and new."""
        self._assignment = assignment
        self._generation = generation
        self._work = NO_WORK
        if not assignment.failed:
            self._work = Work(assignment.connectors, assignment.tasks)
        delay_ms = assignment.delay_ms
        self._rejoin_at_ms = now_ms + delay_ms if delay_ms > 0 else None
        self._revoked = bool(assignment.revoked_connectors or assignment.revoked_tasks)
        self._must_read = assignment.failed
        self._resolved = False
        self._rejoin = None

    def revoked(self, work: Work) -> None:
        """Take note that this is not owned any more."""
        self._work = self._work.minus(work)

    def lost(self) -> None:
        """Take note that the worker is out of the group."""
        self._assignment = None
        self._work = NO_WORK
        self._resolved = True
        self._rejoin = None
        self._rejoin_at_ms = None

    def configs_read(self, succeeded: bool) -> None:
        """Take note of an attempt to read to the end."""
        self._must_read = not succeeded
        if not succeeded:
            self._rejoin = "configurations could not be read"

    def configs_changed(self, old: ClusterConfigState, new: ClusterConfigState) -> Reaction:
        """Take note of new configurations; returns what to do at once."""
        changes = ConfigChanges.between(old, new)
        anew = old.epoch != new.epoch
        if (changes.needs_rebalance or anew) and self._assignment is not None:
            self._rejoin = "connectors or their tasks have changed"
        return Reaction(
            restart_connectors=changes.connectors_changed.intersection(self._work.connectors),
            stop_tasks=self.changed_tasks(old, new),
            retarget=changes.targets_changed,
        )

    def changed_tasks(
        self, old: ClusterConfigState, new: ClusterConfigState
    ) -> frozenset[ConnectorTaskId]:
        """Return the tasks owned here that cannot go on as they are."""
        if old.epoch != new.epoch:
            return frozenset(self._work.tasks)  # their fencing tokens are of the past
        return ConfigChanges.between(old, new).tasks_changed.intersection(self._work.tasks)

    # What to do.

    def step(self, configs: ClusterConfigState, now_ms: int) -> Step | None:
        """Return what to do next; None: nothing, until something happens."""
        assignment = self._assignment
        if assignment is None:
            return None
        if not self._resolved:
            return self._resolve(assignment, configs)
        if self._rejoin is None and self._rejoin_at_ms is not None and now_ms >= self._rejoin_at_ms:
            self._rejoin = "the delay for lost work is over"
        return self._take_rejoin()

    def _resolve(self, assignment: ConnectAssignment, configs: ClusterConfigState) -> Step | None:
        if self._rejoin is not None:
            self._resolved = True
            return self._take_rejoin()
        if self._must_read or configs.offset < assignment.offset:
            self._must_read = False
            return ReadConfigs()
        if assignment.failed:
            self._rejoin = "the leader lacked configurations"
        elif configs.offset != assignment.offset:
            # even where it is ahead: the leader shared out what is not any more
            self._rejoin = f"configurations at {configs.offset}, the assignment was made at {assignment.offset}"
        self._resolved = True
        if self._rejoin is not None:
            return self._take_rejoin()
        if self._revoked:
            # what was given up is handed out in the next round
            self._revoked = False
            self._rejoin = "revoked work has stopped"
        return Reconcile(self._work, self._generation)

    def _take_rejoin(self) -> Rejoin | None:
        reason, self._rejoin = self._rejoin, None
        if reason is None:
            return None
        self._rejoin_at_ms = None
        return Rejoin(reason)
