"""Time the leader of a group with shards, count the bytes of the group, and what moves beside the least possible.

`python -m tests.benchmarks.shards` prints two tables. CPU seconds are of all that the leader does in one generation: the members' metadata is
decoded, the plan made, the assignments encoded. The bytes are those of a group after 30 members have been replaced one by
one, so that each has shards from all over the list, and epochs from many generations.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TypeAlias

from typing_extensions import override

from assignors import assign_range
from groupsdk.assignment import Assignment, Cluster, Subscription
from groupsdk.shards.handover import GroupPlan, LeaderMemory, assign_shards
from groupsdk.shards.types import checked_shards
from groupsdk.wire.shards.protocol import decode_member, encode_member
from tests.benchmarks.moves_picture import Aiokafka
from tests.benchmarks.report import Result
from tests.shards.paper_group import CONFIG, PaperGroup, shard_config


_ROUNDS = 3
_HISTORIES = 500
_EVENTS = 12
_SHAPE = 2.5
_UNLIMITED = 10**9
_REPLACED = 5
_NOTE = (
    "CPU seconds, median of three: the members' metadata decoded, the plan, the assignments encoded. Bytes: the group's "
    f"record, with metadata and assignments, after {_REPLACED} members were replaced one by one. Names are shard-0, shard-1 and so "
    "on. Weights are all different: 10,000 of them are told to their owners, and for 100,000 there is no room in the record, so that "
    "they are left out. Kafka's limit for the record is 1,048,588 bytes by default."
)
_MOVES_NOTE = (
    "{:,} events: members come, go and restart under another id, and shards come and go; 2 to 20 members, up to 8 shards each at the "
    "beginning. A move is a shard that its owner loses though both are still there. The least possible is for the placement that "
    "this planner had before. Uneven: how often two members' counts differed by more than one."
)


SIZES = ((10_000, 50), (100_000, 200))
KINDS = (
    "equal shards",
    "one standby each",
    "weights",
    "measured loads",
    "measured loads and one standby each",
)


class QuietGroup(PaperGroup):
    """A group in which nothing is checked: that takes longer than all else."""

    @override
    def check(self, done: GroupPlan) -> None:
        """Do nothing."""


def build(shards: int, members: int) -> QuietGroup:
    """Make a group in which members have been replaced one by one."""
    chance = random.Random(1)
    listed = checked_shards(f"shard-{number}" for number in range(shards))
    group = QuietGroup(listed, shard_config(group_record_max_bytes=_UNLIMITED))
    for number in range(members):
        group.join(member_id(chance, number))
    group.settle()
    for number in range(_REPLACED):
        group.leave(chance.choice(sorted(group.members)))
        group.settle()
        group.join(member_id(chance, members + number))
        group.settle()
    return group


def turn_into(group: QuietGroup, kind: str) -> QuietGroup:
    """Return the group with shards or members of another kind."""
    chance = random.Random(2)
    group = replace(group, members=dict(group.members))
    if "one standby each" in kind:
        group.config = replace(group.config, standbys=1)
    if kind == "weights":
        group.shards = checked_shards(
            replace(shard, weight=chance.paretovariate(_SHAPE)) for shard in group.shards
        )
        # in which a hundred thousand different weights find no room, so that the leader leaves them out
        group.config = CONFIG
    if "measured loads" in kind:
        for member, state in group.members.items():
            loads = {name: chance.uniform(0.5, 1.5) for name in state.held}
            group.members[member] = replace(state, loads=loads)
        group.now_ms += group.config.load_interval_ms
    group.settle()
    return group


def member_id(chance: random.Random, number: int) -> str:
    """Return an id as a coordinator gives it."""
    return f"worker-{number}-{chance.randbytes(4).hex()}-aaaa-bbbb-cccc-{chance.randbytes(6).hex()}"


def lead(group: QuietGroup, metadata: Mapping[str, bytes], memory: LeaderMemory) -> None:
    """Do what a leader does in one generation."""
    members = {member: decode_member(data) for member, data in metadata.items()}
    shards = group.shards
    now_ms = group.now_ms + 1
    assign_shards(shards, members, group.generation + 1, 1001, memory, group.config, now_ms)


def cpu_seconds(call: Callable[[], object], rounds: int = _ROUNDS) -> float:
    """Return the median of some rounds."""
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def measure(group: QuietGroup) -> list[float]:
    """Return the CPU seconds of the list, of the plan after a member has gone and when nothing has changed; and bytes."""
    listing = cpu_seconds(lambda: checked_shards(group.shards))
    metadata = {member: encode_member(state) for member, state in group.members.items()}
    done = group.rebalance()
    memory = group.memory
    same = cpu_seconds(lambda: lead(group, metadata, memory))
    del metadata[min(metadata)]
    gone = cpu_seconds(lambda: lead(group, metadata, memory))
    return [listing, gone, same, done.bytes]


def run() -> Result:
    result = Result(
        "shards",
        "Shards: CPU seconds of the leader for one generation, and bytes",
        ["group", "list checked", "a member has gone", "nothing changed", "bytes", "bytes a shard"],
        notes=[_NOTE],
        raw={},
    )
    for shards, members in SIZES:
        built = build(shards, members)
        for kind in KINDS:
            row = f"{shards:,} shards x {members} members, {kind}"
            figures = measure(turn_into(built, kind))
            result.raw[row] = figures
            *seconds, size = figures
            result.rows.append(
                [row, *map("{:.2f}".format, seconds), f"{size:,.0f}", f"{size / shards:.2f}"]
            )
    return result.finish()


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


def run_moves(*, histories: int = _HISTORIES) -> Result:
    """Count moves through the same histories with each planner."""
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
    return result.finish()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=_HISTORIES)
    run_moves(histories=parser.parse_args().histories)
    run()
