"""Time one round of the incremental assignor beside Kafka Connect's own class, and count what both move.

`python -m tests.benchmarks.connect_assignor` prints a table; it needs a JDK and Maven. CPU milliseconds of one
round alone, without reading or writing bytes, each with an assignor that has seen the rounds before: the median,
and the least and the most. Kafka's class runs in a Java runtime with all its compilers and is warm: its first
rounds, which take it many times as long, are left out.
"""

import argparse
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from assignors.subscribers import java_map_order
from groupsdk.connect.group.assignors import IncrementalCooperativeAssignor
from groupsdk.connect.group.work import ClusterAssignment, Work
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.benchmarks.report import Result, spread
from tests.connect.kafka_assignor import (
    KafkaAssignors,
    Round,
    kafka_assignors,
    shares,
)


_DELAY_MS = 300_000
_CONNECTORS = 100
_TIMEOUT_MS = 600_000
_WARM_ROUNDS = 60

Weights = Mapping[ConnectorTaskId, int]


@dataclass(frozen=True)
class Case:
    """A group whose last round is measured."""

    name: str
    steps: list[Round]


def _answer(
    assignor: IncrementalCooperativeAssignor, question: Round, weights: Weights | None = None
) -> ClusterAssignment:
    return assignor.assign(
        question.work(),
        question.members,
        last_completed_generation=question.last_completed_generation,
        generation=question.generation,
        now_ms=question.now_ms,
        weights=weights,
    )


def _held(question: Round, given: ClusterAssignment) -> dict[str, Work]:
    none = Work()
    return {
        member: held.minus(given.revoked.get(member, none)).plus(given.assigned[member])
        for member, held in question.members.items()
    }


def cases(tasks: int, workers: int) -> list[Case]:
    """Build the groups: empty, at rest, one that a worker joined, one that a worker left for good."""
    configured = {f"connector-{n:03}": tasks // _CONNECTORS for n in range(_CONNECTORS)}
    names = [f"worker-{n:03}" for n in range(workers)]
    assignor = IncrementalCooperativeAssignor(_DELAY_MS, java_map_order)
    first = Round(1, 0, 1, configured, dict.fromkeys(names, Work()))
    held = _held(first, _answer(assignor, first))
    one_less = {name: work for name, work in held.items() if name != names[7]}
    missed = Round(3, 1, 2, configured, one_less)
    return [
        Case("first round", [first]),
        Case("nothing changed", [first, Round(2, 1, 2, configured, held)]),
        Case("one joined", [first, Round(2, 1, 2, configured, {**held, "newcomer": Work()})]),
        Case("one left", [first, missed]),
        Case(
            "its delay is over", [first, missed, Round(3 + _DELAY_MS, 2, 3, configured, one_less)]
        ),
    ]


def weighted_cases(tasks: int, workers: int) -> list[tuple[Case, Weights]]:
    """Build the groups whose tasks weigh differently: empty, and one that a worker joined."""
    configured = {f"connector-{n:03}": tasks // _CONNECTORS for n in range(_CONNECTORS)}
    names = [f"worker-{n:03}" for n in range(workers)]
    first = Round(1, 0, 1, configured, dict.fromkeys(names, Work()))
    chance = Random(7)
    weights = {task: chance.randint(1, 100_000) for task in first.work().tasks}
    held = _held(first, _answer(IncrementalCooperativeAssignor(_DELAY_MS), first, weights))
    joined = Round(2, 1, 2, configured, {**held, "newcomer": Work()})
    return [
        (Case("first round, by weight", [first]), weights),
        (Case("one joined, by weight", [first, joined]), weights),
    ]


def _ours(case: Case, rounds: int, weights: Weights | None = None) -> list[int]:
    times = []
    for _ in range(rounds):
        assignor = IncrementalCooperativeAssignor(_DELAY_MS)
        for step in case.steps[:-1]:
            _answer(assignor, step, weights)
        last = case.steps[-1]
        work = last.work()
        start = time.thread_time_ns()
        assignor.assign(
            work,
            last.members,
            last_completed_generation=last.last_completed_generation,
            generation=last.generation,
            now_ms=last.now_ms,
            weights=weights,
        )
        times.append(time.thread_time_ns() - start)
    return times


def _same(case: Case, theirs: KafkaAssignors) -> tuple[bool, int]:
    """Compare the answers to all steps; returns whether they are the same, and the moves of the last."""
    assignor = IncrementalCooperativeAssignor(_DELAY_MS, java_map_order)
    theirs.begin(_DELAY_MS)
    same, moves = True, 0
    for step in case.steps:
        given = _answer(assignor, step)
        same = same and (given.delay_ms, shares(given)) == theirs.assign(step)
        moves = sum(map(len, given.revoked.values()))
    return same, moves


def run(*, rounds: int = 15, tasks: int = 10_000, workers: int = 100) -> Result:
    result = Result(
        "connect_assignor",
        f"Connect's incremental assignor, {tasks:,} tasks on {workers} workers: CPU ms of one round",
        ["round", "groupsdk", "Kafka 4.1.0", "revoked", "same as Kafka's"],
        notes=["Median (least to most) of one round without reading or writing bytes."],
        raw={},
    )
    with kafka_assignors("-XX:TieredStopAtLevel=4", "-Xmx1g") as theirs:
        for case in cases(tasks, workers):
            same, moves = _same(case, theirs)
            ours_ms = [each / 1e6 for each in _ours(case, rounds)]
            theirs_ns = theirs.cpu_ns(_DELAY_MS, case.steps, _WARM_ROUNDS + rounds, _TIMEOUT_MS)
            theirs_ms = [each / 1e6 for each in theirs_ns[_WARM_ROUNDS:]]
            result.rows.append(
                [case.name, spread(ours_ms), spread(theirs_ms), f"{moves:,}", str(same)]
            )
            result.raw[case.name] = [ours_ms, theirs_ms, moves, same]
            if statistics.median(ours_ms) > statistics.median(theirs_ms) or not same:
                result.behind.append(case.name)
    for case, weights in weighted_cases(tasks, workers):
        ours_ms = [each / 1e6 for each in _ours(case, rounds, weights)]
        assignor = IncrementalCooperativeAssignor(_DELAY_MS)
        given = [_answer(assignor, step, weights) for step in case.steps][-1]
        moves = sum(map(len, given.revoked.values()))
        result.rows.append([case.name, spread(ours_ms), "-", f"{moves:,}", "-"])
        result.raw[case.name] = [ours_ms, moves]
    return result.finish()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    run(rounds=parser.parse_args().rounds)
