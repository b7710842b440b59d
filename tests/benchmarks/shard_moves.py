"""Count what moves through random histories of a group with shards, beside the least possible, with three planners."""

import random
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import TypeAlias

from assignors import assign_range
from groupsdk.assignment import Assignment, Cluster, Subscription
from groupsdk.shards.types import checked_shards
from tests.benchmarks.moves_picture import Aiokafka
from tests.benchmarks.report import Result, options_of
from tests.benchmarks.shards import QuietGroup, member_id


_HISTORIES = 500
_EVENTS = 12
_MOVES_NOTE = (
    "{:,} events: members come, go and restart under another id, and shards come and go; 2 to 20 members, up to 8 shards each at the "
    "beginning. A move is a shard that its owner loses though both are still there. The least possible is for the placement that "
    "this planner had before. Uneven: how often two members' counts differed by more than one."
)


Owners: TypeAlias = dict[str, set[int]]
"""Member id to the numbers of its shards."""
Assign: TypeAlias = Callable[[Owners, Set[int]], Owners]
"""Who owns what, and the list of shards, to who should."""


def by_groupsdk(owners: Owners, shards: Set[int]) -> Owners:
    """Plan as a leader of `groupsdk.shards` that remembers nothing."""
    listed = checked_shards([f"s-{number}" for number in shards])
    group = QuietGroup(listed)
    for member, mine in owners.items():
        group.join(member)
        held = {f"s-{number}": 1 for number in mine}
        group.members[member] = replace(group.members[member], held=held)
    found: Owners = {member: set() for member in owners}
    for name, member in group.rebalance().plan.targets.items():
        found[member].add(int(name[2:]))
    return found


def by_range(owners: Owners, shards: Set[int]) -> Owners:
    """Share out as the README's worker without stickiness does."""
    shares = assign_range(sorted(shards), owners)
    return {member: set(share) for member, share in shares.items()}


def by_kafkas_sticky(owners: Owners, shards: Set[int]) -> Owners:
    """Plan with Kafka's algorithm, in aiokafka's form: shards are the partitions of one topic."""
    numbers = {shard: place for place, shard in enumerate(sorted(shards))}
    subscriptions = {}
    for member, mine in owners.items():
        assignor = Aiokafka()
        held = tuple(sorted(numbers[shard] for shard in mine if shard in numbers))
        if held:
            assignor.on_assignment(Assignment({"s": held}), 1)
        subscriptions[member] = Subscription(["s"], assignor.subscription_user_data(["s"]))
    plan = Aiokafka().assign(Cluster({"s": len(numbers)}), subscriptions)
    shards_of = sorted(shards)
    return {
        member: {shards_of[number] for number in share.partitions.get("s", ())}
        for member, share in plan.items()
    }


PLANNERS: dict[str, Assign] = {
    "groupsdk.shards": by_groupsdk,
    "Kafka's sticky algorithm (in aiokafka)": by_kafkas_sticky,
    "assign_range": by_range,
}


@dataclass
class Tally:
    """What became of one planner's groups."""

    moves: int = 0
    least: int = 0
    worst: int = 0
    uneven: int = 0
    events: int = 0

    def count(self, before: Owners, after: Owners, shards: Set[int]) -> None:
        """Count one event: `before` has only members and shards that are still there."""
        moves = sum(len(mine - after[member]) for member, mine in before.items())
        least = least_moves([len(mine) for mine in before.values()], len(shards))
        sizes = [len(mine) for mine in after.values()]
        self.events += 1
        self.moves += moves
        self.least += least
        self.worst = max(self.worst, moves - least)
        self.uneven += max(sizes) - min(sizes) > 1


def least_moves(sizes: Sequence[int], count: int) -> int:
    """Return how many shards have to leave their owners in any even placement: the closed form of docs/sticky.md."""
    quota, longer = divmod(count, len(sizes))
    kept = sum(min(size, quota) for size in sizes)
    return sum(sizes) - kept - min(longer, sum(size > quota for size in sizes))


def history(chance: random.Random) -> list[tuple[list[str], set[int]]]:
    """Draw who is there, and which shards, after each event of one history."""
    members = [member_id(chance, number) for number in range(chance.randrange(2, 20))]
    shards = set(range(chance.randrange(len(members), 8 * len(members))))
    steps = [([*members], set(shards))]
    for number in range(_EVENTS):
        event = chance.randrange(4)
        if event == 0:
            members.append(member_id(chance, 100 + number))
        elif event == 1 and len(members) > 1:
            members.remove(chance.choice(members))
        elif event == 2:
            # a restart: one goes, and comes back under another id
            leaving = chance.choice(members)
            if len(members) > 1:
                members.remove(leaving)
                steps.append(([*members], set(shards)))
            members.append(member_id(chance, 200 + number))
        else:
            shards |= set(range(1000 * number + 1000, 1000 * number + 1000 + chance.randrange(5)))
            shards -= set(chance.sample(sorted(shards), min(chance.randrange(5), len(shards) - 1)))
        steps.append(([*members], set(shards)))
    return steps


def run(arguments: list[str], *, quick: bool) -> Result:
    del quick
    histories = options_of("shard_moves", arguments, histories=_HISTORIES).histories
    tallies = {name: Tally() for name in PLANNERS}
    for seed in range(histories):
        steps = history(random.Random(seed))
        for name, assign in PLANNERS.items():
            owners: Owners = {}
            for place, (members, shards) in enumerate(steps):
                before = {member: owners.get(member, set()) & shards for member in members}
                owners = assign(before, shards)
                if place:
                    tallies[name].count(before, owners, shards)
    events = next(iter(tallies.values())).events
    result = Result(
        "shard_moves",
        f"Shards: moves through {histories} random histories beside the least possible",
        ["planner", "moves", "least possible", "too many", "most too many at once", "uneven"],
        notes=[_MOVES_NOTE.format(events)],
        raw={name: vars(tally) for name, tally in tallies.items()},
    )
    for name, tally in tallies.items():
        result.rows.append(
            [
                name,
                *map("{:,}".format, (tally.moves, tally.least, tally.moves - tally.least)),
                str(tally.worst),
                f"{tally.uneven:,}",
            ]
        )
    return result
