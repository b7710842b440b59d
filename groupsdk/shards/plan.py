"""Plan who should own which shard, and who should stand by for it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor

from groupsdk.shards.config import ShardConfig
from groupsdk.shards.loads import balance_of, effective_weights, relieve
from groupsdk.shards.placement import place
from groupsdk.shards.standbys import place_standbys
from groupsdk.shards.types import Shard
from groupsdk.shards.work import NOBODY, Work
from groupsdk.wire.shards.protocol import MemberState


_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """Who should own what once everything has been handed over."""

    targets: Mapping[str, str] = field(default_factory=dict)
    """Shard to member id."""
    standbys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Shard to the member ids that stand by for it."""
    unplaceable: Mapping[str, str] = field(default_factory=dict)
    """Shard to why nobody can own it."""
    moves: int = 0
    """How many shards that somebody holds have another member as their target."""
    imbalance: float = 1.0
    """The greatest load of a member, over its capacity, in parts of the mean."""
    moves_left: int = 0
    """How many more shards would move because of loads if there were no budget."""
    imbalance_then: float = 1.0
    """The imbalance that these moves would lead to."""

    def describe(self) -> str:
        """Return the plan in a line, for logs and people."""
        parts = [f"{len(self.targets)} shards placed, {self.moves} to move"]
        parts.append(f"the greatest load is {self.imbalance:.2f} of the mean")
        if self.moves_left:
            parts.append(f"{self.moves_left} more moves would make it {self.imbalance_then:.2f}")
        if self.unplaceable:
            parts.append(self.describe_unplaceable())
        return "; ".join(parts)

    def describe_unplaceable(self) -> str:
        """Return which shards nobody can own, and why: the first five, and how many there are."""
        shown = [f"{name} ({why})" for name, why in [*self.unplaceable.items()][:_SHOWN]]
        more = len(self.unplaceable) - len(shown)
        shown += [f"and {more} more"] if more else []
        return f"{len(self.unplaceable)} unplaceable: {', '.join(shown)}"


Role = tuple[str | None, frozenset[str], float, int | None, bool]


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """What a leader remembers of its last plan."""

    shards: Sequence[Shard] = ()
    roles: Mapping[str, Role] = field(default_factory=dict)
    """What the plan depended on, by member id."""
    targets: Mapping[str, str] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)
    """The loads by which it was made."""
    loads_at_ms: int | None = None
    """When the loads were last looked at."""


@dataclass(frozen=True, slots=True)
class Claims:
    """Who works on what."""

    owners: Mapping[str, str]
    """Shard to the member id that works on it and may go on."""
    all: Mapping[str, Collection[str]]
    """Shard to all members that hold it or are releasing it."""


def plan_shards(
    shards: Sequence[Shard],
    members: Mapping[str, MemberState],
    claims: Claims,
    memory: PlanMemory,
    config: ShardConfig,
    now_ms: int,
) -> tuple[Plan, PlanMemory]:
    """Plan who should own what.

    As long as neither the list nor a member has changed since the last plan, that plan is kept: what is on its way goes where
    it was sent. Loads are looked at once in `load_interval_ms`; between two such times those of the last time count.

    Args:
        shards: the list, checked and sorted.
        memory: of the last plan of this process, or an empty one.
        config: the leader's.
        now_ms: the leader's monotonic clock.
    """
    roles = {member: _role(state) for member, state in members.items()}
    takers = sorted(member for member, state in members.items() if not state.draining)
    is_due = memory.loads_at_ms is None or now_ms - memory.loads_at_ms >= config.load_interval_ms
    loads = {**memory.loads, **_told(members, claims.owners)} if is_due else memory.loads
    loads = {shard.name: loads[shard.name] for shard in shards if shard.name in loads}
    remembered = PlanMemory(shards, roles, {}, loads, now_ms if is_due else memory.loads_at_ms)
    work = _work(shards, takers, members, claims.owners, loads)
    if memory.roles == roles and memory.shards == shards:
        number = {member: place for place, member in enumerate(takers)}
        targets = [number.get(memory.targets.get(shard.name, ""), NOBODY) for shard in shards]
    else:
        targets = place(work)
    plan = Plan()
    if loads and is_due and takers:
        targets, plan = _relieved(work, targets, config)
    plan = _described(work, targets, claims, plan)
    if config.standbys and takers:
        plan = replace(plan, standbys=_standbys(work, targets, members, claims, config.standbys))
    return plan, replace(remembered, targets=plan.targets)


def _role(state: MemberState) -> Role:
    return state.zone, state.capabilities, state.capacity, state.max_shards, state.draining


def _told(members: Mapping[str, MemberState], owners: Mapping[str, str]) -> dict[str, float]:
    """Return the load of each measured shard: what its owner says, else the most that another member says."""
    told: dict[str, float] = {}
    by_owner: dict[str, float] = {}
    for member, state in members.items():
        for name, load in state.loads.items():
            if owners.get(name) == member:
                by_owner[name] = load
            elif load >= told.get(name, 0.0):
                told[name] = load
    return told | by_owner


def _work(
    shards: Sequence[Shard],
    takers: Sequence[str],
    members: Mapping[str, MemberState],
    owners: Mapping[str, str],
    loads: Mapping[str, float],
) -> Work:
    states = [members[member] for member in takers]
    number = {member: place for place, member in enumerate(takers)}
    owned = [number.get(owners.get(shard.name, ""), NOBODY) for shard in shards]
    first = shards[0].weight if shards else 1.0
    is_even = (
        not loads
        and all(shard.weight == first for shard in shards)
        and len({state.capacity for state in states}) <= 1
    )
    place_of = {shard.name: place for place, shard in enumerate(shards)}
    standing = _standing(takers, members, place_of)
    return Work(
        shards=shards,
        members=takers,
        states=states,
        owners=owned,
        standbys={shard: those for shard, those in standing.items() if owned[shard] == NOBODY},
        weights=None if is_even else effective_weights(shards, loads),
        measured=bool(loads),
    )


def _standing(
    takers: Sequence[str], members: Mapping[str, MemberState], place_of: Mapping[str, int]
) -> dict[int, list[int]]:
    """Return shard to those who stand by for it, those who are ready first."""
    found: dict[int, list[int]] = {}
    for wanted in (True, False):
        for number, member in enumerate(takers):
            for name, ready in members[member].standbys.items():
                if ready is wanted and name in place_of:
                    found.setdefault(place_of[name], []).append(number)
    return found


def _relieved(work: Work, targets: list[int], config: ShardConfig) -> tuple[list[int], Plan]:
    """Move what loads make necessary, within the budget."""
    balance = balance_of(work, targets)
    allowed = config.load_threshold - 1
    if balance.excess <= allowed:
        return targets, Plan()
    # well below the threshold, so that noise does not reach it again
    goal = balance.least * (1 + allowed / 2)
    budget = max(1, floor(len(targets) * config.load_move_budget))
    moved = relieve(work, targets, goal, budget)
    if _changed(targets, moved) < budget:
        return moved, Plan()
    rest = relieve(work, moved, goal, len(targets))
    return moved, Plan(
        moves_left=_changed(moved, rest), imbalance_then=balance_of(work, rest).ratio
    )


def _changed(some: Sequence[int], others: Sequence[int]) -> int:
    return sum(one != other for one, other in zip(some, others, strict=True))


def _described(work: Work, targets: Sequence[int], claims: Claims, plan: Plan) -> Plan:
    named = {
        shard.name: work.members[target]
        for shard, target in zip(work.shards, targets, strict=True)
        if target != NOBODY
    }
    unplaceable = {
        shard.name: _reason(work, kind)
        for shard, kind, target in zip(work.shards, work.kinds, targets, strict=True)
        if target == NOBODY
    }
    moves = sum(
        shard.name in claims.owners and claims.owners[shard.name] != named.get(shard.name)
        for shard in work.shards
    )
    imbalance = balance_of(work, targets).ratio if work.members else 1.0
    return replace(plan, targets=named, unplaceable=unplaceable, moves=moves, imbalance=imbalance)


def _reason(work: Work, kind: int) -> str:
    if not work.members:
        return "no member takes shards: all are draining"
    able = work.able[kind]
    if able:
        return f"all members that are able to own it ({len(able)}) are at their max_shards"
    needs = next(
        shard.needs for shard, each in zip(work.shards, work.kinds, strict=True) if each == kind
    )
    return f"no member has the capabilities {sorted(needs)}"


def _standbys(
    work: Work,
    targets: Sequence[int],
    members: Mapping[str, MemberState],
    claims: Claims,
    count: int,
) -> dict[str, list[str]]:
    number = {member: place for place, member in enumerate(work.members)}
    place_of = {shard.name: place for place, shard in enumerate(work.shards)}
    claimed = {
        place_of[name]: [number[member] for member in those if member in number]
        for name, those in claims.all.items()
        if name in place_of
    }
    chosen = place_standbys(
        work, targets, _standing(work.members, members, place_of), claimed, count
    )
    return {
        work.shards[shard].name: [work.members[member] for member in those]
        for shard, those in chosen.items()
    }
