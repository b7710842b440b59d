"""Take assignors through what happens to a group, and measure what each makes of it."""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from assignors.quality import Quality, measure
from assignors.registry import resolve
from assignors.workbench.events import Event, Group
from assignors.workbench.picture import picture
from groupsdk.assignment import (
    Assignment,
    AssignorLike,
    Cluster,
    GroupAssignment,
    PartitionAssignor,
    RebalanceProtocol,
    Subscription,
)
from groupsdk.assignment.plan import Plan, find_problems
from groupsdk.clock import thread_cpu_ns
from groupsdk.lazy_imports import override


_HEADS = ("moves", "loads", "rounds", "ms")


def table(
    assignors: Sequence[str], events: Sequence[str], outcomes: "Sequence[Sequence[Outcome]]"
) -> str:
    """Format moves, loads (least to greatest), rounds and CPU time as text, one block of columns for each assignor.

    In brackets after the moves is a lower bound: without a greater load, no plan moves fewer. An exclamation mark after
    the loads means that fairer ones are possible; "invalid" replaces all of it if the plan is invalid.
    """
    blocks = [
        _block(name, [row[place] for row in outcomes]) for place, name in enumerate(assignors)
    ]
    members = [str(row[0].members) if row else "" for row in outcomes]
    first = _aligned([("", ""), ("event", "members"), *zip(events, members, strict=True)])
    return "\n".join("  |  ".join(line).rstrip() for line in zip(first, *blocks, strict=True))


def _block(name: str, outcomes: "Sequence[Outcome]") -> list[str]:
    lines = _aligned([_HEADS, *map(_cells, outcomes)], right=True)
    width = max(len(name), *map(len, lines))
    return [name.ljust(width), *(line.ljust(width) for line in lines)]


def _cells(outcome: "Outcome") -> tuple[str, ...]:
    quality = outcome.quality
    if not quality.is_valid:
        return ("invalid", "", str(outcome.rounds), f"{outcome.cpu_ms:.2f}")
    loads = f"{quality.fewest}-{quality.most}{'' if quality.is_fairest else '!'}"
    moves = f"{quality.moves} ({quality.least_moves})"
    return (moves, loads, str(outcome.rounds), f"{outcome.cpu_ms:.2f}")


def _aligned(rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if right or place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


MAX_ROUNDS = 10
"""After how many rounds a cooperative assignor is taken not to settle."""

START = "start"
"""What the first assignment is called."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one assignor for one event.

    Attributes:
        members: how many there were then.
        quality: of the plan after the last round; its moves are those of all rounds together.
        rounds: how many rebalances it took; 1 for an eager one.
        cpu_ms: CPU time of `assign`, of all rounds together.
    """

    assignor: str
    event: str
    members: int
    quality: Quality
    rounds: int
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """The history of a group under each assignor; as text, the table.

    Attributes:
        assignors: their names, in the order given; numbered where one comes twice.
        events: what happened, in order; the first is the start.
        outcomes: by event, by assignor.
    """

    assignors: Sequence[str]
    events: Sequence[str]
    outcomes: Sequence[Sequence[Outcome]]

    def table(self) -> str:
        """Return moves, balance and time side by side, as text."""
        return table(self.assignors, self.events, self.outcomes)

    def svg(self) -> str:
        """Return the same as a picture: a self-contained SVG document."""
        return picture(self.assignors, self.events, self.outcomes)

    @override
    def __str__(self) -> str:
        return self.table()

    def _repr_svg_(self) -> str:
        return self.svg()


def simulate(
    members: Mapping[str, Sequence[str]] | Mapping[str, Subscription] | Collection[str],
    topics: Mapping[str, int] | Cluster,
    events: Sequence[Event],
    assignors: Sequence[AssignorLike],
    *,
    cpu_ns: Callable[[], int] = thread_cpu_ns,
) -> Simulation:
    """Run assignors through the same events of a group.

    Every member has an assignor of its own, as in a group: it is told what it was given, and asked for its
    user data before each rebalance. Under a cooperative assignor the members revoke and rejoin until
    nothing is withheld.

    Args:
        members: who is there at the start: ids, which want all topics; or ids with their topics; or ids
            with whole subscriptions.
        topics: with their numbers of partitions; or a cluster, which may name racks.
        events: what happens, each followed by a rebalance; see `assignors.workbench.events`.
        assignors: names, classes or assignors; see `resolve`.
        cpu_ns: reads the CPU time used so far, in nanoseconds.

    Raises:
        ConfigError: there is no such assignor.
        ValueError: an event cannot happen.
    """
    group = Group(topics if isinstance(topics, Cluster) else Cluster(dict(topics)))
    group.members = _subscriptions(members, group.cluster)
    runs = [_Run(assignor, cpu_ns) for assignor in assignors]
    names = _numbered([run.name for run in runs])
    rows = [[run.rebalance(START, name, group) for run, name in zip(runs, names, strict=True)]]
    for event in events:
        event.apply(group)
        rows.append(
            [run.rebalance(str(event), name, group) for run, name in zip(runs, names, strict=True)]
        )
    return Simulation(names, [START, *map(str, events)], rows)


def _subscriptions(
    members: Mapping[str, Sequence[str]] | Mapping[str, Subscription] | Collection[str],
    cluster: Cluster,
) -> dict[str, Subscription]:
    everything = tuple(sorted(cluster.partition_counts))
    if not isinstance(members, Mapping):
        return {member_id: Subscription(everything) for member_id in members}
    return {
        member_id: wanted if isinstance(wanted, Subscription) else Subscription(tuple(wanted))
        for member_id, wanted in members.items()
    }


def _numbered(names: Sequence[str]) -> list[str]:
    return [
        name if names.count(name) == 1 else f"{name} ({names[: place + 1].count(name)})"
        for place, name in enumerate(names)
    ]


class _Run:
    def __init__(self, assignor: AssignorLike, cpu_ns: Callable[[], int]) -> None:
        self._assignor = assignor
        self._cpu_ns = cpu_ns
        self._leader = self._made()
        self._members: dict[str, PartitionAssignor] = {}
        self._shares: dict[str, Assignment] = {}
        self._generation_id = 0
        self.name = self._leader.name

    def rebalance(self, event: str, name: str, group: Group) -> Outcome:
        for gone in self._shares.keys() - group.members.keys():
            del self._members[gone], self._shares[gone]
        before = {
            member_id: replace(
                subscription,
                owned_partitions=self._shares.get(member_id, Assignment()).partitions,
                generation_id=self._generation_id if member_id in self._shares else -1,
            )
            for member_id, subscription in group.members.items()
        }
        used_ns = 0
        rounds = 0
        settled = False
        while not settled and rounds < MAX_ROUNDS:
            joining = {m: self._joining(m, each) for m, each in group.members.items()}
            start_ns = self._cpu_ns()
            plan = self._leader.assign(group.cluster, joining)
            used_ns += self._cpu_ns() - start_ns
            rounds += 1
            settled = not self._is_cooperative() or self._is_settled(group, joining, plan)
            self._take(plan)
        return Outcome(
            assignor=name,
            event=event,
            members=len(group.members),
            quality=measure(Plan(group.cluster, before, dict(self._shares))),
            rounds=rounds,
            cpu_ms=used_ns / 1e6,
        )

    def _joining(self, member_id: str, subscription: Subscription) -> Subscription:
        assignor = self._members.get(member_id)
        if assignor is None:
            assignor = self._members[member_id] = self._made()
        joined = replace(
            subscription, user_data=assignor.subscription_user_data(subscription.topics)
        )
        share = self._shares.get(member_id)
        if share is None or not self._is_cooperative():
            return joined
        return replace(joined, owned_partitions=share.partitions, generation_id=self._generation_id)

    def _is_settled(
        self, group: Group, joined: Mapping[str, Subscription], plan: GroupAssignment
    ) -> bool:
        """Return whether nothing is withheld and nobody has to give anything up."""
        if next(find_problems(Plan(group.cluster, joined, plan)), None) is not None:
            return False
        return all(
            set(self._shares.get(member_id, ())) <= set(plan.get(member_id, ()))
            for member_id in joined
        )

    def _take(self, plan: GroupAssignment) -> None:
        self._generation_id += 1
        for member_id, assignor in self._members.items():
            share = plan.get(member_id, Assignment())
            self._shares[member_id] = share
            assignor.on_assignment(share, self._generation_id)

    def _is_cooperative(self) -> bool:
        return RebalanceProtocol.COOPERATIVE in self._leader.supported_protocols

    def _made(self) -> PartitionAssignor:
        made = resolve(self._assignor)
        # one given as an object is the model of all members' own
        return copy.deepcopy(made) if made is self._assignor else made
