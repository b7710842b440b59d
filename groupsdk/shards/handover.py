"""Turn a plan into what each member is told in this generation: first release, then gain, each with its epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groupsdk.shards.plan import Plan, PlanSettings, plan_targets
from groupsdk.shards.protocol import (
    GENERATION_BITS,
    NO_INCARNATION,
    MemberState,
    ShardAssignment,
    encode_assignment,
    epoch_of,
)
from groupsdk.shards.shard_list import digest_of
from groupsdk.shards.types import Shard, ShardError


@dataclass(frozen=True, slots=True)
class LeaderMemory:
    """What a leader remembers from one plan to the next; a new leader begins with an empty one."""


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
    next_rebalance_ms: int | None = None
    """In how many milliseconds the leader has to ask for a rebalance, if there was none; None: never."""
    error: ShardError | None = None
    """Why nothing was planned; the assignments let everybody keep what it has. To be raised by the leader's poll."""


def known_incarnation(members: Mapping[str, MemberState], generation: int) -> int | None:
    """Return the incarnation under which the group goes on; None: a new one must begin.

    It goes on if a member has been in the group since the generation just before, and nobody knows a greater
    incarnation. Over a gap it does not: in a generation between, one that is gone by now may have begun another.

    Args:
        members: by member id.
        generation: the one that is being assigned.
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
    settings: PlanSettings,
    now_ms: int,
    error: ShardError | None = None,
) -> GroupPlan:
    """Decide what each member is told in this generation.

    Args:
        shards: the list, from `checked_shards`; None: it is not known, so everybody keeps what it holds.
        members: what each said, by member id.
        generation: the one that is being assigned.
        incarnation: `known_incarnation`, or a new one of at least `least_incarnation`.
        memory: from the last plan of this process, or an empty one.
        settings: the leader's.
        now_ms: the leader's monotonic clock.
        error: why the list is not known.
    """
    claims = _claims(members)
    owners = {name: owner for name, (_, owner, holds) in claims.items() if holds}
    if shards is None:
        plan = Plan(targets=owners)
        count = digest = 0
    else:
        plan = plan_targets(shards, members, owners, settings)
        count, digest = len(shards), digest_of(shards)
    epoch = epoch_of(incarnation, generation)
    owned: dict[str, dict[str, int]] = {member: {} for member in members}
    for name, target in plan.targets.items():
        claim = claims.get(name)
        if claim is None:
            owned[target][name] = epoch
        elif claim[1] == target and claim[2]:
            owned[target][name] = claim[0]
    assignments = {
        member: ShardAssignment(
            incarnation=incarnation,
            generation=generation,
            owned=owned[member],
            shard_count=count,
            shard_digest=digest,
            unplaceable=len(plan.unplaceable),
            error="" if error is None else str(error),
        )
        for member in members
    }
    encoded = {member: encode_assignment(each) for member, each in assignments.items()}
    size = sum(map(len, encoded.values())) + sum(state.size for state in members.values())
    return GroupPlan(assignments, encoded, plan, memory, size, error=error)


def _claims(members: Mapping[str, MemberState]) -> dict[str, tuple[int, str, bool]]:
    """Return the best claim to each shard: its epoch, the member, and whether it holds it or is releasing it."""
    claims: dict[str, tuple[int, str, bool]] = {}
    for member in sorted(members):
        state = members[member]
        for leases, holds in ((state.releasing, False), (state.held, True)):
            for name, epoch in leases.items():
                claims[name] = max(claims.get(name, (-1, "", False)), (epoch, member, holds))
    return claims
