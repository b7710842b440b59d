"""Members of groups, of each client, that a test steers the same way: they join, say what they own, and leave.

Run as a program (`python -m tests.clients.steered BOOTSTRAP_SERVERS KIND`) it does as tests/clients/java/Members.java.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer

from groupsdk.consumer import GroupConsumer


ROOT = Path(__file__).parents[2]
_POLL_S = 0.02


class Member(Protocol):
    """A member of a group for one topic."""

    def owned(self) -> set[int]:
        """Returns the partitions that it has."""

    def leave(self) -> None:
        """Leaves the group in good order."""


class _Polled:
    """A consumer in this process, polled by a thread of its own."""

    def __init__(self, consumer: Any, topic: str) -> None:
        consumer.subscribe([topic])
        self._consumer = consumer
        self._leaves = threading.Event()
        self._owned: set[int] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._leaves.is_set():
            self._consumer.poll(_POLL_S)
            self._owned = {each.partition for each in self._consumer.assignment()}
        self._consumer.close()

    def owned(self) -> set[int]:
        """Returns the partitions that it has."""
        return self._owned

    def leave(self) -> None:
        """Leaves the group in good order."""
        self._leaves.set()
        self._thread.join()


def _settings(servers: str, protocol: str, group_id: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": group_id,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if protocol == "classic":
        settings |= {
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 30_000,
            "partition.assignment.strategy": "range",
        }
    return settings


def librdkafka(servers: str, protocol: str, topic: str, group_id: str) -> Member:
    """Returns a member of confluent-kafka that joins."""
    settings = _settings(servers, protocol, group_id)
    return _Polled(Consumer({**settings, "topic.metadata.refresh.interval.ms": 500}), topic)


def ours(servers: str, protocol: str, topic: str, group_id: str) -> Member:
    """Returns a member of this library that joins."""
    return _Polled(GroupConsumer(_settings(servers, protocol, group_id)), topic)


class Asked(Protocol):
    """A program that answers each line with a line."""

    def ask(self, line: str) -> str:
        """Sends a line and returns the answer."""


class Remote:
    """A member in another program."""

    def __init__(self, program: Asked, name: str, protocol: str, topic: str, group_id: str) -> None:
        self._program = program
        self._name = name
        self._do(f"join {name} {protocol} {topic} {group_id}")

    def _do(self, step: str) -> None:
        said = self._program.ask(f"member {step}")
        assert said == "ok", said

    def owned(self) -> set[int]:
        """Returns the partitions that it has."""
        said = self._program.ask(f"member owned {self._name}")
        return set() if said == "-" else {int(each) for each in said.split(",")}

    def leave(self) -> None:
        """Leaves the group in good order."""
        self._do(f"leave {self._name}")


def main(servers: str, kind: str) -> None:
    """Steers members of one kind by the lines of the input."""
    makers: dict[str, Callable[..., Member]] = {"librdkafka": librdkafka, "ours": ours}
    members: dict[str, Member] = {}
    for line in sys.stdin:
        _, step, name, *rest = line.split()
        said = "ok"
        if step == "join":
            members[name] = makers[kind](servers, *rest)
        elif step == "owned":
            said = ",".join(map(str, sorted(members[name].owned()))) or "-"
        else:
            members.pop(name).leave()
        print(said, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
