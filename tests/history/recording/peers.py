"""Consumers of five libraries, each in a process of its own that can be told what to do, or killed."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Protocol

from typing_extensions import override

from groupsdk.types import GroupMembershipOperation
from tests.support.java import JavaError, JavaProgram


POLL_S: Final = 0.05
_JOIN_S: Final = 15
_JAVA: Final = Path(__file__).parent / "java" / "Consuming.java"
_JARS: Final = ("org.apache.kafka:kafka-clients:4.3.1",)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a member joins with."""

    servers: str
    group: str
    client: str | None
    """None: the library's own."""
    topics: tuple[str, ...]
    assignor: str = "range"
    session_ms: int = 4_000
    commit_ms: int = 1_000
    """How often it commits by itself; 0: never."""
    instance: str | None = None
    protocol: str = "classic"
    poll_ms: int | None = None
    """`max.poll.interval.ms`; None: the library's default."""
    pause_s: float = 0.0
    """How long it works on what it has read, before it polls again."""


class Client(Protocol):
    """What all libraries can do, in one form."""

    def poll(self) -> None:
        """Read a little."""

    def subscribe(self, topics: Sequence[str]) -> None:
        """Want other topics."""

    def rejoin(self) -> None:
        """Ask for a rebalance, where the library can."""

    def close(self) -> None:
        """Leave the group, unless it is static."""


class Librdkafka:
    """A consumer of confluent-kafka."""

    def __init__(self, settings: Settings) -> None:
        from confluent_kafka import Consumer

        config: dict[str, Any] = {
            "bootstrap.servers": settings.servers,
            "group.id": settings.group,
            "enable.auto.commit": settings.commit_ms > 0,
            "auto.commit.interval.ms": settings.commit_ms or 1_000,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 1_000,
            "log_level": 0,
            **_given({"client.id": settings.client, "group.instance.id": settings.instance}),
        }
        if settings.poll_ms is not None:
            config["max.poll.interval.ms"] = settings.poll_ms
        if settings.protocol == "classic":
            config |= {
                "partition.assignment.strategy": settings.assignor,
                "session.timeout.ms": settings.session_ms,
                "heartbeat.interval.ms": 300,
            }
        else:
            config["group.protocol"] = settings.protocol
        self._consumer = Consumer(config)
        self.subscribe(settings.topics)

    def poll(self) -> None:
        """Read a little."""
        self._consumer.consume(500, POLL_S)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Want other topics."""
        self._consumer.subscribe(list(topics))

    def rejoin(self) -> None:
        """Do nothing: the library cannot."""

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


class KafkaPython:
    """A consumer of kafka-python."""

    def __init__(self, settings: Settings) -> None:
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        assignors = {
            "range": RangePartitionAssignor,
            "roundrobin": RoundRobinPartitionAssignor,
            "sticky": StickyPartitionAssignor,
            "cooperative-sticky": CooperativeStickyAssignor,
        }
        self._consumer = KafkaConsumer(
            *settings.topics,
            bootstrap_servers=settings.servers,
            group_id=settings.group,
            partition_assignment_strategy=[assignors[settings.assignor]],
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=300,
            enable_auto_commit=settings.commit_ms > 0,
            auto_commit_interval_ms=settings.commit_ms or 1_000,
            auto_offset_reset="earliest",
            metadata_max_age_ms=1_000,
            **_given({"client_id": settings.client, "group_instance_id": settings.instance}),
        )

    def poll(self) -> None:
        """Read a little."""
        self._consumer.poll(timeout_ms=int(POLL_S * 1000))

    def subscribe(self, topics: Sequence[str]) -> None:
        """Want other topics."""
        self._consumer.subscribe(topics=list(topics))

    def rejoin(self) -> None:
        """Do nothing: the library cannot."""

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


class Aiokafka:
    """A consumer of aiokafka."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.new_event_loop()
        self._consumer: Any = None
        self._loop.run_until_complete(self._start(settings))

    async def _start(self, settings: Settings) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        assignors = {
            "range": RangePartitionAssignor,
            "roundrobin": RoundRobinPartitionAssignor,
            "sticky": StickyPartitionAssignor,
        }
        self._consumer = AIOKafkaConsumer(
            *settings.topics,
            bootstrap_servers=settings.servers,
            group_id=settings.group,
            partition_assignment_strategy=(assignors[settings.assignor],),
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=300,
            enable_auto_commit=settings.commit_ms > 0,
            auto_commit_interval_ms=settings.commit_ms or 1_000,
            auto_offset_reset="earliest",
            metadata_max_age_ms=1_000,
            **_given({"client_id": settings.client, "group_instance_id": settings.instance}),
        )
        await self._consumer.start()

    def poll(self) -> None:
        """Read a little."""
        self._loop.run_until_complete(self._consumer.getmany(timeout_ms=int(POLL_S * 1000)))

    def subscribe(self, topics: Sequence[str]) -> None:
        """Want other topics."""

        async def run() -> None:
            self._consumer.subscribe(list(topics))

        self._loop.run_until_complete(run())

    def rejoin(self) -> None:
        """Do nothing: the library cannot."""

    def close(self) -> None:
        """Leave."""
        self._loop.run_until_complete(self._consumer.stop())


class Ours:
    """A `GroupConsumer`."""

    def __init__(self, settings: Settings) -> None:
        from groupsdk.consumer import GroupConsumer

        self._static = settings.instance is not None
        self._consumer = GroupConsumer(
            {
                "bootstrap.servers": settings.servers,
                "group.id": settings.group,
                "partition.assignment.strategy": settings.assignor,
                "session.timeout.ms": settings.session_ms,
                "heartbeat.interval.ms": 300,
                "enable.auto.commit": settings.commit_ms > 0,
                "auto.commit.interval.ms": settings.commit_ms or 1_000,
                "auto.offset.reset": "earliest",
                "metadata.max.age.ms": 1_000,
                **_given({"client.id": settings.client, "group.instance.id": settings.instance}),
            }
        )
        self.subscribe(settings.topics)

    def poll(self) -> None:
        """Read a little."""
        self._consumer.consume(500, POLL_S)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Want other topics."""
        self._consumer.subscribe(list(topics))

    def rejoin(self) -> None:
        """Ask for a rebalance."""
        self._consumer.enforce_rebalance("the recording wants it")

    def close(self) -> None:
        """Leave."""
        self._consumer.close(operation=GroupMembershipOperation.DEFAULT)


LIBRARIES: Final[Mapping[str, Callable[[Settings], Client]]] = {
    "librdkafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "ours": Ours,
}


def _given(settings: dict[str, str | None]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def serve(library: str, settings: Settings, orders: Connection) -> None:
    """Be a consumer until the order to close comes, or the one that gives the orders is gone."""
    client = LIBRARIES[library](settings)
    while True:
        with contextlib.suppress(OSError):
            client.poll()
        # an order ends the pause
        if not orders.poll(settings.pause_s):
            continue
        try:
            name, argument = orders.recv()
        except EOFError:
            os._exit(1)
        if name == "close":
            client.close()
            orders.send("closed")
            return
        if name == "subscribe":
            client.subscribe(argument)
        elif name == "work":
            # the process lives, and does not poll
            threading.Event().wait(argument)
        else:
            client.rejoin()


class Peer(Protocol):
    """A member in a process of its own."""

    def subscribe(self, topics: Sequence[str]) -> None:
        """Want other topics."""

    def rejoin(self) -> None:
        """Ask for a rebalance."""

    def work(self, seconds: float) -> None:
        """Work for so long without polling."""

    def close(self) -> None:
        """Leave, and end."""

    def kill(self) -> None:
        """End at once, and say nothing."""

    def freeze(self) -> None:
        """Stop the process as it stands."""

    def thaw(self) -> None:
        """Let it go on."""


class PythonPeer(Peer):
    """A member of one of the Python libraries."""

    def __init__(self, library: str, settings: Settings) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload([__name__, "confluent_kafka", "kafka", "aiokafka"])
        self._orders, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(library, settings, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @override
    def subscribe(self, topics: Sequence[str]) -> None:
        self._orders.send(("subscribe", tuple(topics)))

    @override
    def rejoin(self) -> None:
        self._orders.send(("rejoin", None))

    @override
    def work(self, seconds: float) -> None:
        self._orders.send(("work", seconds))

    @override
    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._orders.send(("close", None))
            if self._orders.poll(_JOIN_S):
                self._orders.recv()
        self.kill()

    @override
    def kill(self) -> None:
        self._process.kill()
        self._process.join(_JOIN_S)

    @override
    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    @override
    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)


class JavaPeer(Peer):
    """A member of Kafka's own client."""

    def __init__(self, settings: Settings) -> None:
        assignors = "org.apache.kafka.clients.consumer."
        names = {
            "range": "RangeAssignor",
            "roundrobin": "RoundRobinAssignor",
            "sticky": "StickyAssignor",
            "cooperative-sticky": "CooperativeStickyAssignor",
        }
        config: dict[str, Any] = {
            "bootstrap.servers": settings.servers,
            "group.id": settings.group,
            "enable.auto.commit": str(settings.commit_ms > 0).lower(),
            "auto.commit.interval.ms": settings.commit_ms or 1_000,
            "auto.offset.reset": "earliest",
            "metadata.max.age.ms": 1_000,
            **_given({"client.id": settings.client, "group.instance.id": settings.instance}),
        }
        if settings.poll_ms is not None:
            config["max.poll.interval.ms"] = settings.poll_ms
        if settings.protocol == "classic":
            config |= {
                "partition.assignment.strategy": assignors + names[settings.assignor],
                "session.timeout.ms": settings.session_ms,
                "heartbeat.interval.ms": 300,
            }
        else:
            config["group.protocol"] = settings.protocol
        arguments = [f"{name}={value}" for name, value in config.items()]
        self._program = JavaProgram(_JAVA, _JARS, arguments=[*arguments, ",".join(settings.topics)])
        self._program.__enter__()
        self._ended = False

    @override
    def subscribe(self, topics: Sequence[str]) -> None:
        self._program.send("subscribe " + ",".join(topics))

    @override
    def rejoin(self) -> None:
        self._program.send("rejoin")

    @override
    def work(self, seconds: float) -> None:
        self._program.send(f"work {round(1000 * seconds)}")

    @override
    def close(self) -> None:
        with contextlib.suppress(JavaError):
            self._program.send("close")
            while self._program.receive() != "closed":
                pass
        self.kill()

    @override
    def kill(self) -> None:
        if not self._ended:
            self._ended = True
            self._program.__exit__(None, None, None)

    @override
    def freeze(self) -> None:
        os.kill(self._program.pid, signal.SIGSTOP)

    @override
    def thaw(self) -> None:
        os.kill(self._program.pid, signal.SIGCONT)


def start(library: str, settings: Settings) -> Peer:
    """Start a member of a library: one of `LIBRARIES`, or "java"."""
    return JavaPeer(settings) if library == "java" else PythonPeer(library, settings)
