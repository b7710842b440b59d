"""Name the clients that are measured, and run their members: `python -m tests.benchmarks.clients CLIENT`.

The process answers each line of JSON with another one; `tests.benchmarks.processes` is the other side. Nothing here imports
a client before it is told to, so that the memory of a process without one can be counted.
"""

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Literal

from typing_extensions import override

from tests.benchmarks.members import LoopMembers, Members, Settings, ThreadedMembers


class GroupsdkThreads(ThreadedMembers):
    """groupsdk, with a thread for each caller."""

    heartbeat: Literal["thread", "process"] = "thread"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        from groupsdk import AbstractCoordinator

        self._member_class = _noting(AbstractCoordinator, self.note_taken)

    @override
    def open(self, index: int) -> Any:
        member = self._member_class(
            _groupsdk_settings(self.settings, index), heartbeat=self.heartbeat
        )
        member.index = index
        return member

    @override
    def poll(self, member: Any) -> None:
        member.poll(self.settings.poll_s)


class GroupsdkProcess(GroupsdkThreads):
    """groupsdk, with the member's engine in a child process."""

    heartbeat = "process"


class GroupsdkAio(LoopMembers):
    """groupsdk on asyncio."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        from groupsdk import AsyncAbstractCoordinator

        self._member_class = _noting(AsyncAbstractCoordinator, self.note_taken)

    @override
    async def open(self, index: int) -> Any:
        member = self._member_class(_groupsdk_settings(self.settings, index))
        member.index = index
        return member

    @override
    async def poll(self, member: Any) -> None:
        await member.poll(self.settings.poll_s)

    @override
    async def close_member(self, member: Any) -> None:
        await member.close()


class KafkaPython(ThreadedMembers):
    """kafka-python's consumer, a thread for each."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        import kafka

        self._kafka = kafka

    @override
    def open(self, index: int) -> Any:
        consumer = self._kafka.KafkaConsumer(**_keywords(self.settings, index))
        listener = _pausing(self._kafka, consumer, partial(self.note_taken, index))
        consumer.subscribe([self.settings.topic], listener=listener)
        return consumer

    @override
    def poll(self, member: Any) -> None:
        member.poll(timeout_ms=int(self.settings.poll_s * 1000))


class Aiokafka(LoopMembers):
    """aiokafka's consumer, all on one loop."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        import aiokafka

        self._aiokafka = aiokafka

    @override
    async def open(self, index: int) -> Any:
        consumer = self._aiokafka.AIOKafkaConsumer(**_keywords(self.settings, index))
        listener = _pausing(self._aiokafka, consumer, partial(self.note_taken, index))
        consumer.subscribe([self.settings.topic], listener=listener)
        await consumer.start()
        return consumer

    @override
    async def poll(self, member: Any) -> None:
        await member.getmany(timeout_ms=int(self.settings.poll_s * 1000))

    @override
    async def close_member(self, member: Any) -> None:
        await asyncio.wait_for(member.stop(), 15)


class Confluent(ThreadedMembers):
    """confluent-kafka's consumer, a thread for each."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        import confluent_kafka

        self._confluent_kafka = confluent_kafka

    @override
    def open(self, index: int) -> Any:
        settings = self.settings
        consumer = self._confluent_kafka.Consumer(
            {
                "bootstrap.servers": settings.bootstrap_servers,
                "group.id": settings.group_of(index),
                "session.timeout.ms": settings.session_timeout_ms,
                "heartbeat.interval.ms": settings.heartbeat_interval_ms,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )

        def on_assign(consumer: Any, partitions: Any) -> None:
            self.note_taken(index)
            consumer.assign(partitions)
            consumer.pause(partitions)

        consumer.subscribe([settings.topic], on_assign=on_assign)
        return consumer

    @override
    def poll(self, member: Any) -> None:
        member.poll(self.settings.poll_s)


CLIENTS: Final[dict[str, type[Members]]] = {
    "groupsdk": GroupsdkThreads,
    "groupsdk process": GroupsdkProcess,
    "groupsdk asyncio": GroupsdkAio,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "confluent-kafka": Confluent,
}
"""How each client is run, by the name in the tables."""

PEERS: Final = ("kafka-python", "aiokafka", "confluent-kafka")


def _groupsdk_settings(settings: Settings, index: int) -> dict[str, Any]:
    return {
        "bootstrap.servers": settings.bootstrap_servers,
        "group.id": settings.group_of(index),
        "session.timeout.ms": settings.session_timeout_ms,
        "heartbeat.interval.ms": settings.heartbeat_interval_ms,
    }


def _keywords(settings: Settings, index: int) -> dict[str, Any]:
    """Return the settings of kafka-python and aiokafka."""
    given = _groupsdk_settings(settings, index) | {"enable.auto.commit": False}
    return {name.replace(".", "_"): value for name, value in given.items()}


def _pausing(library: Any, consumer: Any, note_taken: Callable[[], None]) -> Any:
    """Return a listener of kafka-python or aiokafka that notes assignments, and reads nothing."""

    class Listener(library.ConsumerRebalanceListener):  # type: ignore[misc]  # untyped base
        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        def on_partitions_assigned(self, assigned: Any) -> None:
            note_taken()
            consumer.pause(*assigned)

    return Listener()


def _noting(base: type[Any], note_taken: Callable[[int], None]) -> type[Any]:
    """Return a member for threads or asyncio that only notes its assignments."""

    class Member(base):  # type: ignore[misc]  # one of the two bases
        protocol_type = "benchmark"
        index = 0

        def metadata(self) -> list[tuple[str, bytes]]:
            return [("v0", b"")]

        def perform_assignment(
            self, leader_id: str, protocol: str, members: Mapping[str, bytes]
        ) -> dict[str, bytes]:
            return dict.fromkeys(members, b"an item or two")

        def on_join_complete(
            self, generation: int, member_id: str, protocol: str, assignment: bytes
        ) -> None:
            note_taken(self.index)

    return Member


class _Service:
    """What the process does for the `Worker` that started it."""

    def __init__(self, client: str) -> None:
        self._client = client
        self._members: Members | None = None
        self._began = 0.0

    @property
    def members(self) -> Members:
        if self._members is None:
            raise RuntimeError("open comes first")
        return self._members

    def ready(self) -> dict[str, Any]:
        return {}

    def open(self, **settings: Any) -> dict[str, Any]:
        self._members = CLIENTS[self._client](Settings(**settings))
        return {}

    def start(self, first: int, count: int, gap_s: float = 0.0) -> dict[str, Any]:
        self._began = time.perf_counter()
        for index in range(first, first + count):
            due_s = self._began + (index - first) * gap_s - time.perf_counter()
            if due_s > 0:
                time.sleep(due_s)
            self.members.start(index)
        return {}

    def taken(self) -> dict[str, Any]:
        """Return for each member the seconds from the start to its last assignment, and how old that is."""
        last = dict(self.members.taken.copy())
        now = time.perf_counter()
        return {
            "members": len(last),
            "after_s": {index: at - self._began for index, at in last.items()},
            "quiet_s": now - max(last.values(), default=now),
            "left_s": {index: at - self._began for index, at in self.members.left.items()},
        }

    def leave(self, index: int) -> dict[str, Any]:
        self.members.leave(index)
        return {}

    def occupy(self, how: str, seconds: float) -> dict[str, Any]:
        self.members.occupy(0, how, seconds)
        return {}

    def close(self) -> dict[str, Any]:
        self.members.close()
        return {}


def main() -> None:
    """Answer one line for each line that is read."""
    logging.disable(logging.CRITICAL)
    service = _Service(sys.argv[1])
    # What a library prints must not end up among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        what = request.pop("do")
        answer = getattr(service, what)(**request)
        answer["errors"] = service.members.errors if what not in ("ready", "close") else []
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if what == "close":
            os._exit(0)


if __name__ == "__main__":
    main()
