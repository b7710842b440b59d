"""Replay assignors over a group's generations, each compared with the real assignments."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from groupsdk.assignment import (
    Assignment,
    AssignorLike,
    Cluster,
    PartitionAssignor,
    RebalanceProtocol,
    Subscription,
    resolve_assignor,
)
from groupsdk.history.explain.timeline.member import Partitions, deviation


ACTUAL: Final = "actual"
"""The name under which stands what happened."""
_FEW_PARTITIONS: Final = 1_000
_SPARSE: Final = 100
"""A topic has no more than this many times the partitions that a generation is assigned of it."""
MAX_ROUNDS: Final = 10
"""After how many rebalances a cooperative assignor is taken not to settle."""

UNKNOWN_TOPICS: Final = "the names of its topics are not known: give them as `topics`"
"""The problem of a group whose assignments name topics by ids that nothing translates."""

Shares = Mapping[str, Sequence[int]]
"""Topic to partition numbers."""

_NOTHING: Final = Assignment()
_NONE: Final[Shares] = {}
_ATOMS: Final = (bool, int, float, str, bytes)
_CREATION: Final = ("__new__", "__reduce__", "__reduce_ex__", "__getstate__")
"""Methods that a class overrides to control how it is created or copied."""


class ReplayedMember(NamedTuple):
    """A member of a past generation, with the inputs of its assignor."""

    member_id: str
    instance_id: str | None
    topics: Sequence[str]
    rack_id: str | None
    assigned: Partitions


class PastGeneration(NamedTuple):
    group_id: str
    seq: int
    generation: int
    cooperative: bool
    """Whether its members kept what did not move."""
    members: Sequence[ReplayedMember]


class ReplayRow(NamedTuple):
    """The result of an assignor for a generation."""

    group_id: str
    seq: int
    generation: int
    assignor: str
    moved: int
    revoked: int
    """Partitions that remaining members had to give up, even if they got them back: all of theirs unless it is cooperative."""
    max_load: int
    min_load: int
    stddev: float
    n_members: int
    n_partitions: int
    problem: str | None = None
    """Why there is no result: the assignor failed. Its last successful result stays its state."""


def new_assignor(assignor: AssignorLike) -> PartitionAssignor:
    """Return a new assignor for each call; a name is looked up in the installed registry."""
    resolved = resolve_assignor(assignor)
    return copy.deepcopy(resolved) if resolved is assignor else resolved


class Candidate:
    """An assignor to replay, looked up once, which takes longer than to assign: each group and each of its members gets a copy."""

    def __init__(self, assignor: AssignorLike) -> None:
        self._unused = new_assignor(assignor)
        self._copied = _plain_copy if _is_plain(self._unused) else copy.deepcopy
        self.name = self._unused.name
        self.is_cooperative = RebalanceProtocol.COOPERATIVE in self._unused.supported_protocols
        self.is_stateless = getattr(self._unused, "is_stateless", False) is True
        """Whether its members send no user data and keep no state."""
        self.takes_claims = getattr(self._unused, "takes_claims", False) is True
        """Whether it takes previous assignments without user data; see `assignors.sticky.StickyAssignor`."""

    def copy(self) -> PartitionAssignor:
        """Return an unused copy of the assignor."""
        return self._copied(self._unused)


class ReplaySums:
    """The results of each assignor over one group's whole history."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._sums: dict[str, _Sums] = {}

    def add(self, row: ReplayRow) -> None:
        sums = self._sums.get(row.assignor)
        if sums is None:
            sums = self._sums[row.assignor] = _Sums()
        sums.generations += 1
        sums.moves += row.moved
        sums.revoked += row.revoked
        sums.worst = max(sums.worst, row.max_load - row.min_load)
        if row.problem is None:
            sums.deviations += row.stddev
        else:
            sums.problems += 1

    def totals(self) -> Iterator[tuple[str, int, int]]:
        """Return the moves and revocations of each assignor without problems."""
        for name, sums in self._sums.items():
            if not sums.problems:
                yield name, sums.moves, sums.revoked

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Return a row for each assignor, ranked by fewest moves, then by most even assignment."""
        keys = {name: sums.key for name, sums in self._sums.items()}
        for name, sums in self._sums.items():
            yield (
                self._group_id,
                name,
                sums.generations,
                sums.moves,
                sums.revoked,
                sums.mean,
                sums.worst,
                sums.problems,
                1 + sum(key < keys[name] for key in keys.values()),
            )


@dataclass(slots=True)
class _Sums:
    generations: int = 0
    moves: int = 0
    revoked: int = 0
    deviations: float = 0.0
    worst: int = 0
    problems: int = 0

    @property
    def mean(self) -> float | None:
        done = self.generations - self.problems
        return self.deviations / done if done else None

    @property
    def key(self) -> tuple[int, int, float, int]:
        mean = self.mean
        return self.problems, self.moves, -1.0 if mean is None else mean, self.revoked


@dataclass(slots=True)
class _Owners:
    """The last owner of each partition."""

    by_topic: dict[str, dict[int, str]] = field(default_factory=dict)
    shares: Mapping[str, Shares] = field(default_factory=dict)
    loads: dict[str, int] = field(default_factory=dict)

    def take(self, shares: Mapping[str, Shares], *, cooperative: bool) -> tuple[int, int]:
        """Apply an assignment; returns how many partitions moved, and how many were revoked."""
        kept = moved = from_present = 0
        loads: dict[str, int] = {}
        last, last_loads = self.shares, self.loads
        for member_id, share in shares.items():
            had = last_loads.get(member_id, 0)
            kept += had
            # most members keep their assignment, so nothing of it has moved
            before = last.get(member_id)
            if before is share or before == share:
                loads[member_id] = had
                continue
            loads[member_id] = sum(map(len, share.values()))
            for topic, numbers in share.items():
                owners = self.by_topic.get(topic)
                if owners is None:
                    owners = self.by_topic[topic] = {}
                mine = dict.fromkeys(numbers, member_id)
                owned_by = [*map(owners.get, mine)]
                owners.update(mine)
                own = owned_by.count(member_id)
                others = len(owned_by) - own - owned_by.count(None)
                moved += others
                if others and cooperative:
                    from_present += sum(map(shares.__contains__, owned_by)) - own
        self.shares, self.loads = shares, loads
        return moved, from_present if cooperative else kept


class _Round(NamedTuple):
    """What all assignors are given of a generation."""

    cluster: Cluster
    total: int
    """The partitions of the cluster."""
    joining: Mapping[str, Subscription]
    """The subscriptions, without an assignor's user data."""
    unchanged: bool
    """Whether the subscriptions and the cluster are as before."""
    plans: list[Any]
    """Plans of other assignors for it, see `assignors.sticky.StickyAssignor.assign_claims`."""


class _Contender:
    """The replay of one assignor over the generations of a group."""

    def __init__(self, candidate: Candidate) -> None:
        self._copy = candidate.copy
        self._leader = candidate.copy()
        self.name = candidate.name
        self._cooperative = candidate.is_cooperative
        self._is_stateless = candidate.is_stateless and not candidate.is_cooperative
        self._takes_claims = candidate.takes_claims
        self._members: dict[str, PartitionAssignor] = {}
        self._shares: dict[str, Assignment] = {}
        self._claims: Mapping[str, Shares] = {}
        self._planned: Mapping[str, Shares] | None = None
        self._owners = _Owners()
        self._rounds = 0

    def take(self, past: PastGeneration, given: _Round) -> ReplayRow:
        """Assign a generation's partitions."""
        planned, self._planned = self._planned, None
        try:
            if planned is None or not given.unchanged:
                planned = self._plan(given)
        except Exception as error:  # noqa: BLE001 - an assignor is anybody's code; the others go on
            problem = f"{type(error).__name__}: {error}"
            return _row(past, self.name, (0, 0), [], problem)
        if self._is_stateless or self._takes_claims:
            # the same arguments make the same plan, and who keeps what is balanced moves nothing of it
            self._planned = planned
        changed = self._owners.take(planned, cooperative=self._cooperative)
        return _row(past, self.name, changed, list(self._owners.loads.values()))

    def _plan(self, given: _Round) -> Mapping[str, Shares]:
        joining = given.joining
        if self._is_stateless:
            plan = self._leader.assign(given.cluster, joining)
            return {member_id: plan.get(member_id, _NOTHING).partitions for member_id in joining}
        if self._takes_claims:
            return self._claimed(given)
        members = self._members
        self._members = {
            member_id: members[member_id] if member_id in members else self._copy()
            for member_id in joining
        }
        shares = self._settled(given)
        return {member_id: share.partitions for member_id, share in shares.items()}

    def _claimed(self, given: _Round) -> Mapping[str, Shares]:
        """Assign as `_settled` does, without user data and an assignor for each member."""
        assign: Any = self._leader
        joining = given.joining
        for _ in range(MAX_ROUNDS):
            last = self._claims
            self._claims = assign.assign_claims(
                given.cluster,
                joining,
                {member_id: last.get(member_id, _NONE) for member_id in joining},
                # all claims are of the same generation, whichever that is
                {member_id: 0 if member_id in last else -1 for member_id in joining},
                given.plans,
            )
            if not self._cooperative or given.total <= sum(
                len(numbers) for share in self._claims.values() for numbers in share.values()
            ):
                break
        return self._claims

    def _settled(self, given: _Round) -> Mapping[str, Assignment]:
        for _ in range(MAX_ROUNDS):
            plan = self._leader.assign(given.cluster, self._joining(given.joining))
            self._rounds += 1
            rounds, shares = self._rounds, {}
            for member_id, assignor in self._members.items():
                shares[member_id] = share = plan.get(member_id, _NOTHING)
                assignor.on_assignment(share, rounds)
            self._shares = shares
            # partitions that move are withheld until their owner has revoked them, in a later rebalance
            if not self._cooperative or sum(map(len, plan.values())) >= given.total:
                break
        return self._shares

    def _joining(self, joining: Mapping[str, Subscription]) -> Mapping[str, Subscription]:
        """Add the assignor's user data, and the partitions that members keep."""
        with_own = dict(joining)
        shares, rounds = self._shares if self._cooperative else {}, self._rounds
        # the members are those that join, in the same order
        for (member_id, plain), assignor in zip(
            joining.items(), self._members.values(), strict=True
        ):
            share = shares.get(member_id)
            user_data = assignor.subscription_user_data(plain.topics)
            if share is not None:
                with_own[member_id] = Subscription(
                    plain.topics,
                    user_data,
                    share.partitions,
                    rounds,
                    plain.rack_id,
                    plain.group_instance_id,
                )
            elif user_data is not None:
                with_own[member_id] = Subscription(
                    plain.topics, user_data, _NONE, -1, plain.rack_id, plain.group_instance_id
                )
        return with_own


def _is_plain(assignor: PartitionAssignor) -> bool:
    """Return whether copying the attributes copies the whole object, with no mutable state shared."""
    own = type(assignor)
    if any(
        hasattr(own, name) for name in ("__deepcopy__", "__copy__", "__slots__", "__setstate__")
    ):
        return False
    if any(getattr(own, name) is not getattr(object, name) for name in _CREATION):
        return False
    return all(each is None or type(each) in _ATOMS for each in vars(assignor).values())


def _plain_copy(assignor: PartitionAssignor) -> PartitionAssignor:
    """Copy an object that `_is_plain` allows, in a tenth of the time of `copy.copy`."""
    own = type(assignor)
    copied: PartitionAssignor = object.__new__(own)
    vars(copied).update(vars(assignor))
    return copied


class GroupReplay:
    """One group's generations, replayed with each assignor of `candidates`."""

    def __init__(self, group_id: str, candidates: Iterable[Candidate]) -> None:
        self.group_id = group_id
        self._contenders = [_Contender(each) for each in candidates]
        self._actual = _Owners()
        self._counts: dict[str, int] = {}
        # of the last generation: most of it is the same in the next one
        self._wanted: Set[str] = frozenset()
        self._cluster = Cluster({})
        self._total = 0
        self._joined: dict[str, Subscription] = {}

    def take(self, past: PastGeneration) -> Iterator[ReplayRow]:
        """Process the next generation. Yield a row for the real assignment and one for each assignor."""
        counts = self._counts
        grown = False
        assigned: dict[str, Shares] = {}
        for member in past.members:
            assigned[member.member_id] = dict(member.assigned)
            for topic, numbers in member.assigned:
                if numbers and numbers[-1] >= counts.get(topic, 0):
                    count = _last_of(past, topic, numbers) + 1
                    if count > counts.get(topic, 0):
                        counts[topic] = count
                        grown = True
        changed = self._actual.take(assigned, cooperative=past.cooperative)
        loads = list(self._actual.loads.values())
        yield _row(past, ACTUAL, changed, loads)
        wanted = set().union(*{id(each.topics): each.topics for each in past.members}.values())
        unchanged = not grown and wanted == self._wanted
        if not unchanged:
            known = {topic: counts[topic] for topic in sorted(wanted & counts.keys())}
            self._wanted, self._cluster, self._total = wanted, Cluster(known), sum(known.values())
        if not self._total and any(loads):
            # records of the newer protocol name topics by their ids, and subscriptions by their names
            for contender in self._contenders:
                yield _row(past, contender.name, (0, 0), [], UNKNOWN_TOPICS)
            # the next generation is compared with no plan
            self._joined = {}
            return
        last = self._joined
        joining = self._joined = {
            member.member_id: _subscription(member, last.get(member.member_id))
            for member in past.members
        }
        unchanged = unchanged and joining == last
        given = _Round(self._cluster, self._total, joining, unchanged, [])
        for contender in self._contenders:
            yield contender.take(past, given)


def _last_of(past: PastGeneration, topic: str, numbers: Sequence[int]) -> int:
    """Return the highest of a member's partitions that its topic may really have: any client can write an assignment."""
    if numbers[-1] < _FEW_PARTITIONS:
        return numbers[-1]
    every = sum(
        len(mine) for member in past.members for name, mine in member.assigned if name == topic
    )
    limit = max(_FEW_PARTITIONS, _SPARSE * every)
    return max((number for number in numbers if number < limit), default=-1)


def _subscription(member: ReplayedMember, last: Subscription | None) -> Subscription:
    """Return a member's subscription: the same object as last time if it is equal."""
    _, instance_id, topics, rack_id, _ = member
    if (
        last is not None
        and (last.topics is topics or last.topics == topics)
        and last.rack_id == rack_id
        and last.group_instance_id == instance_id
    ):
        return last
    return Subscription(topics, rack_id=rack_id, group_instance_id=instance_id)


def _row(
    past: PastGeneration,
    assignor: str,
    changed: tuple[int, int],
    loads: Sequence[int],
    problem: str | None = None,
) -> ReplayRow:
    highest, lowest = max(loads, default=0), min(loads, default=0)
    return ReplayRow(
        past.group_id,
        past.seq,
        past.generation,
        assignor,
        *changed,
        highest,
        lowest,
        0.0 if highest == lowest else deviation(loads),
        len(past.members),
        sum(loads),
        problem,
    )
