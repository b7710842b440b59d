"""Ask Kafka's own assignors, in a Java program."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from groupsdk.assignment import GroupAssignment
from tests.support.java import JavaProgram


RELEASES = ("4.1.0", "4.4.0")
"""The releases of kafka-clients to compare with."""

PROGRAM = Path(__file__).parent / "java" / "KafkaAssignors.java"

Listed = dict[str, list[tuple[str, int]]]
"""What each member got, in order."""


def listed(assignment: GroupAssignment) -> Listed:
    """Write an assignment out as Kafka's lists."""
    return {
        member_id: [(each.topic, each.partition) for each in share]
        for member_id, share in assignment.items()
    }


def coordinates(release: str) -> list[str]:
    """Name the jars that the program needs."""
    return [
        f"org.apache.kafka:kafka-clients:{release}",
        "com.fasterxml.jackson.core:jackson-databind:2.19.0",
    ]


class KafkaAssignors:
    """The running program."""

    def __init__(self, program: JavaProgram) -> None:
        self._program = program

    def assign(self, question: dict[str, Any]) -> Listed:
        """Share out."""
        answer = json.loads(self._program.ask(json.dumps(question)))
        return {member: [(topic, p) for topic, p in share] for member, share in answer.items()}

    def cpu_ns(self, question: dict[str, Any], rounds: int, timeout_ms: int) -> Sequence[int]:
        """Share out several times and return the CPU time of each."""
        line = json.dumps(question | {"rounds": rounds})
        times: list[int] = json.loads(self._program.ask(line, timeout_ms))
        return times


@contextmanager
def kafka_assignors(release: str, *options: str) -> Iterator[KafkaAssignors]:
    """Run the program with the classes of one release; `options` go to the Java runtime."""
    with JavaProgram(PROGRAM, coordinates(release), options=options) as program:
        yield KafkaAssignors(program)
