"""Record a log: `python -m tests.history.recording.record DIRECTORY [SEED [SECONDS [GROUP...]]]`.

Starts a real broker, lets members of five libraries come, go, die, freeze, start again and want other topics at
random, while topics grow and the broker itself starts again, and leaves in DIRECTORY what the broker wrote: `segments`
with the files of `__consumer_offsets`, and `coordinator-log.txt`.
"""

import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import ConsumerGroupState, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from groupsdk.clock import WallClock
from groupsdk.testing import LocalKafka
from groupsdk.testing.local_kafka import DEFAULT_VERSION
from tests.history.recording.peers import Peer, Settings, start


TOPICS: Final = {"orders": 6, "events": 4, "quiet": 3}
"""Nothing is written to the last one, so nobody commits of it."""
BUSY: Final = ("orders", "events")
CLOCK: Final = WallClock()
_SETTLED_S: Final = 60.0
_PROPERTIES: Final = {
    "offsets.topic.num.partitions": "4",
    "log.cleaner.enable": "false",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.regex.refresh.interval.ms": "10000",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What the members of a group have in common."""

    libraries: tuple[str, ...]
    assignor: str = "range"
    commit_ms: int = 1_000
    session_ms: int = 4_000
    named: bool = True
    """Whether each has a client id of its own."""
    static: bool = False
    protocol: str = "classic"
    topics: tuple[str, ...] = ("orders",)


KINDS: Final = {
    "librdkafka": Kind(("librdkafka",)),
    "librdkafka-unnamed": Kind(("librdkafka",), "roundrobin", named=False),
    "librdkafka-cooperative": Kind(("librdkafka",), "cooperative-sticky"),
    "kafka-python": Kind(("kafka-python",), "sticky"),
    "kafka-python-unnamed": Kind(("kafka-python",), named=False),
    "aiokafka": Kind(("aiokafka",), "roundrobin", named=False),
    "ours": Kind(("ours",), "range"),
    "ours-cooperative": Kind(("ours",), "cooperative-sticky"),
    "ours-static": Kind(("ours",), static=True),
    "java": Kind(("java",), "cooperative-sticky"),
    "java-unnamed": Kind(("java",), "range", named=False),
    "java-static": Kind(("java",), "sticky", static=True),
    "mixed": Kind(("librdkafka", "kafka-python", "aiokafka", "ours", "java"), "range"),
    "static": Kind(("librdkafka", "kafka-python", "ours"), static=True),
    "static-librdkafka": Kind(("librdkafka",), "roundrobin", static=True),
    "static-kafka-python": Kind(("kafka-python",), static=True),
    "static-aiokafka": Kind(("aiokafka",), static=True, named=False),
    "static-cooperative": Kind(("librdkafka", "ours"), "cooperative-sticky", static=True),
    "static-silent": Kind(("librdkafka", "ours", "java"), static=True, commit_ms=0),
    "silent": Kind(("librdkafka", "ours", "kafka-python"), commit_ms=0),
    "quiet": Kind(("librdkafka", "ours", "aiokafka"), topics=("quiet",)),
    "slow": Kind(("ours", "librdkafka"), commit_ms=5_000, session_ms=3_000),
    "modern": Kind(("librdkafka",), protocol="consumer"),
    "modern-java": Kind(("java",), protocol="consumer"),
    "modern-static": Kind(("librdkafka", "java"), protocol="consumer", static=True),
    "modern-quiet": Kind(("librdkafka",), protocol="consumer", topics=("quiet",)),
}
"""The groups, by their names."""


@dataclass
class Members:
    """One group: starts its members, and makes them do something at random until it is time to end."""

    name: str
    kind: Kind
    servers: str
    random: Random
    until_ms: int
    told: Callable[[str, str], None]
    there: dict[str, tuple[Peer, Settings]] = field(default_factory=dict)
    frozen: dict[str, tuple[Peer, Settings]] = field(default_factory=dict)
    started: int = 0

    def run(self) -> None:
        """Do one thing after the other."""
        deeds: list[tuple[Callable[[], None], int]] = [
            (self.join, 5),
            (self.leave, 4),
            (self.die, 3),
            (self.restart, 2),
            (self.crash_and_restart, 2),
            (self.freeze, 1),
            (self.resubscribe, 2),
            (self.rejoin, 1),
            (self.all_leave, 1),
        ]
        self.join()
        while CLOCK.now_ms() < self.until_ms:
            # now and then two things fall into one rebalance
            quick = self.random.random() < 0.15
            sleep(self.random.uniform(0.1, 0.4) if quick else self.random.uniform(2, 5))
            self.thaw()
            (deed,) = self.random.choices(
                [deed for deed, _ in deeds], [weight for _, weight in deeds]
            )
            if len(self.there) < 2 and deed != self.all_leave:
                deed = self.join
            deed()
        for name in [*self.there]:
            peer, _ = self.there.pop(name)
            peer.close()
        for peer, _ in self.frozen.values():
            peer.kill()

    def join(self) -> None:
        """Let one come."""
        if len(self.there) >= 5:
            self.leave()
            return
        self.started += 1
        name = f"{self.name}-{self.started}"
        self._start(
            self.random.choice(self.kind.libraries),
            Settings(
                self.servers,
                self.name,
                name if self.kind.named else None,
                self.kind.topics,
                self.kind.assignor,
                self.kind.session_ms,
                self.kind.commit_ms,
                f"i-{name}" if self.kind.static else None,
                self.kind.protocol,
            ),
            name,
        )

    def leave(self) -> None:
        """Let one leave."""
        name, peer, _ = self._take()
        self.told("leave", name)
        peer.close()

    def all_leave(self) -> None:
        """Let all leave."""
        for _ in range(len(self.there)):
            self.leave()

    def die(self) -> None:
        """Kill one."""
        name, peer, _ = self._take()
        self.told("kill", name)
        peer.kill()
        sleep(self.kind.session_ms / 1000)

    def restart(self) -> None:
        """Let one leave, and come again."""
        name, peer, (library, settings) = self._take()
        self.told("restart", name)
        peer.close()
        self._start(library, settings, name)

    def crash_and_restart(self) -> None:
        """Kill one, and start it at once."""
        name, peer, (library, settings) = self._take()
        self.told("kill and restart", name)
        peer.kill()
        sleep(self.random.choice([0, 1, 2]))
        self._start(library, settings, name)

    def freeze(self) -> None:
        """Stop one for longer than its session lasts."""
        name, peer, (_, settings) = self._take()
        self.told("freeze", name)
        peer.freeze()
        self.frozen[name] = peer, settings
        sleep(self.kind.session_ms / 1000 + 1)

    def thaw(self) -> None:
        """Let those go on that were stopped."""
        for name in [*self.frozen]:
            peer, settings = self.frozen.pop(name)
            peer.thaw()
            self.told("thaw", name)
            self.there[name] = peer, settings

    def resubscribe(self) -> None:
        """Let one want other topics."""
        name, (peer, settings) = self._pick()
        more = "events" if self.kind.topics == ("orders",) else "orders"
        topics = (*self.kind.topics, more) if more not in settings.topics else self.kind.topics
        self.told(f"subscribe to {topics}", name)
        peer.subscribe(topics)
        self.there[name] = peer, replace(settings, topics=topics)

    def rejoin(self) -> None:
        """Let one ask for a rebalance."""
        name, (peer, _) = self._pick()
        self.told("rejoin", name)
        peer.rejoin()

    def _pick(self) -> tuple[str, tuple[Peer, Settings]]:
        name = self.random.choice([*self.there])
        return name, self.there[name]

    def _take(self) -> tuple[str, Peer, tuple[str, Settings]]:
        name, (peer, settings) = self._pick()
        del self.there[name]
        return name, peer, (self._libraries[name], settings)

    _libraries: dict[str, str] = field(default_factory=dict)

    def _start(self, library: str, settings: Settings, name: str) -> None:
        self.told(f"join of {library}", name)
        self._libraries[name] = library
        self.there[name] = start(library, settings), settings


def sleep(seconds: float) -> None:
    threading.Event().wait(seconds)


def produce(servers: str, ended: threading.Event) -> None:
    """Write to the busy topics all the time."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "log_level": 0})
    number = 0
    while not ended.wait(0.2):
        for topic in BUSY:
            for partition in range(TOPICS[topic]):
                producer.produce(topic, str(number), partition=partition)
        producer.poll(0)
        number += 1
    producer.flush(10)


@dataclass(frozen=True, slots=True)
class Deeds:
    """Writes down what was done, for who wants to know."""

    path: Path

    def tell(self, group: str, deed: str, member: str = "") -> None:
        """Write a line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{CLOCK.now_ms()} {group} {member}: {deed}\n")


@contextmanager
def topics_with_records(servers: str) -> Iterator[AdminClient]:
    """Create the topics, and write records into them until the end."""
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(t, n, 1) for t, n in TOPICS.items()]).values():
        made.result(30)
    ended = threading.Event()
    producing = threading.Thread(target=produce, args=(servers, ended))
    producing.start()
    try:
        yield admin
    finally:
        ended.set()
        producing.join()


def has_settled(admin: AdminClient, group: str, members: int) -> bool:
    """Say whether a group has so many members, and does not rebalance."""
    try:
        found = admin.describe_consumer_groups([group])[group].result(10)
    except KafkaException:
        return False
    stable = found.state in (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)
    return stable and len(found.members) == members


def settle(servers: str, group: str, members: int) -> bool:
    """Wait until a group has so many members; returns whether it has."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    until_ms = CLOCK.now_ms() + _SETTLED_S * 1000
    while not has_settled(admin, group, members):
        if CLOCK.now_ms() > until_ms:
            return False
        sleep(0.1)
    return True


def together(deeds: Iterable[Callable[[], object]]) -> None:
    """Do things at once, each in a thread of its own; raises the first error when all are done."""
    every = list(deeds)
    with ThreadPoolExecutor(len(every)) as pool:
        done = [pool.submit(each) for each in every]
    for each in done:
        each.result()


@contextmanager
def recorded(
    out: Path, properties: Mapping[str, str], version: str = DEFAULT_VERSION
) -> Iterator[tuple[LocalKafka, Deeds]]:
    """Start a broker, and leave in a directory what it wrote, as `segments` and `coordinator-log.txt`, and what was done."""
    out.mkdir(parents=True, exist_ok=True)
    with LocalKafka(
        version=version, properties=properties, log=True, data_dir=out / "kafka"
    ) as kafka:
        yield kafka, Deeds(out / "deeds.txt")
        log = kafka.nodes[0].log_file
        assert log is not None
        shutil.copy(log, out / "coordinator-log.txt")
    keep(out / "kafka", out / "segments")


def record(out: Path, seed: int, seconds: float, groups: Sequence[str]) -> None:
    """Make the log."""
    with recorded(out, _PROPERTIES) as (kafka, deeds):
        servers = kafka.bootstrap_servers
        with topics_with_records(servers) as admin:
            threads = drive(groups, seed, seconds, servers, deeds)
            sleep(seconds * 0.4)
            deeds.tell("", "grow orders to 8")
            admin.create_partitions([NewPartitions("orders", 8)])["orders"].result(30)
            sleep(seconds * 0.3)
            deeds.tell("", "restart the broker")
            kafka.nodes[0].stop()
            kafka.start()
            for thread in threads:
                thread.join()
        # until the sessions of those that were killed are over
        sleep(6)
        for name in groups[:3]:
            try:
                admin.delete_consumer_groups([name])[name].result(10)
            except KafkaException as error:
                deeds.tell(name, f"not deleted: {error}")


def drive(
    groups: Sequence[str], seed: int, seconds: float, servers: str, deeds: Deeds
) -> list[threading.Thread]:
    """Start a thread for each group, which does things to it until the time is over."""
    until_ms = CLOCK.now_ms() + int(seconds * 1000)
    threads = []
    for place, name in enumerate(groups):
        random = Random(seed * 1000 + place)
        members = Members(name, KINDS[name], servers, random, until_ms, partial(deeds.tell, name))
        threads.append(threading.Thread(target=members.run))
        threads[-1].start()
        sleep(0.3)
    return threads


def keep(data: Path, target: Path) -> None:
    """Copy the segments that have anything in them."""
    for file in sorted(data.rglob("__consumer_offsets-*/*.log")):
        if file.stat().st_size:
            folder = target / file.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, folder / file.name)


def main() -> None:
    """Take the arguments."""
    out, *rest = sys.argv[1:]
    seed = int(rest[0]) if rest else 1
    seconds = float(rest[1]) if len(rest) > 1 else 60
    record(Path(out), seed, seconds, rest[2:] or list(KINDS))


if __name__ == "__main__":
    main()
