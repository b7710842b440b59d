"""Track target assignments computed on other threads, so that an assignor does not block the broker's loop."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from groupsdk.broker.consumer_groups.assignors import (
    BUILT_IN,
    GroupSpec,
    ServerAssignor,
    checked,
)
from groupsdk.broker.consumer_groups.topics import Partitions


_QUICK_SIZE: Final = 4_000
"""Up to this many subscriptions and partitions in total, Kafka's assignors finish within 25 ms."""
_KNOWN: Final = frozenset(BUILT_IN.values())

Target = Mapping[str, Partitions]
"""The partitions of each member; a member that is missing gets none."""

Outcome = Target | Exception


class AssignmentJob(NamedTuple):
    """One run of an assignor."""

    group_id: str
    epoch: int
    """The group epoch that the target is computed for."""
    name: str
    assignor: ServerAssignor
    spec: GroupSpec

    def run(self) -> Target:
        """Run the assignor and check its result; on any thread.

        Raises:
            Exception: any exception of the assignor.
            AssignorError: the assignor's result is invalid.
        """
        return checked(self.spec, self.assignor.assign(self.spec))


AssignmentStarter = Callable[[AssignmentJob], None]
"""Runs a job elsewhere and passes its outcome to the coordinator's `assigned`, on the coordinator's thread."""


def is_quick(assignor: ServerAssignor, spec: GroupSpec) -> bool:
    """Return whether an assignor is known to be fast, as Kafka's own are on all but huge groups."""
    if type(assignor) not in _KNOWN:
        return False
    subscriptions = sum(1 + len(each.subscribed) for each in spec.members.values())
    return subscriptions + sum(each.partitions for each in spec.topics.values()) <= _QUICK_SIZE


class AssignmentJobs:
    """The running jobs, at most one per group, and the failures not yet reported to a member."""

    __slots__ = ("_failures", "_running")

    def __init__(self) -> None:
        self._running: dict[str, AssignmentJob] = {}
        self._failures: dict[str, Exception] = {}

    def is_running(self, group_id: str) -> bool:
        """Return whether the target of a group is being computed."""
        return group_id in self._running

    def begin(self, job: AssignmentJob) -> None:
        """Record that a job has started."""
        self._running[job.group_id] = job

    def end(self, job: AssignmentJob, outcome: Outcome) -> bool:
        """Record the outcome of a job; return whether it is the group's current job."""
        if self._running.get(job.group_id) is not job:
            return False
        del self._running[job.group_id]
        if isinstance(outcome, Exception):
            self._failures[job.group_id] = outcome
        return True

    def raise_failure(self, group_id: str) -> None:
        """Raise the failure of the group's last job, once.

        Raises:
            Exception: the job failed, and the failure has not been reported yet.
        """
        failure = self._failures.pop(group_id, None)
        if failure is not None:
            raise failure
