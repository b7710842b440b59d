"""Track target assignments computed on other threads, so that an assignor does not block the broker's loop."""

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from groupsdk.broker.coordinator.consumer.assignors import (
    BUILT_IN,
    AssignorError,
    GroupSpec,
    ServerAssignor,
    checked,
    copied,
)
from groupsdk.broker.coordinator.consumer.topics import Partitions


logger = logging.getLogger(__name__)

_QUICK_SIZE: Final = 4_000
"""Kafka's assignors finish within 15 ms for up to this many subscriptions and partitions, with the weights below."""
_MEMBER_COSTS: Final = 12
"""The weight of a member: an assignor on the loop runs for each that joins, and one on a thread for many of them."""
_TOPIC_COSTS: Final = 4
"""The weight of a topic, besides its partitions: it takes as long as so many of them."""
_KNOWN: Final = frozenset(BUILT_IN.values())

Target = Mapping[str, Partitions]
"""The partitions of each member by member id; a missing member gets none."""

Outcome = Target | Exception
"""The target assignment, or the exception that the assignor raised."""


class AssignmentJob(NamedTuple):
    """One run of an assignor; immutable, so it can be passed to another thread."""

    group_id: str
    epoch: int
    """The group epoch for which the target is computed."""
    name: str
    assignor: ServerAssignor
    spec: GroupSpec

    def run(self) -> Target:
        """Run the assignor and validate its result; may be called on any thread."""
        if type(self.assignor) in _KNOWN:
            return checked(self.spec, self.assignor.assign(self.spec))
        passed = copied(self.spec)
        target = checked(self.spec, self.assignor.assign(passed))
        if passed != self.spec:
            raise AssignorError(
                f"assignor {self.name!r} changed the group that it was given: it must only read it"
            )
        return target


_MOST_LOGGED: Final = 1_000

AssignmentStarter = Callable[[AssignmentJob], None]
"""Starts a job on another thread, without waiting, and passes its outcome to the coordinator's `assigned`, on
the coordinator's thread."""


def is_quick(assignor: ServerAssignor, spec: GroupSpec) -> bool:
    """Return whether an assignor can run on the broker's loop: one of Kafka's own, on a group that is not huge."""
    if type(assignor) not in _KNOWN:
        return False
    size = _TOPIC_COSTS * len(spec.topics)
    size += sum(_MEMBER_COSTS + len(member.subscribed) for member in spec.members.values())
    return size + sum(topic.partitions for topic in spec.topics.values()) <= _QUICK_SIZE


class AssignmentJobs:
    """The running jobs, at most one per group, and the failures not yet reported to a member."""

    __slots__ = ("_failures", "_logged", "_running")

    def __init__(self) -> None:
        self._running: dict[str, AssignmentJob] = {}
        self._failures: dict[str, Exception] = {}
        self._logged: dict[str, str] = {}

    def log_failure(self, group_id: str, failure: Exception) -> None:
        """Log why a group has no target: an assignor that fails is tried at each heartbeat, and logged when the reason changes."""
        reason = repr(failure)
        level = logging.DEBUG if self._logged.get(group_id) == reason else logging.ERROR
        if len(self._logged) >= _MOST_LOGGED:
            self._logged.clear()
        self._logged[group_id] = reason
        logger.log(
            level, "group=%s: computing a target assignment failed", group_id, exc_info=failure
        )

    def succeeded(self, group_id: str) -> None:
        """Record that a group has a target: its next failure is logged, whatever the reason."""
        self._logged.pop(group_id, None)

    def is_running(self, group_id: str) -> bool:
        """Return whether a target of the group is being computed."""
        return group_id in self._running

    def begin(self, job: AssignmentJob) -> None:
        """Record that a job has started; it becomes its group's current job."""
        self._running[job.group_id] = job

    def end(self, job: AssignmentJob, outcome: Outcome) -> bool:
        """Record the outcome of a job, keeping a failure for `raise_failure`; False if the job is outdated."""
        if self._running.get(job.group_id) is not job:
            return False
        del self._running[job.group_id]
        if isinstance(outcome, Exception):
            self._failures[job.group_id] = outcome
        return True

    def raise_failure(self, group_id: str) -> None:
        """Raise the exception of the group's last job, if it failed; each failure is raised once."""
        failure = self._failures.pop(group_id, None)
        if failure is not None:
            raise failure
