"""Plan who should own which shard, and who should stand by for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assignors.sticky import StickyAssignor
from groupsdk.assignment import Cluster, Subscription
from groupsdk.shards.protocol import MemberState
from groupsdk.shards.types import Shard


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The leader's settings that decide what is planned."""

    standbys: int = 0
    """How many members stand by for each shard."""
    load_threshold: float = 1.25
    """From which greatest load over the mean on loads make shards move."""
    load_move_budget: float = 0.1
    """At most this part of all shards moves at a time because of loads."""
    load_interval_ms: int = 300_000
    """How often loads may make shards move."""
    record_max_bytes: int = 1_000_000
    """How large the group's record may become; Kafka's `message.max.bytes` of __consumer_offsets."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Who should own what once everything has been handed over."""

    targets: Mapping[str, str] = field(default_factory=dict)
    """Shard to member id."""
    standbys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Shard to the member ids that stand by for it."""
    unplaceable: Mapping[str, str] = field(default_factory=dict)
    """Shard to why nobody can own it."""
    moves: int = 0
    """How many shards that somebody holds have another member as their target."""
    imbalance: float = 1.0
    """The greatest load of a member, over the mean."""
    moves_left: int = 0
    """How many more moves would balance the loads; they wait for the next `load_interval_ms`."""


def plan_targets(
    shards: Sequence[Shard],
    members: Mapping[str, MemberState],
    owners: Mapping[str, str],
    settings: PlanSettings,
) -> Plan:
    """Plan who should own what.

    Args:
        shards: the list, checked and sorted.
        members: by member id.
        owners: shard to the member id that works on it.
        settings: the leader's.
    """
    takers = sorted(member for member, state in members.items() if not state.draining)
    if not takers or not shards:
        return Plan(unplaceable={shard.name: "there is no member to take it" for shard in shards})
    number = {shard.name: place for place, shard in enumerate(shards)}
    claims: dict[str, dict[str, list[int]]] = {member: {} for member in takers}
    for name, owner in owners.items():
        if owner in claims and name in number:
            claims[owner].setdefault("", []).append(number[name])
    shares = StickyAssignor().assign_claims(
        Cluster({"": len(shards)}),
        dict.fromkeys(takers, Subscription([""])),
        claims,
        dict.fromkeys(takers, 0),
    )
    targets = {
        shards[place].name: member
        for member, share in shares.items()
        for place in share.get("", ())
    }
    moves = sum(targets.get(name) != owner for name, owner in owners.items() if name in number)
    return Plan(targets=targets, moves=moves)
