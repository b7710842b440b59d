"""Turn a plan into what each member is told in this generation: first release, then gain, each with its epoch; and when all join again."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from groupsdk.shards.config import ShardConfig
from groupsdk.shards.plan import Claims, Plan, PlanMemory, plan_shards
from groupsdk.shards.types import Shard, ShardError, digest_of
from groupsdk.wire.shards.protocol import (
    GENERATION_BITS,
    NO_INCARNATION,
    MemberState,
    ShardAssignment,
    encode_assignment,
    epoch_of,
    role_digest,
    weights_bytes,
)


AFTER_TAKING_MS = 10
"""When members join again after shards were taken, which stand still until all have joined. Not at once: until another has
joined, the coordinator gives the slowest member its assignment."""
AFTER_GIVING_MS = 50
"""The same after shards were given: nothing stands still."""
LATEST_MS = 1_000
ROUNDS_IN_A_ROW = 40
"""After so many rounds without any news they come ever more slowly; the waves of a drain are over before."""
_GREATEST_SHIFT = 16
_WAVES = 10
"""A draining member gives up its shards in about so many rounds."""
_WARN_FROM = 0.8
_RECORD_BYTES = 200
_MEMBER_BYTES = 45
"""What Kafka stores of a group, and of a member, besides the strings that are counted."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """What a leader remembers of the rounds in which it had all members come back."""

    in_a_row: int = 0
    """How many there were since shards were at rest, or since members or the list changed."""
    missed: int = 0
    """In how many of the last ones in a row a member had not fetched its assignment when others joined again."""

    def next(self, *, at_rest: bool, news: bool, missed: bool) -> "Rounds":
        """Return the same after one more generation.

        Args:
            at_rest: whether no shard waits for its next owner.
            news: whether members or the list have changed since the last generation.
            missed: whether a member did not fetch its last assignment.
        """
        return Rounds(
            0 if at_rest or news else self.in_a_row + 1,
            self.missed + 1 if missed else 0,
        )

    def again_ms(self, *, gives: bool) -> int:
        """Return after how many milliseconds members join again, after a generation that gave shards, or took some.

        The time doubles with each generation that a member has missed, and with each beyond `ROUNDS_IN_A_ROW`: a
        group never rebalances in a loop.
        """
        first_ms = AFTER_GIVING_MS if gives else AFTER_TAKING_MS
        doublings = self.missed + max(self.in_a_row - ROUNDS_IN_A_ROW, 0)
        return min(first_ms << min(doublings, _GREATEST_SHIFT), LATEST_MS)


@dataclass(frozen=True, slots=True)
class LeaderMemory:
    """What a leader remembers from one generation to the next; a new leader begins with an empty one."""

    plan: PlanMemory = field(default_factory=PlanMemory)
    digest: int = 0
    """Of the list that the plan was made for."""
    drains: Mapping[str, int] = field(default_factory=dict)
    """How many shards each draining member had at the beginning."""
    rounds: Rounds = field(default_factory=Rounds)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What the leader decided for one generation."""

    assignments: Mapping[str, ShardAssignment]
    """By member id."""
    encoded: Mapping[str, bytes]
    """The same as bytes, for SyncGroup."""
    plan: Plan
    memory: LeaderMemory
    """To be passed to the next call."""
    bytes: int = 0
    """How large the group's record becomes, about."""
    next_rebalance: tuple[int, str] | None = None
    """In how many milliseconds the leader has to ask for a rebalance, unless there was one, and why; None: never."""
    warnings: tuple[str, ...] = ()
    """To be logged."""
    error: ShardError | None = None
    """Why nothing was planned; the assignments let everybody keep what it has. To be raised by the leader's poll."""


def known_incarnation(members: Mapping[str, MemberState], generation: int) -> int | None:
    """Return the incarnation under which the group goes on; None: a new one must begin.

    It goes on if a member has been in the group since the generation just before, and nobody knows a greater
    incarnation. Over a gap it does not: in a generation between, one that is gone by now may have begun another.
    """
    newest = max((state.progress.incarnation for state in members.values()), default=-1)
    if newest == NO_INCARNATION:
        return None
    those = [state.progress for state in members.values() if state.progress.incarnation == newest]
    latest = max(progress.generation for progress in those)
    goes_on = latest + 1 == generation and any(progress.unbroken for progress in those)
    return newest if goes_on else None


def least_incarnation(members: Mapping[str, MemberState]) -> int:
    """Return a number that a new incarnation must at least have, so that its epochs are above all that are known."""
    known = [0]
    for state in members.values():
        progress = state.progress
        if progress.incarnation != NO_INCARNATION:
            known.append(epoch_of(progress.incarnation, max(progress.generation, 0)))
        known += (*state.held.values(), *state.releasing.values())
    return (max(known) >> GENERATION_BITS) + 1


def assign_shards(
    shards: Sequence[Shard] | None,
    members: Mapping[str, MemberState],
    generation: int,
    incarnation: int,
    memory: LeaderMemory,
    config: ShardConfig,
    now_ms: int,
    error: ShardError | None = None,
) -> GroupPlan:
    """Decide what each member is told in this generation.

    A member keeps what it holds and should own. What another should own it is not told to keep, so it releases that. A shard
    that nobody claims any more is given to the member that should own it, with the epoch of this generation.

    A generation gives or takes, never both: a released shard waits until all members have joined again, and one
    that has just been given shards may be busy with them for long.

    Args:
        shards: the list, from `checked_shards`; None: it is not known, so everybody keeps what it holds.
        incarnation: `known_incarnation`, or a new one of at least `least_incarnation`.
        memory: from the last plan of this process, or an empty one.
        config: the leader's.
        now_ms: the leader's monotonic clock.
        error: why the list is not known.
    """
    held = _held(members)
    if shards is None:
        return _kept(members, held, generation, incarnation, memory, config, error)
    claims = Claims({name: member for name, (_, member) in held.items()}, _claimants(members))
    plan, planned = plan_shards(shards, members, claims, memory.plan, config, now_ms)
    drains = _drains(members, claims, memory.drains)
    gives = any(name not in claims.all for name in plan.targets)
    kept = _kept_by_owners(plan, members, claims, None if gives else drains)
    owned: dict[str, dict[str, int]] = {member: {} for member in members}
    for name, member in kept.items():
        owned[member][name] = held[name][0]
    epoch = epoch_of(incarnation, generation)
    for name, target in plan.targets.items():
        if name not in claims.all:
            owned[target][name] = epoch
    same_list = planned.shards == memory.plan.shards
    digest = memory.digest if same_list else digest_of(shards)
    standbys = _standbys(plan, members, claims, owned)
    waiting = [name for name, target in plan.targets.items() if name not in owned[target]]
    rounds = memory.rounds.next(
        at_rest=not waiting,
        news=not same_list or planned.roles != memory.plan.roles,
        missed=was_missed(members, memory.plan.roles, generation),
    )
    # what is being released since an earlier generation is asked for by its owner, once it is
    movers = {
        claims.owners[name]
        for name in waiting
        if name in claims.owners and (gives or name not in kept)
    }
    absent = {member for member in movers if _may_be_absent(members[member], generation)}
    again_ms = rounds.again_ms(gives=gives) if movers - absent else None
    assignments = {
        member: ShardAssignment(
            incarnation=incarnation,
            generation=generation,
            owned=owned[member],
            standbys=tuple(standbys[member]),
            shard_count=len(shards),
            shard_digest=digest,
            unplaceable=len(plan.unplaceable),
            pending=len(waiting) or int(members[member].draining),
            again_ms=again_ms,
            role_digest=role_digest(members[member]),
        )
        for member in members
    }
    told, encoded, size = _encoded(assignments, shards, members, config)
    if size > config.group_record_max_bytes:
        too_large = ShardError(_size_text(size, config) + ", so nothing was planned")
        return _kept(members, held, generation, incarnation, memory, config, too_large)
    warnings = []
    if size > _WARN_FROM * config.group_record_max_bytes:
        warnings.append(_size_text(size, config))
    return GroupPlan(
        told,
        encoded,
        plan,
        LeaderMemory(planned, digest, drains, rounds),
        size,
        _absence(absent, config) or _next_loads(members, planned, config, now_ms),
        tuple(warnings),
    )


def _may_be_absent(state: MemberState, generation: int) -> bool:
    """Return whether this may be what a static member said before it ended: it has missed two assignments at least.

    Kafka keeps the member, and what it said, for as long as its session lasts, which begins anew with each rebalance. So
    the others make none for what it has, before its session is over.
    """
    return state.instance_id is not None and state.progress.generation < generation - 2


def _absence(absent: Collection[str], config: ShardConfig) -> tuple[int, str] | None:
    """Return when to look again at members that may be absent: those that live after all missed what they were told."""
    if not absent:
        return None
    wait_ms = config.member.session_timeout_ms + config.member.heartbeat_interval_ms
    return wait_ms, f"shards wait for {', '.join(sorted(absent))}, which may be absent"


def record_bytes(members: Mapping[str, MemberState], encoded: Mapping[str, bytes]) -> int:
    """Return how large the group's record becomes with these assignments, about, and at least."""
    strings = sum(
        len(text.encode())
        for member, state in members.items()
        for text in (member, state.instance_id or "", state.client_id)
    )
    data = sum(state.size + len(encoded[member]) for member, state in members.items())
    return _RECORD_BYTES + _MEMBER_BYTES * len(members) + strings + data


def _size_text(size: int, config: ShardConfig) -> str:
    limit = config.group_record_max_bytes
    return (
        f"the record of the group would have {size} bytes, {size / limit:.0%} of the {limit} bytes of "
        "group.record.max.bytes. Names with a common prefix and a number at the end, fewer standbys, or several "
        "groups make it smaller"
    )


def _held(members: Mapping[str, MemberState]) -> dict[str, tuple[int, str]]:
    """Return the epoch and the member id of who holds each shard; of two the one with the greater epoch.

    Nobody holds a shard if the greatest epoch is that of a member that is releasing it.
    """
    held: dict[str, tuple[int, str]] = {}
    for member in sorted(members):
        for name, epoch in members[member].held.items():
            if name not in held or held[name][0] < epoch:
                held[name] = epoch, member
    for state in members.values():
        for name, epoch in state.releasing.items():
            if name in held and held[name][0] < epoch:
                del held[name]
    return held


def _claimants(members: Mapping[str, MemberState]) -> dict[str, list[str]]:
    """Return the members that hold each shard or are releasing it."""
    found: dict[str, list[str]] = {}
    for member, state in members.items():
        for name in (*state.held, *state.releasing):
            found.setdefault(name, []).append(member)
    return found


def _encoded(
    assignments: Mapping[str, ShardAssignment],
    shards: Sequence[Shard],
    members: Mapping[str, MemberState],
    config: ShardConfig,
) -> tuple[Mapping[str, ShardAssignment], Mapping[str, bytes], int]:
    """Return assignments with the weights of shards, as bytes as well, and the size of the group's record.

    Without weights if there is little room for the record: they are for people, and decide nothing.
    """
    encoded = {member: encode_assignment(each) for member, each in assignments.items()}
    size = record_bytes(members, encoded)
    weights = {shard.name: float(shard.weight) for shard in shards if shard.weight != 1}
    if not weights:
        return assignments, encoded, size
    weighed = {
        member: replace(
            each, weights={name: weights[name] for name in each.owned if name in weights}
        )
        for member, each in assignments.items()
    }
    size_then = size + sum(weights_bytes(each) for each in weighed.values())
    if size_then > _WARN_FROM * config.group_record_max_bytes:
        return assignments, encoded, size
    return (
        weighed,
        {member: encode_assignment(each) for member, each in weighed.items()},
        size_then,
    )


def _kept(
    members: Mapping[str, MemberState],
    held: Mapping[str, tuple[int, str]],
    generation: int,
    incarnation: int,
    memory: LeaderMemory,
    config: ShardConfig,
    error: ShardError | None,
) -> GroupPlan:
    """Let everybody keep what it holds, and stand by for what it stands by for."""
    owned: dict[str, dict[str, int]] = {member: {} for member in members}
    for name, (epoch, member) in held.items():
        owned[member][name] = epoch
    assignments = {
        member: ShardAssignment(
            incarnation=incarnation,
            generation=generation,
            owned=owned[member],
            standbys=tuple(state.standbys),
            shard_count=len(memory.plan.shards),
            shard_digest=memory.digest,
            role_digest=role_digest(state),
            error="" if error is None else str(error),
        )
        for member, state in members.items()
    }
    told, encoded, size = _encoded(assignments, memory.plan.shards, members, config)
    plan = Plan(targets={name: member for name, (_, member) in held.items()})
    return GroupPlan(told, encoded, plan, memory, size, error=error)


def _drains(
    members: Mapping[str, MemberState], claims: Claims, before: Mapping[str, int]
) -> dict[str, int]:
    """Return how many shards each draining member had at the beginning."""
    counts = dict.fromkeys((member for member, state in members.items() if state.draining), 0)
    for member in claims.owners.values():
        if member in counts:
            counts[member] += 1
    return {
        member: max(before.get(member, 0), count + len(members[member].releasing))
        for member, count in counts.items()
    }


def _kept_by_owners(
    plan: Plan,
    members: Mapping[str, MemberState],
    claims: Claims,
    drains: Mapping[str, int] | None,
) -> dict[str, str]:
    """Return the shards that stay with their owners in this generation, each with its owner.

    Args:
        drains: how many shards each draining member had at the beginning; None: nothing is taken that is in the list.

    Draining members give up theirs in waves of a tenth of what they had, less what of the wave before is still being
    released. Shards whose next owner stands ready go first, those that nobody can take last, and all at once.
    """
    if drains is None:
        listed = plan.targets.keys() | plan.unplaceable.keys()
        return {name: member for name, member in claims.owners.items() if name in listed}
    kept: dict[str, str] = {}
    leaving: dict[str, list[str]] = {member: [] for member in drains}
    stuck: dict[str, list[str]] = {member: [] for member in drains}
    for name, member in claims.owners.items():
        target = plan.targets.get(name)
        if member not in drains:
            if target == member:
                kept[name] = member
        elif target is not None:
            leaving[member].append(name)
        elif name in plan.unplaceable:
            stuck[member].append(name)
    for member, names in leaving.items():
        room = -(-drains[member] // _WAVES) - len(members[member].releasing)
        names.sort(key=lambda name: (not _is_ready(members, plan.targets[name], name), name))
        staying = names[max(room, 0) :]
        kept.update(dict.fromkeys((*staying, *(stuck[member] if names else ())), member))
    return kept


def _is_ready(members: Mapping[str, MemberState], member: str, name: str) -> bool:
    return members[member].standbys.get(name, False)


def _standbys(
    plan: Plan,
    members: Mapping[str, MemberState],
    claims: Claims,
    owned: Mapping[str, Mapping[str, int]],
) -> dict[str, list[str]]:
    """Return what each member stands by for. Who waits for a shard that it stands by for goes on until it has it."""
    standbys: dict[str, list[str]] = {member: [] for member in members}
    for name, those in plan.standbys.items():
        for member in those:
            standbys[member].append(name)
    if not plan.standbys:
        return standbys
    for name in claims.all:
        target = plan.targets.get(name)
        if target is not None and name not in owned[target] and name in members[target].standbys:
            standbys[target].append(name)
    return standbys


def _next_loads(
    members: Mapping[str, MemberState], planned: PlanMemory, config: ShardConfig, now_ms: int
) -> tuple[int, str] | None:
    """Return when loads are due again, in a group in which they are known."""
    if planned.loads_at_ms is None or not any(state.loads for state in members.values()):
        return None
    wait_ms = max(planned.loads_at_ms + config.load_interval_ms - now_ms, 0)
    return wait_ms, "time to balance the loads"


def was_missed(
    members: Mapping[str, MemberState], before: Mapping[str, object], generation: int
) -> bool:
    """Return whether a member did not fetch its assignment of the last generation."""
    return any(
        member in before and state.progress.generation < generation - 1
        for member, state in members.items()
    )
