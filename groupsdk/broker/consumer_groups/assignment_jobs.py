"""Keep account of target assignments that are computed elsewhere: an assignor must not hold the broker's loop."""

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
"""Members, their topics, and partitions that Kafka's assignors have shared out in 25 ms at the most."""
_KNOWN: Final = frozenset(BUILT_IN.values())

Target = Mapping[str, Partitions]
"""The partitions of each member; one that is left out gets none."""

Outcome = Target | Exception


class AssignmentJob(NamedTuple):
    """One run of an assignor."""

    group_id: str
    epoch: int
    """The group epoch for which it is."""
    name: str
    assignor: ServerAssignor
    spec: GroupSpec

    def run(self) -> Target:
        """Run the assignor and check its result; on any thread.

        Raises:
            Exception: whatever the assignor raises.
            AssignorError: its result is wrong.
        """
        return checked(self.spec, self.assignor.assign(self.spec))


AssignmentStarter = Callable[[AssignmentJob], None]
"""Has a job run elsewhere; its outcome is handed to the coordinator's `assigned`, on the coordinator's thread."""


def is_quick(assignor: ServerAssignor, spec: GroupSpec) -> bool:
    """Return whether an assignor is known to be done in no time, as Kafka's are on all but huge groups."""
    if type(assignor) not in _KNOWN:
        return False
    subscriptions = sum(1 + len(each.subscribed) for each in spec.members.values())
    return subscriptions + sum(each.partitions for each in spec.topics.values()) <= _QUICK_SIZE


class AssignmentJobs:
    """The jobs that run, at most one for each group, and the failures that nobody was told of yet."""

    __slots__ = ("_failures", "_running")

    def __init__(self) -> None:
        self._running: dict[str, AssignmentJob] = {}
        self._failures: dict[str, Exception] = {}

    def is_running(self, group_id: str) -> bool:
        """Return whether the target of a group is being computed."""
        return group_id in self._running

    def begin(self, job: AssignmentJob) -> None:
        """Note that a job runs."""
        self._running[job.group_id] = job

    def end(self, job: AssignmentJob, outcome: Outcome) -> bool:
        """Note the outcome of a job; return whether it is the one that was waited for."""
        if self._running.get(job.group_id) is not job:
            return False
        del self._running[job.group_id]
        if isinstance(outcome, Exception):
            self._failures[job.group_id] = outcome
        return True

    def raise_failure(self, group_id: str) -> None:
        """Raise why the last job of a group failed, once.

        Raises:
            Exception: it failed, and nobody was told yet.
        """
        failure = self._failures.pop(group_id, None)
        if failure is not None:
            raise failure
