"""An adversary looks for groups that take most work for their size; `make adversary` lets it look for long.

Work is counted in lines of Python, so that it is the same on every machine; the size of a group is the number of
its members, subscriptions, partitions and claims. Both engines are tried on every group, whatever its size.
"""

import argparse
import random
import sys
from dataclasses import dataclass, replace
from unittest.mock import patch

from assignors.sticky.plan import fairest
from groupsdk.assignment import Cluster, Subscription
from groupsdk.assignment.check.steps import StepLimit
from tests.assignors.sticky.oracle import Group


LINES = 2500
"""What a plan may take for each unit of its group's size."""

_CLAIMS = ("none", "first", "drawn", "half", "last")


@dataclass(frozen=True)
class Shape:
    """What the adversary chooses."""

    members: int
    topics: int
    read: int
    partitions: int
    racks: int
    near: bool
    claims: str
    seed: int

    def mutated(self, chance: random.Random, most: int) -> "Shape":
        """Return a shape that differs in one or two choices."""
        changed = self
        for _ in range(chance.randint(1, 2)):
            changed = replace(
                changed,
                **chance.choice(
                    (
                        {"members": chance.randint(2, most)},
                        {"topics": chance.randint(1, 2 * most)},
                        {"read": chance.choice((1, 1, 2, 2, 3, 5, 10))},
                        {"partitions": chance.choice((1, 1, 1, 2, 3, 4))},
                        {"racks": chance.choice((0, 0, 2, 3, 12))},
                        {"near": chance.random() < 0.5},
                        {"claims": chance.choice(_CLAIMS)},
                        {"seed": chance.randrange(1000)},
                    )
                ),
            )
        return changed


def make_group(shape: Shape) -> Group:
    """Make a group: each member reads some topics, drawn from all or next to each other."""
    chance = random.Random(shape.seed)
    topics = [f"t{number:05d}" for number in range(shape.topics)]
    racks = "abcdefghijkl"[: shape.racks]
    replicas = {
        topic: [frozenset(chance.sample(racks, 2)) for _ in range(shape.partitions)]
        for topic in topics
        if racks
    }
    subscriptions, readers = {}, dict[str, list[str]]()
    read = min(shape.read, shape.topics)
    for number in range(shape.members):
        member = f"m{number:05d}"
        first = number * shape.topics // shape.members
        wanted = (
            [topics[(first + step) % shape.topics] for step in range(read)]
            if shape.near
            else chance.sample(topics, read)
        )
        subscriptions[member] = Subscription(
            wanted, rack_id=chance.choice(racks) if racks else None
        )
        for topic in wanted:
            readers.setdefault(topic, []).append(member)
    claims: dict[str, dict[str, list[int]]] = {member: {} for member in subscriptions}
    for topic, those in readers.items():
        for number in range(shape.partitions):
            if shape.claims == "none" or (shape.claims == "half" and chance.random() < 0.5):
                continue
            owner = {"first": those[0], "last": those[-1]}.get(shape.claims) or chance.choice(those)
            claims[owner].setdefault(topic, []).append(number)
    counts = dict.fromkeys(topics, shape.partitions)
    return Group(Cluster(counts, replicas), subscriptions, dict(claims), dict.fromkeys(claims, 1))


def size(group: Group) -> int:
    """Return how much the assignor has to read and to write."""
    read = {topic for each in group.subscriptions.values() for topic in each.topics}
    return (
        len(group.subscriptions)
        + sum(len(each.topics) for each in group.subscriptions.values())
        + sum(group.cluster.partition_counts[topic] for topic in read)
        + sum(len(numbers) for claim in group.claims.values() for numbers in claim.values())
    )


def work(group: Group, lines: int = LINES) -> float:
    """Return the lines of Python that a plan takes, by the size of the group; stops beyond the budget."""
    steps = StepLimit(lines * size(group))
    with steps:
        fairest(group.cluster, group.subscriptions, group.claims, group.generations)
    return steps.taken / size(group)


def attack(*, lines: float, most: int, seed: int) -> tuple[Shape, float]:
    """Climb towards the group that takes most work, by so many lines of plans in all, whatever else the machine does.

    Returns it with its lines for each unit of size. A budget that is exceeded fails with the shape.
    """
    chance = random.Random(seed)
    worst, most_work = Shape(most // 2, most, 2, 1, 3, near=False, claims="none", seed=seed), 0.0
    while lines > 0:
        shape = worst.mutated(chance, most)
        group = make_group(shape)
        for is_sparse in (True, False):
            with patch("assignors.sticky.plan._is_sparse", return_value=is_sparse):
                try:
                    taken = work(group)
                except BaseException as error:
                    # Also of TooManySteps, which is not an Exception.
                    error.add_note(f"{shape}, sparse: {is_sparse}")
                    raise
            lines -= taken * size(group)
            if taken > most_work:
                worst, most_work = shape, taken
    return worst, most_work


def main(arguments: list[str]) -> None:
    """Attack with fresh seeds, and print the worst group of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.assignors.sticky.adversary")
    parser.add_argument("--seeds", type=int, default=10, help="how many attacks")
    parser.add_argument("--first", type=int, default=random.randrange(1 << 30), help="first seed")
    parser.add_argument("--lines", type=float, default=20e6, help="lines of plans of an attack")
    parser.add_argument("--most", type=int, default=1200, help="members of the greatest group")
    options = parser.parse_args(arguments)
    for seed in range(options.first, options.first + options.seeds):
        shape, taken = attack(lines=options.lines, most=options.most, seed=seed)
        print(
            f"seed {seed}: {taken:.0f} of {LINES} lines for each unit of size, by {shape}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
