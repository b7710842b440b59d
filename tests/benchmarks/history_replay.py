"""Measure the history's what-if: `python -m tests.benchmarks --only history_replay`.

Three assignors are taken through the generations of groups of eight members, one of which is replaced each time,
beside what happened; in this process, without Spark.
"""

import time
from collections.abc import Iterator
from typing import Final

from groupsdk.history.explain.assignor_replay import PastGeneration, ReplayedMember
from tests.benchmarks.report import Result, load
from tests.history.explain.timelines import replay


MEMBERS: Final = 8
PARTITIONS: Final = (40, 320)
"""Of a generation: five for each member, and forty."""
GENERATIONS: Final = 250
"""Of a group."""
ASSIGNORS: Final = ("range", "roundrobin", "sticky")
AIM: Final = 3_000
ROUNDS: Final = 5
_TOPIC: Final = "topic"


def generations(groups: int, partitions: int) -> Iterator[PastGeneration]:
    """Make the history of some groups."""
    size = partitions // MEMBERS
    topics = (_TOPIC,)
    for group in range(groups):
        for number in range(1, GENERATIONS + 1):
            gone = number % MEMBERS
            members = [
                ReplayedMember(
                    f"member-{place}-{number if place == gone else 0:08}",
                    None,
                    topics,
                    None,
                    ((_TOPIC, tuple(range(size * place, size * (place + 1)))),),
                )
                for place in range(MEMBERS)
            ]
            yield PastGeneration(f"group-{group}", number - 1, number, False, members)


def rate(past: list[PastGeneration], assignors: tuple[str, ...]) -> float:
    """Return generations a CPU second, of the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = time.process_time()
        rows = sum(1 for _ in replay(past, assignors))
        best = min(best, time.process_time() - before)
        assert rows == len(past) * (1 + len(assignors))
    return len(past) / best


def run(_arguments: list[str], *, quick: bool) -> Result:
    result = Result(
        "history_replay",
        "History: what other assignors would have made of a group, generations a CPU second",
        ["members x partitions", *(f"{each} alone" for each in ASSIGNORS), "all three"],
    )
    groups = 4 if quick else 40
    for partitions in PARTITIONS:
        past = list(generations(groups, partitions))
        rates = [rate(past, (each,)) for each in ASSIGNORS]
        together = rate(past, ASSIGNORS)
        result.rows.append(
            (
                f"{MEMBERS} x {partitions}",
                *(f"{each:,.0f}" for each in rates),
                f"{together:,.0f}",
            )
        )
        if partitions == PARTITIONS[0] and together < AIM:
            result.behind.append(f"{together:,.0f} for three assignors, the aim is {AIM:,}")
    result.notes.append(
        f"{groups} groups of {GENERATIONS} generations, of which each replaces a member; what"
        f" happened is measured beside it. The best of {ROUNDS} rounds; the load average was"
        f" {load()}. No peer does it."
    )
    result.raw = result.rows
    return result
