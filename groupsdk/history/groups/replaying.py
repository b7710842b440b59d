"""Take assignors through the generations that a group had, each beside what really happened."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from statistics import pstdev
from typing import Any, Final, NamedTuple

from groupsdk.assignment import (
    Assignment,
    Cluster,
    PartitionAssignor,
    RebalanceProtocol,
    Subscription,
)
from groupsdk.errors import ConfigError
from groupsdk.history.groups.member import Partitions


AssignorLike = str | Callable[[], PartitionAssignor] | PartitionAssignor
"""A name, a place ("package.module:Class"), a class, or an assignor."""

ACTUAL: Final = "actual"
"""The name under which stands what happened."""
MAX_ROUNDS: Final = 10
"""After how many rebalances a cooperative assignor is taken not to settle."""

UNKNOWN_TOPICS: Final = "the names of its topics are not known: give them as `topics`"
"""The problem of a group whose assignments name topics by ids that nothing translates."""

# by its place and not by an import: the library knows no assignor, and works with others' alone
_RESOLVER: Final = EntryPoint("assignors", "assignors.registry:resolve", "groupsdk.resolvers")


class Joined(NamedTuple):
    """A member of a generation."""

    member_id: str
    instance_id: str | None
    topics: Sequence[str]
    rack_id: str | None
    assigned: Partitions
    """What it was assigned."""


class PastGeneration(NamedTuple):
    """A generation that a group had."""

    group_id: str
    seq: int
    generation: int
    cooperative: bool
    """Whether its members kept what did not move."""
    members: Sequence[Joined]


class ReplayRow(NamedTuple):
    """What an assignor made of a generation."""

    group_id: str
    seq: int
    generation: int
    assignor: str
    moved: int
    """Partitions that somebody else has than before."""
    revoked: int
    """Partitions that members who stay had to give up, if only to get them back: all of them unless the
    assignor is cooperative."""
    max_load: int
    min_load: int
    stddev: float
    n_members: int
    n_partitions: int
    problem: str | None = None
    """Why there is no result: the assignor failed. What it made before is kept as its state."""


def resolve(assignor: AssignorLike) -> PartitionAssignor:
    """Return an assignor of its own for each call; names are for the installed registry to find.

    Raises:
        ConfigError: nothing is known under the name, or what is meant is no assignor.
    """
    if isinstance(assignor, PartitionAssignor) and not isinstance(assignor, type):
        return copy.deepcopy(assignor)
    try:
        found: Any = _RESOLVER.load()
    except ImportError as error:
        raise ConfigError(
            f"assignor {assignor!r} cannot be looked up without the package 'assignors' ({error}): give an"
            " assignor itself"
        ) from error
    resolved: PartitionAssignor = found(assignor)
    return resolved


def replay(
    generations: Iterable[PastGeneration], assignors: Sequence[AssignorLike]
) -> Iterator[ReplayRow]:
    """Let each assignor share out what the group had to share out, from its own last assignment on.

    Partitions are known as far as somebody was assigned them: the log does not hold topics.

    Args:
        generations: those of a group together, in their order.
        assignors: names, places, classes or assignors; each member gets one of its own.

    Raises:
        ConfigError: an assignor is not known.
    """
    for assignor in assignors:
        resolve(assignor)
    group: _Replay | None = None
    for generation in generations:
        if group is None or group.group_id != generation.group_id:
            group = _Replay(generation.group_id, assignors)
        yield from group.take(generation)


@dataclass(slots=True)
class _Owners:
    """Who had each partition last."""

    by_partition: dict[tuple[str, int], str] = field(default_factory=dict)
    loads: dict[str, int] = field(default_factory=dict)

    def take(
        self, shares: Mapping[str, Iterable[tuple[str, int]]], *, cooperative: bool
    ) -> tuple[int, int]:
        """Take an assignment over; gives how many partitions moved, and how many were revoked."""
        owners, moved, from_present = self.by_partition, 0, 0
        kept = sum(load for member_id, load in self.loads.items() if member_id in shares)
        loads: dict[str, int] = {}
        for member_id, partitions in shares.items():
            count = 0
            for partition in partitions:
                count += 1
                before = owners.get(partition)
                if before != member_id:
                    if before is not None:
                        moved += 1
                        from_present += before in shares
                    owners[partition] = member_id
            loads[member_id] = count
        self.loads = loads
        return moved, from_present if cooperative else kept


class _Contender:
    """One assignor's way through the generations of a group."""

    def __init__(self, assignor: AssignorLike) -> None:
        self._assignor = assignor
        self._leader = resolve(assignor)
        self.name = self._leader.name
        self._cooperative = RebalanceProtocol.COOPERATIVE in self._leader.supported_protocols
        self._members: dict[str, PartitionAssignor] = {}
        self._shares: dict[str, Assignment] = {}
        self._owners = _Owners()
        self._rounds = 0

    def take(self, past: PastGeneration, cluster: Cluster, total: int) -> ReplayRow:
        """Share a generation's partitions out."""
        present = {member.member_id for member in past.members}
        for gone in self._members.keys() - present:
            del self._members[gone]
            self._shares.pop(gone, None)
        for member in past.members:
            if member.member_id not in self._members:
                self._members[member.member_id] = resolve(self._assignor)
        try:
            plan = self._settled(past, cluster, total)
        except Exception as error:  # noqa: BLE001 - an assignor is anybody's code; the others go on
            problem = f"{type(error).__name__}: {error}"
            return _row(past, self.name, (0, 0), [], problem)
        changed = self._owners.take(plan, cooperative=self._cooperative)
        return _row(past, self.name, changed, [len(each) for each in plan.values()])

    def _settled(
        self, past: PastGeneration, cluster: Cluster, total: int
    ) -> Mapping[str, Assignment]:
        for _ in range(MAX_ROUNDS):
            plan = self._leader.assign(cluster, self._joining(past))
            self._rounds += 1
            for member_id, assignor in self._members.items():
                share = plan.get(member_id, Assignment())
                self._shares[member_id] = share
                assignor.on_assignment(share, self._rounds)
            # what moves is withheld until its owner has given it up, in a rebalance after this one
            if not self._cooperative or sum(len(each) for each in plan.values()) >= total:
                break
        return self._shares

    def _joining(self, past: PastGeneration) -> dict[str, Subscription]:
        joining = {}
        for member in past.members:
            share = self._shares.get(member.member_id)
            user_data = self._members[member.member_id].subscription_user_data(member.topics)
            keeps = self._cooperative and share is not None
            joining[member.member_id] = Subscription(
                member.topics,
                user_data,
                share.partitions if share is not None and keeps else {},
                self._rounds if keeps else -1,
                member.rack_id,
                member.instance_id,
            )
        return joining


class _Replay:
    """One group."""

    def __init__(self, group_id: str, assignors: Sequence[AssignorLike]) -> None:
        self.group_id = group_id
        self._contenders = [_Contender(assignor) for assignor in assignors]
        self._actual = _Owners()
        self._counts: dict[str, int] = {}

    def take(self, past: PastGeneration) -> Iterator[ReplayRow]:
        counts = self._counts
        wanted = {topic for member in past.members for topic in member.topics}
        assigned: dict[str, list[tuple[str, int]]] = {}
        for member in past.members:
            mine = assigned[member.member_id] = []
            for topic, numbers in member.assigned:
                if numbers and numbers[-1] >= counts.get(topic, 0):
                    counts[topic] = numbers[-1] + 1
                mine += [(topic, number) for number in numbers]
        changed = self._actual.take(assigned, cooperative=past.cooperative)
        yield _row(past, ACTUAL, changed, [len(each) for each in assigned.values()])
        cluster = Cluster({topic: counts[topic] for topic in sorted(wanted & counts.keys())})
        total = sum(cluster.partition_counts.values())
        if not total and any(assigned.values()):
            # records of the newer protocol name topics by their ids, and subscriptions by their names
            for contender in self._contenders:
                yield _row(past, contender.name, (0, 0), [], UNKNOWN_TOPICS)
            return
        for contender in self._contenders:
            yield contender.take(past, cluster, total)


def _row(
    past: PastGeneration,
    assignor: str,
    changed: tuple[int, int],
    loads: Sequence[int],
    problem: str | None = None,
) -> ReplayRow:
    return ReplayRow(
        past.group_id,
        past.seq,
        past.generation,
        assignor,
        *changed,
        max(loads, default=0),
        min(loads, default=0),
        pstdev(loads) if loads else 0.0,
        len(past.members),
        sum(loads),
        problem,
    )
