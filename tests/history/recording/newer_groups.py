"""Record share and streams groups (KIP-932, KIP-1071), and groups that commit in transactions only.

`python -m tests.history.recording.newer_groups DIRECTORY [VERSION]`

Starts a real broker and plays one scene for each group with Java's clients: members join, leave, are killed, start again
under their name, are stopped until they are fenced, and want other topics. DIRECTORY gets what the broker wrote, `segments`
and `coordinator-log.txt`, and `deeds.txt`, what was done when.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka.cimpl import NewPartitions

from tests.history.recording.record import Deeds, recorded, sleep, topics_with_records
from tests.support.java import JavaError, JavaProgram


VERSION: Final = "4.3.1"
"""Of the clients, and of the broker unless another one is given."""
SESSION_S: Final = 5.0
_JAVA: Final = Path(__file__).parent / "java"
_PROPERTIES: Final = {
    "offsets.topic.num.partitions": "2",
    "log.cleaner.enable": "false",
    **{
        f"group.{protocol}.{name}": value
        for protocol in ("share", "streams", "consumer")
        for name, value in (
            ("session.timeout.ms", str(int(SESSION_S * 1000))),
            ("min.session.timeout.ms", "1000"),
            ("heartbeat.interval.ms", "1000"),
            ("min.heartbeat.interval.ms", "300"),
        )
    },
    "group.streams.initial.rebalance.delay.ms": "300",
}
_WORK_S: Final = 3.0
SHARE: Final = "share"
STREAMS: Final = "streams"
EXACTLY_ONCE: Final = "streams, exactly once"
PAYING: Final = "consumer, in transactions"
_TOPICS: Final = {
    SHARE: "orders",
    # growing an input of an application whose repartition topics exist ends it
    STREAMS: "events",
    EXACTLY_ONCE: "events",
    PAYING: "orders,events",
}


@dataclass
class Stage:
    """One group, and what its scene may do to it."""

    group: str
    kind: str
    servers: str
    deeds: Deeds
    scratch: Path
    there: dict[str, JavaProgram] = field(default_factory=dict)

    def join(self, name: str, topics: str | None = None) -> None:
        """Let a member come."""
        self.deeds.tell(self.group, f"join ({self.kind})", name)
        self._start(name, topics)
        sleep(_WORK_S)

    def leave(self, name: str) -> None:
        """Let a member leave."""
        self.deeds.tell(self.group, "leave", name)
        self._close(name)
        sleep(_WORK_S)

    def kill(self, name: str) -> None:
        """Kill a member, and wait until its session is over."""
        self.deeds.tell(self.group, "kill", name)
        self.there.pop(name).__exit__(None, None, None)
        sleep(SESSION_S + _WORK_S)

    def restart(self, name: str) -> None:
        """Let a member leave, and come again."""
        self.deeds.tell(self.group, "restart", name)
        self._close(name)
        self._start(name)
        sleep(_WORK_S)

    def freeze(self, name: str) -> None:
        """Stop a member until its session is over, and let it come back."""
        self.deeds.tell(self.group, "freeze", name)
        os.kill(self.there[name].pid, signal.SIGSTOP)
        sleep(SESSION_S + _WORK_S)
        self.deeds.tell(self.group, "thaw", name)
        os.kill(self.there[name].pid, signal.SIGCONT)
        sleep(_WORK_S)

    def subscribe(self, name: str, topics: str) -> None:
        """Let a member want other topics."""
        self.deeds.tell(self.group, f"subscribe to {topics}", name)
        self.there[name].send(f"subscribe {topics}")
        sleep(_WORK_S)

    def close(self) -> None:
        """Let all leave, one after the other."""
        for name in [*self.there]:
            self.leave(name)

    def _close(self, name: str) -> None:
        program = self.there.pop(name)
        with contextlib.suppress(JavaError):
            program.send("close")
            while program.receive() != "closed":
                pass
        program.__exit__(None, None, None)

    def _start(self, name: str, topics: str | None = None) -> None:
        config = {"bootstrap.servers": self.servers, "client.id": name}
        if self.kind == SHARE:
            config |= {"group.id": self.group}
            source, jar = "Sharing.java", "kafka-clients"
        elif self.kind == PAYING:
            config |= {
                "group.id": self.group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "transactional.id": f"{self.group}-{name}",
            }
            source, jar = "Paying.java", "kafka-clients"
        else:
            config |= {
                "application.id": self.group,
                "group.protocol": "streams",
                "state.dir": str(self.scratch / f"{self.group}-{name}"),
                "commit.interval.ms": "1000",
                "consumer.auto.offset.reset": "earliest",
                "num.stream.threads": "1",
                "producer.transaction.timeout.ms": "5000",
            }
            if self.kind == EXACTLY_ONCE:
                config["processing.guarantee"] = "exactly_once_v2"
            source, jar = "Streaming.java", "kafka-streams"
        arguments = [*(f"{key}={value}" for key, value in config.items())]
        arguments.append(topics or _TOPICS[self.kind])
        coordinates = (f"org.apache.kafka:{jar}:{VERSION}",)
        program = JavaProgram(_JAVA / source, coordinates, arguments=arguments)
        self.there[name] = program.__enter__()
        while program.receive() != "ready":
            pass


def share(stage: Stage) -> None:
    """Share topics."""
    stage.join("shop-1")
    stage.join("shop-2")
    stage.leave("shop-2")
    stage.join("shop-3", "orders,events")
    stage.kill("shop-3")
    stage.join("shop-4")
    stage.restart("shop-4")
    stage.subscribe("shop-1", "events,orders")
    stage.freeze("shop-4")
    stage.kill("shop-4")
    stage.join("shop-4")
    stage.close()


def share_restlessly(stage: Stage) -> None:
    """Share topics among three, of which some go at once."""
    for name in ("a", "b", "c"):
        stage.join(name, "orders,events")
    stage.freeze("b")
    stage.restart("c")
    stage.leave("c")
    stage.kill("b")
    stage.join("b")
    stage.close()


def stream(stage: Stage) -> None:
    """Count, in up to three instances."""
    stage.join("count-1")
    stage.join("count-2")
    stage.join("count-3")
    stage.leave("count-3")
    stage.kill("count-2")
    stage.join("count-2")
    stage.restart("count-2")
    stage.freeze("count-2")
    stage.close()


SCENES: Final[dict[str, tuple[str, Callable[[Stage], None]]]] = {
    "sharing": (SHARE, share),
    "sharing-more": (SHARE, share_restlessly),
    "counting": (STREAMS, stream),
    "counting-once": (EXACTLY_ONCE, stream),
    "paying-modern": (PAYING, stream),
}


def record(out: Path, version: str) -> None:
    """Make the log."""
    with recorded(out, _PROPERTIES, version) as (kafka, deeds):
        servers = kafka.bootstrap_servers
        stages = [
            (Stage(name, kind, servers, deeds, out / "state"), scene)
            for name, (kind, scene) in SCENES.items()
        ]
        threads = [threading.Thread(target=scene, args=(stage,)) for stage, scene in stages]
        with topics_with_records(servers) as admin:
            for thread in threads:
                thread.start()
                sleep(1.0)
            sleep(20.0)
            deeds.tell("", "grow orders to 8")
            admin.create_partitions([NewPartitions("orders", 8)])["orders"].result(30)
            for thread in threads:
                thread.join()
        sleep(SESSION_S + 1)


def main() -> None:
    """Take the arguments."""
    out, *rest = sys.argv[1:]
    record(Path(out).resolve(), *rest or [VERSION])


if __name__ == "__main__":
    main()
