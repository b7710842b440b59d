"""Large groups in the shapes that assignors find easy and hard, before and after something happens to them."""

import random
from dataclasses import dataclass
from itertools import combinations


Owned = dict[str, dict[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Row:
    """One row of the table: a shape, its size, and what happens."""

    shape: str
    partitions: int
    members: int
    event: str

    @property
    def name(self) -> str:
        """What the row is called."""
        kind = {"uniform": "U", "racks": "R", "dozen": "R"}.get(self.shape, "H")
        size = f"{self.partitions // 1000}k" if self.partitions < 10**6 else "1M"
        shape = "" if self.shape in ("uniform", "racks") else f"-{self.shape}"
        return f"{kind}{size}{shape}-{self.event} x{self.members}"


ROWS = [
    Row("uniform", 10_000, 100, "leave"),
    Row("uniform", 100_000, 1_000, "fresh"),
    Row("uniform", 100_000, 1_000, "join"),
    Row("uniform", 100_000, 1_000, "churn"),
    Row("uniform", 1_000_000, 10_000, "fresh"),
    Row("uniform", 1_000_000, 10_000, "churn"),
    Row("uniform", 1_000_000, 2_000, "leave"),
    Row("random", 10_000, 100, "churn"),
    Row("chain", 10_000, 100, "churn"),
    Row("random", 100_000, 1_000, "fresh"),
    Row("random", 100_000, 1_000, "leave"),
    Row("random", 100_000, 1_000, "churn"),
    Row("sparse", 100_000, 1_000, "churn"),
    Row("sparser", 100_000, 1_000, "churn"),
    Row("tiers", 100_000, 1_000, "churn"),
    Row("tiers", 100_000, 1_000, "redraw"),
    Row("nested", 100_000, 1_000, "churn"),
    Row("nested", 100_000, 1_000, "redraw"),
    Row("star", 100_000, 1_000, "churn"),
    Row("chain", 100_000, 1_000, "churn"),
    Row("clusters", 100_000, 1_000, "churn"),
    Row("clusters", 100_000, 1_000, "redraw"),
    Row("random", 1_000_000, 5_000, "leave"),
    Row("tiers", 1_000_000, 10_000, "churn"),
    Row("tiers", 1_000_000, 10_000, "redraw"),
    Row("sparser", 1_000_000, 5_000, "churn"),
    Row("chain", 1_000_000, 5_000, "churn"),
    Row("star", 1_000_000, 5_000, "churn"),
    Row("many", 100_000, 5_000, "fresh"),
    Row("many", 100_000, 5_000, "churn"),
    Row("racks", 100_000, 1_000, "leave"),
    Row("dozen", 20_000, 200, "churn"),
    Row("dozen", 100_000, 1_000, "churn"),
]


_DOZEN = "abcdefghijkl"
_WANTED_OF_MANY = 200

_PLACES = ("tiers", "nested", "clusters")
"""Shapes in which a member's place tells what it reads."""


@dataclass(frozen=True)
class Members:
    """A group's members with their subscriptions, and the topics."""

    counts: dict[str, int]
    subscribed: dict[str, list[str]]


def build(row: Row) -> tuple[Members, Members]:
    """Make the group before the event and after it; the same one for a row in every run."""
    chance = random.Random(f"{row.shape} {row.partitions} {row.members}")
    topic_count = _topics(row)
    topics = [f"topic-{index:05d}" for index in range(topic_count)]
    counts = _counts(row, topics)
    names = [f"member-{index:05d}" for index in range(row.members)]
    chance.shuffle(names)
    lists = [topics] if row.shape in ("uniform", "racks") else []
    before = {
        name: lists[0] if lists else _wanted(row, topics, index, row.members, chance)
        for index, name in enumerate(names)
    }
    _cover(topics, before, chance)
    after = dict(before)
    gone: list[str] = []
    if row.event in ("leave", "churn", "redraw"):
        # Whoever goes is drawn from all.
        gone = chance.sample(names, 1 if row.event == "leave" else max(1, row.members // 10))
        if row.event == "leave" and row.shape == "random":
            gone = chance.sample(names, max(1, row.members // 100))
        for name in gone:
            del after[name]
    if row.event in ("join", "churn", "redraw"):
        for index in range(len(gone) or 1):
            newcomer = f"newcomer-{index:05d}"
            if row.event == "churn" and row.shape in _PLACES:
                # Replaced: who comes takes the place of who goes.
                after[newcomer] = before[gone[index]]
            else:
                place = chance.randrange(row.members)
                after[newcomer] = (
                    lists[0] if lists else _wanted(row, topics, place, row.members, chance)
                )
    _cover(topics, after, chance)
    return Members(counts, before), Members(counts, after)


def replica_racks(row: Row, counts: dict[str, int]) -> dict[str, list[frozenset[str]]]:
    """Place two replicas of each partition in two of three racks, or in two drawn from a dozen."""
    if row.shape == "dozen":
        chance = random.Random(f"racks {row.partitions}")
        drawn = [frozenset(pair) for pair in combinations(_DOZEN, 2)]
        return {topic: chance.choices(drawn, k=count) for topic, count in counts.items()}
    if row.shape != "racks":
        return {}
    pairs = [frozenset("ab"), frozenset("bc"), frozenset("ca")]
    return {
        topic: [pairs[(number + index) % 3] for number in range(count)]
        for index, (topic, count) in enumerate(counts.items())
    }


def rack(row: Row, member: str) -> str | None:
    racks = {"racks": "abc", "dozen": _DOZEN}.get(row.shape)
    return racks[int(member[-5:]) % len(racks)] if racks else None


def _topics(row: Row) -> int:
    if row.shape in ("uniform", "racks"):
        return max(10, row.partitions // 1000)
    if row.shape == "chain":
        return row.members
    if row.shape == "sparse":
        return row.members // 8
    if row.shape == "many":
        return row.partitions
    if row.shape in ("sparser", "star"):
        return row.members // 2
    return max(20, row.partitions // 200) if row.partitions <= 100_000 else 1000


def _counts(row: Row, topics: list[str]) -> dict[str, int]:
    size, rest = divmod(row.partitions, len(topics))
    if row.shape == "star":
        # A tenth lies in the topic that everybody reads.
        hub = row.partitions // 10
        size, rest = divmod(row.partitions - hub, len(topics) - 1)
        return {topics[0]: hub} | {t: size + (i < rest) for i, t in enumerate(topics[1:])}
    return {topic: size + (index < rest) for index, topic in enumerate(topics)}


def _wanted(
    row: Row, topics: list[str], index: int, members: int, chance: random.Random
) -> list[str]:
    count = len(topics)
    if row.shape == "many":
        return sorted(chance.sample(topics, _WANTED_OF_MANY))
    if row.shape in ("random", "dozen"):
        return sorted(chance.sample(topics, chance.randint(count // 10, count // 2)))
    if row.shape == "chain":
        return [topics[index % count], topics[(index + 1) % count]][: 2 if index + 1 < count else 1]
    if row.shape in ("sparse", "sparser"):
        return sorted(chance.sample(topics, chance.randint(2, 5)))
    if row.shape == "star":
        return [topics[0], *chance.sample(topics[1:], 1)]
    if row.shape == "nested":
        return topics[: 1 + index * count // members]
    if row.shape == "tiers":
        return topics[: count * (1 + index % 5) // 5]
    assert row.shape == "clusters"
    size = count // 10
    start = index % 10 * size
    return topics[start : start + size]


def _cover(topics: list[str], members: dict[str, list[str]], chance: random.Random) -> None:
    """Give each topic without a reader to some member: every partition is to count."""
    missing = set(topics).difference(*map(set, members.values()))
    names = sorted(members)
    for topic in sorted(missing):
        name = chance.choice(names)
        members[name] = sorted({*members[name], topic})
