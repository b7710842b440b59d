"""Ask Connect's own assignors, in a Java program."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupsdk.connect.group.work import ClusterAssignment, Work
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.support.java import JavaProgram


PROGRAM = Path(__file__).parent / "java" / "ConnectAssignors.java"
COORDINATES = (
    "org.apache.kafka:connect-runtime:4.1.0",
    "com.fasterxml.jackson.core:jackson-databind:2.19.0",
)

Shares = dict[str, tuple[list[str], list[ConnectorTaskId], set[str], set[ConnectorTaskId]]]
"""By member: the connectors and tasks it gets, in order, and those that it loses."""


@dataclass(frozen=True)
class Round:
    """One question to an assignor."""

    now_ms: int
    last_completed_generation: int
    generation: int
    configured: Mapping[str, int]
    """Connectors with their number of tasks."""
    members: Mapping[str, Work]

    def work(self) -> Work:
        names = sorted(self.configured)
        return Work(
            tuple(names),
            tuple(
                ConnectorTaskId(name, number)
                for name in names
                for number in range(self.configured[name])
            ),
        )

    def json(self) -> dict[str, Any]:
        """The same for the Java program."""
        return {
            "now": self.now_ms,
            "last": self.last_completed_generation,
            "generation": self.generation,
            "configured": dict(self.configured),
            "members": [
                [member, list(work.connectors), [list(each) for each in work.tasks]]
                for member, work in self.members.items()
            ],
        }


def shares(given: ClusterAssignment) -> Shares:
    """Bring our answer into the form of theirs."""
    none = Work()
    return {
        member: (
            list(work.connectors),
            list(work.tasks),
            set(given.revoked.get(member, none).connectors),
            set(given.revoked.get(member, none).tasks),
        )
        for member, work in given.assigned.items()
    }


class KafkaAssignors:
    """The running program, with one incremental assignor at a time."""

    def __init__(self, program: JavaProgram) -> None:
        self._program = program

    def begin(self, max_delay_ms: int) -> None:
        """Make a new incremental assignor."""
        assert self._program.ask(json.dumps({"max_delay": max_delay_ms})) == '"ok"'

    def assign(self, question: Round) -> tuple[int, Shares]:
        """Run a round of the incremental assignor; returns the delay and the shares."""
        answer = json.loads(self._program.ask(json.dumps(question.json())))
        return answer["delay"], {
            member: (
                connectors,
                [ConnectorTaskId(*each) for each in tasks],
                set(lost_connectors),
                {ConnectorTaskId(*each) for each in lost_tasks},
            )
            for member, (connectors, tasks, lost_connectors, lost_tasks) in answer[
                "members"
            ].items()
        }

    def eager(
        self,
        leader: str,
        members: Mapping[str, bytes],
        snapshot: tuple[int, Mapping[str, int]],
        fresh: tuple[int, Mapping[str, int]],
    ) -> dict[str, bytes]:
        """Have the eager assignor share out, with the bytes of the wire.

        Args:
            members: what each has joined with.
            snapshot: the offset and the connectors, with their numbers of tasks, that the leader joined with.
        """
        question = {
            "eager": leader,
            "members": [[member, data.hex()] for member, data in members.items()],
            "snapshot": [snapshot[0], dict(snapshot[1])],
            "fresh": [fresh[0], dict(fresh[1])],
        }
        answer = json.loads(self._program.ask(json.dumps(question)))
        return {member: bytes.fromhex(data) for member, data in answer.items()}


@contextmanager
def kafka_assignors(*options: str) -> Iterator[KafkaAssignors]:
    """Run the program; `options` go to the Java runtime."""
    with JavaProgram(PROGRAM, COORDINATES, options=options) as program:
        yield KafkaAssignors(program)
