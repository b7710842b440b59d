"""Record scenes whose truth is known: `python -m tests.history.recording.scenes DIRECTORY`.

Starts a real broker and plays one scene for each group, with librdkafka: groups that go online from the classic to the
consumer protocol and back, clients that come and go under a new name each time, members that leave and members that
are killed, and groups that nothing happens to but a restart of the broker. DIRECTORY gets what the broker wrote,
`segments` and `coordinator-log.txt`, and `deeds.txt`, what was done when.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.history.recording.peers import Peer, Settings, start
from tests.history.recording.record import (
    Deeds,
    recorded,
    settle,
    sleep,
    together,
    topics_with_records,
)


SESSION_MS: Final = 6_000
"""Of members of the consumer protocol: the broker's setting, which is not Kafka's default."""
_PROPERTIES: Final = {
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "300",
}
_WORK_S: Final = 2.5
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


@dataclass
class Stage:
    """One group, and what its scene may do to it."""

    group: str
    servers: str
    deeds: Deeds
    static: bool = False
    named: bool = True
    there: dict[str, Peer] = field(default_factory=dict)

    def join(self, name: str, protocol: str = CLASSIC) -> None:
        """Let a member come, and wait until the group has settled."""
        self.deeds.tell(self.group, f"join ({protocol})", name)
        settings = Settings(
            self.servers,
            self.group,
            name if self.named else None,
            ("orders",),
            session_ms=SESSION_MS,
            instance=f"i-{name}" if self.static else None,
            protocol=protocol,
        )
        self.there[name] = start("librdkafka", settings)
        self.settle()

    def leave(self, name: str) -> None:
        """Let a member leave; a static one does not say so."""
        self.deeds.tell(self.group, "leave", name)
        self.there.pop(name).close()
        if not self.static:
            self.settle()

    def kill(self, name: str) -> None:
        """Kill a member, and wait until the group goes on without it."""
        self.deeds.tell(self.group, "kill", name)
        self.there.pop(name).kill()
        self.settle()

    def freeze(self, name: str) -> None:
        """Stop a member until the group goes on without it, and let it come back."""
        self.deeds.tell(self.group, "freeze", name)
        peer = self.there.pop(name)
        peer.freeze()
        self.settle()
        self.deeds.tell(self.group, "thaw", name)
        peer.thaw()
        self.there[name] = peer
        self.settle()

    def hinder(self, name: str, deed: Callable[[], None]) -> None:
        """Do something while a member is stopped for half of its session, which it survives."""
        self.deeds.tell(self.group, "stop for a while", name)
        peer = self.there[name]
        peer.freeze()
        thaw = threading.Timer(SESSION_MS / 2000, peer.thaw)
        thaw.start()
        try:
            deed()
        finally:
            thaw.join()

    def settle(self) -> None:
        """Wait until the group has the members that it should have, and let them work a little."""
        if not settle(self.servers, self.group, len(self.there)):
            # a client may be lost over a restart: the broker's log tells what became of it
            self.deeds.tell(self.group, f"not settled with {sorted(self.there)}")
        sleep(_WORK_S)

    def close(self) -> None:
        """Let all leave, one after the other."""
        for name in [*self.there]:
            self.deeds.tell(self.group, "leave", name)
            self.there.pop(name).close()


Scene = Callable[[Stage], Iterator[None]]
"""Plays up to where the broker is to be started again, yields, and plays on."""


def migrate(stage: Stage) -> Iterator[None]:
    """Go to the consumer protocol and back, twice."""
    stage.join("shop-1")
    stage.join("shop-2")
    stage.leave("shop-2")
    stage.join("shop-2")
    stage.join("shop-3", CONSUMER)
    stage.leave("shop-1")
    stage.join("shop-1", CONSUMER)
    stage.leave("shop-2")
    stage.join("shop-2", CONSUMER)
    stage.kill("shop-3")
    yield
    stage.settle()
    stage.join("shop-4")
    stage.leave("shop-1")
    stage.leave("shop-2")
    stage.join("shop-5")
    stage.join("shop-6", CONSUMER)
    stage.kill("shop-4")
    stage.leave("shop-6")
    stage.leave("shop-5")


def migrate_static(stage: Stage) -> Iterator[None]:
    """Do so with static members, each of which starts again under the other protocol."""
    for name in ("till-1", "till-2"):
        stage.join(name)
    for name in ("till-1", "till-2"):
        stage.leave(name)
        stage.join(name, CONSUMER)
    yield
    stage.settle()
    for name in ("till-2", "till-1"):
        stage.leave(name)
        stage.join(name)


def flap(stage: Stage, protocol: str) -> Iterator[None]:
    """Let one come and go beside two that stay, under a new name each time."""
    for name in ("steady-a", "steady-b"):
        stage.join(name, protocol)
    for number in range(3):
        stage.join(f"pod-{number:x}7f{number * 3 + 1:x}c", protocol)
        stage.leave([*stage.there][-1])
    yield
    stage.settle()
    for number in range(3, 5):
        stage.join(f"pod-{number:x}7f{number * 3 + 1:x}c", protocol)
        stage.kill([*stage.there][-1])


def part(stage: Stage, protocol: str) -> Iterator[None]:
    """Let members leave, and others be killed."""
    for name in ("one", "two", "three"):
        stage.join(name, protocol)
    stage.kill("two")
    stage.freeze("one")
    stage.leave("three")
    stage.join("four", protocol)
    yield
    stage.settle()
    stage.kill("four")
    stage.join("five", protocol)
    stage.leave("one")
    stage.leave("five")


def dawdle(stage: Stage, protocol: str) -> Iterator[None]:
    """Let a member be slow whenever others come or go: it is stopped for half of its session, as by a long callback."""
    for name in ("quick", "slow-1"):
        stage.join(name, protocol)
    for number in range(3):
        stage.hinder("slow-1", partial(stage.join, f"late-{number}", protocol))
    yield
    stage.settle()
    stage.hinder("slow-1", partial(stage.leave, "late-1"))
    stage.hinder("slow-1", partial(stage.kill, "late-2"))
    stage.hinder("slow-1", partial(stage.join, "late-3", protocol))


def rest(stage: Stage, protocol: str) -> Iterator[None]:
    """Do nothing."""
    for name in ("calm-1", "calm-2", "calm-3"):
        stage.join(name, protocol)
    yield
    stage.settle()
    sleep(2 * _WORK_S)


SCENES: Final[dict[str, tuple[Scene, bool, bool]]] = {
    "migrating": (migrate, False, True),
    "migrating-static": (migrate_static, True, True),
    "flapping": (lambda stage: flap(stage, CLASSIC), False, True),
    "flapping-modern": (lambda stage: flap(stage, CONSUMER), False, True),
    "parting": (lambda stage: part(stage, CLASSIC), False, True),
    "parting-modern": (lambda stage: part(stage, CONSUMER), False, True),
    "dawdling": (lambda stage: dawdle(stage, CLASSIC), False, True),
    "dawdling-modern": (lambda stage: dawdle(stage, CONSUMER), False, True),
    "calm": (lambda stage: rest(stage, CLASSIC), False, True),
    "calm-unnamed": (lambda stage: rest(stage, CLASSIC), False, False),
    "calm-modern": (lambda stage: rest(stage, CONSUMER), False, True),
}
"""The scenes by their groups; whether their members are static, and whether they have client ids of their own."""


def record(out: Path, groups: list[str]) -> None:
    """Make the log."""
    with recorded(out, _PROPERTIES) as (kafka, deeds):
        stages, scenes = [], []
        for group in groups:
            scene, static, named = SCENES[group]
            stage = Stage(group, kafka.bootstrap_servers, deeds, static=static, named=named)
            stages.append(stage)
            scenes.append(scene(stage))
        with topics_with_records(kafka.bootstrap_servers):
            try:
                together(partial(next, each, None) for each in scenes)
                deeds.tell("", "restart the broker")
                kafka.nodes[0].stop()
                # until the clients give up the places that they had
                sleep(SESSION_MS / 1000 + 2)
                kafka.start()
                together(partial(next, each, None) for each in scenes)
            finally:
                for stage in stages:
                    stage.close()
        sleep(SESSION_MS / 1000 + 2)


def main() -> None:
    """Take the arguments."""
    out, *groups = sys.argv[1:]
    record(Path(out), groups or list(SCENES))


if __name__ == "__main__":
    main()
