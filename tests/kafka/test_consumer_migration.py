"""Our consumers in groups with members of the consumer protocol (KIP-848), of every library that has one."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from groupsdk.testing import LocalKafka
from tests.kafka.migrating_group import (
    KINDS,
    NEW_KINDS,
    PARTITIONS,
    GroupRecords,
    Load,
    Ours,
    Peer,
    Seen,
    look,
    our_member,
    outputs,
    python_peer,
    read_outputs,
)
from tests.support.go import built_go
from tests.support.java import java_command
from tests.support.topics import create_topic
from tests.support.workers import eventually


_HERE = Path(__file__).parent
_SETTLED_S = 60
_QUIET_HEARTBEATS = 5
_QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "8000",
    "group.consumer.assignment.interval.ms": "100",
}
LIBRARIES = ("librdkafka", "java", "franz-go")
ORDERS = ("first", "last")
CELLS = [(kind, order, library) for library in LIBRARIES for kind in KINDS for order in ORDERS]
QUICK_CELLS = [
    ("cooperative-sticky", "first", "librdkafka"),
    ("weighted", "last", "java"),
    ("transactions", "first", "franz-go"),
]
QUICK_NEW = [("consumer", "java"), ("consumer-transactions", "franz-go")]
NEWER_CELLS = [
    ("range", "first", "java"),
    ("processor", "last", "librdkafka"),
    ("static", "first", "franz-go"),
]


@pytest.fixture(scope="module")
def quick_kafka(kafka_installed: None) -> Iterator[LocalKafka]:
    """A broker whose members of the consumer protocol heartbeat often."""
    with LocalKafka(properties=_QUICK) as broker:
        yield broker


@pytest.fixture(scope="module")
def newer_kafka(kafka_installed: None) -> Iterator[LocalKafka]:
    """The same of the newest release."""
    with LocalKafka(version="4.4.0", properties=_QUICK) as broker:
        yield broker


@pytest.fixture(scope="module")
def go_peer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the built peer in Go."""
    return str(built_go(_HERE / "go" / "nextpeer", tmp_path_factory.mktemp("go")))


class Scene:
    """One group: our members, peers, records that keep coming, and how the broker sees it."""

    def __init__(
        self, broker: LocalKafka, group_id: str, kind: str, library: str, go_peer: str
    ) -> None:
        self.address = broker.bootstrap_servers
        self.group_id = group_id
        self.kind = kind
        self.topic = f"topic-{group_id}"
        self.ours: dict[str, Ours] = {}
        self.gone: list[Ours] = []
        self.peers: list[Peer] = []
        self._library = library
        self._go_peer = go_peer
        self._stack = ExitStack()
        create_topic(self.address, self.topic, PARTITIONS)
        create_topic(self.address, outputs(self.topic))
        self.load = Load(self.address, self.topic)
        self.records: GroupRecords | None = None

    def __enter__(self) -> "Scene":
        self._stack.enter_context(self.load)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def join(self, *names: str) -> None:
        for name in names:
            made = our_member(self.address, self.group_id, self.topic, self.kind, name)
            self.ours[name] = self._stack.enter_context(made)

    def leave(self, name: str, *, killed: bool = False) -> None:
        self.gone.append(self.ours.pop(name))
        if killed:
            self.gone[-1].kill()
        else:
            self.gone[-1].stop()

    def join_peer(self) -> Peer:
        """Have a member of the consumer protocol join."""
        return self.have_peer(self._command())

    def have_peer(self, command: list[str]) -> Peer:
        self.peers.append(self._stack.enter_context(Peer(command)))
        return self.peers[-1]

    def _command(self) -> list[str]:
        where = [self.address, self.group_id, self.topic]
        if self._library == "franz-go":
            return [self._go_peer, *where]
        if self._library == "librdkafka":
            return python_peer(self.address, self.group_id, self.topic, "uniform")
        source = _HERE / "java" / "NewProtocolPeer.java"
        return java_command(source, ["org.apache.kafka:kafka-clients:4.4.0"], *where)

    def settle(self, type_: str) -> None:
        """Wait until the group is at rest, and everybody agrees on who owns what."""
        last: list[Seen] = []

        def agreed() -> bool:
            time.sleep(0.05)  # each look is a connection
            for each in self.ours.values():
                assert not each.errors, each.errors
            seen = look(self.address, self.group_id)
            last.append(seen)
            return seen.type == type_ and seen.state == "Stable" and self._agree(seen)

        def quiet() -> bool:
            eventually(agreed, lambda: f"{last[-1]}, {self._views()}", _SETTLED_S)
            records = self._group_records()
            records.count()
            self._await_heartbeats()
            return records.count() == 0 and agreed()

        eventually(quiet, lambda: f"no rest: {last[-5:]}, {self._views()}", _SETTLED_S)
        for each in self.ours.values():
            event = each.consumer.events()[-1]
            assert event.broker_assigns == (type_ == "consumer"), event
            assert not (event.broker_assigns and event.leader), event

    def _group_records(self) -> GroupRecords:
        if self.records is None:  # there is no such topic before the first group
            self.records = GroupRecords(self.address, self.group_id)
            self._stack.callback(self.records.close)
        return self.records

    def _await_heartbeats(self) -> None:
        wanted = {name: each.heartbeats + _QUIET_HEARTBEATS for name, each in self.ours.items()}

        def beaten() -> bool:
            time.sleep(0.05)  # each look asks an engine
            return all(self.ours[name].heartbeats >= count for name, count in wanted.items())

        eventually(beaten, "no heartbeats", _SETTLED_S)

    def _views(self) -> dict[str, set[int]]:
        peers = {f"peer {n}": each.owned for n, each in enumerate(self.peers)}
        return {name: each.owned for name, each in self.ours.items()} | peers

    def _agree(self, seen: Seen) -> bool:
        """Return whether each partition is owned once, by the broker's view and by that of each member."""
        shares = dict(seen.shares)
        if sorted(n for share in shares.values() for n in share) != [*range(PARTITIONS)]:
            return False
        for each in self.ours.values():
            snapshot = each.consumer.snapshot()
            if not snapshot.stable or shares.pop(snapshot.member_id, None) != frozenset(each.owned):
                return False
        theirs = [frozenset(each.owned) for each in self.peers if each.owned]
        return sorted(map(sorted, filter(None, shares.values()))) == sorted(map(sorted, theirs))

    def processed(self) -> set[tuple[int, int]]:
        """Return the places of all records that somebody processed."""
        found: set[tuple[int, int]] = set().union(*(each.processed for each in self.peers))
        return found.union(*(each.processed for each in [*self.ours.values(), *self.gone]))

    def finish(self) -> None:
        """Write no more, and check that every record was processed."""
        written = self.load.end()

        def done() -> bool:
            time.sleep(0.1)  # each look unites all that was processed
            return written <= self.processed()

        eventually(
            done,
            lambda: f"not processed: {sorted(written - self.processed())[:20]}, {self._views()}",
            _SETTLED_S,
        )
        for name in [*self.ours]:
            self.leave(name)
        for each in self.gone:
            assert not each.errors, each.errors
        if self.kind in ("transactions", "consumer-transactions"):
            once = read_outputs(self.address, self.topic)
            assert len(set(once)) == len(once)
            assert written <= set(once).union(*(each.processed for each in self.peers))


def run(scene: Scene, order: str) -> None:
    """Have both kinds of members come and go, so that the group changes its protocol and back."""
    with scene:
        if order == "first":
            scene.join("a", "b")
            scene.settle("classic")
            peer = scene.join_peer()  # online upgrade
        else:
            peer = scene.join_peer()
            scene.settle("consumer")
            scene.join("a", "b")
        scene.settle("consumer")
        scene.join("c")
        scene.settle("consumer")
        scene.ours["a"].rejoin()
        scene.leave("b", killed=True)
        scene.join("b")
        scene.settle("consumer")
        peer.kill()
        scene.settle("classic")  # online downgrade
        peer = scene.join_peer()
        scene.settle("consumer")
        scene.leave("c")
        peer.leave()
        scene.settle("classic")
        scene.finish()


def run_new(scene: Scene) -> None:
    """Have members of the consumer protocol alone come and go, ours and a peer's."""
    static = scene.kind == "consumer-static"
    with scene:
        scene.join("a", "b")
        scene.settle("consumer")
        peer = scene.join_peer()
        scene.settle("consumer")
        scene.join("c")
        scene.settle("consumer")
        # a static one that was killed is not let in before its session has ended
        scene.leave("b", killed=not static)
        scene.join("b")
        scene.settle("consumer")
        peer.kill()
        scene.settle("consumer")
        peer = scene.join_peer()
        scene.settle("consumer")
        scene.leave("c")
        peer.leave()
        if not static:  # its partitions are kept for it
            scene.settle("consumer")
        scene.finish()


def identify(cell: tuple[str, str, str]) -> str:
    """Return the name of a cell."""
    kind, order, library = cell
    return f"{kind}-{order}-{library}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(each, marks=() if each in QUICK_CELLS else pytest.mark.slow, id=identify(each))
        for each in CELLS
    ],
)
def test_a_group_that_migrates(
    quick_kafka: LocalKafka, group_id: str, go_peer: str, cell: tuple[str, str, str]
) -> None:
    kind, order, library = cell
    run(Scene(quick_kafka, group_id, kind, library, go_peer), order)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "library"),
    [
        pytest.param(kind, library, marks=() if (kind, library) in QUICK_NEW else pytest.mark.slow)
        for kind in NEW_KINDS
        for library in LIBRARIES
    ],
)
def test_members_of_the_consumer_protocol_of_all_libraries_share_a_group(
    quick_kafka: LocalKafka, group_id: str, go_peer: str, kind: str, library: str
) -> None:
    run_new(Scene(quick_kafka, group_id, kind, library, go_peer))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("cell", NEWER_CELLS, ids=identify)
def test_a_group_that_migrates_on_the_newest_release(
    newer_kafka: LocalKafka, group_id: str, go_peer: str, cell: tuple[str, str, str]
) -> None:
    kind, order, library = cell
    run(Scene(newer_kafka, group_id, kind, library, go_peer), order)


def test_a_group_that_librdkafka_leads_cooperatively_has_to_be_stopped_first(
    quick_kafka: LocalKafka, group_id: str, go_peer: str
) -> None:
    with Scene(quick_kafka, group_id, "cooperative-sticky", "librdkafka", go_peer) as scene:
        # from the second round on, its leader puts user data into the assignments
        scene.have_peer(_old_peer(scene))
        _shared(scene, "classic", 1)
        scene.have_peer(_old_peer(scene))
        seen = _shared(scene, "classic", 2)
        refused = scene.join_peer()
        eventually(lambda: "FATAL" in refused.said, lambda: refused.said)
        assert look(scene.address, group_id) == seen
        *old, _ = scene.peers
        for each in old:
            each.leave()
        scene.peers.clear()
        scene.join_peer()
        scene.settle("consumer")


def test_a_group_that_one_of_ours_leads_is_upgraded_with_librdkafka_in_it(
    quick_kafka: LocalKafka, group_id: str, go_peer: str
) -> None:
    with Scene(quick_kafka, group_id, "cooperative-sticky", "librdkafka", go_peer) as scene:
        scene.join("a")
        scene.settle("classic")
        scene.have_peer(_old_peer(scene))
        _shared(scene, "classic", 2)
        scene.ours["a"].rejoin()
        scene.join_peer()
        _shared(scene, "consumer", 3)


def _old_peer(scene: Scene) -> list[str]:
    where = (scene.address, scene.group_id, scene.topic)
    return python_peer(*where, "cooperative-sticky", "librdkafka")


def _shared(scene: Scene, type_: str, count: int) -> Seen:
    """Wait until so many members share the topic evenly."""
    last: list[Seen] = []

    def even() -> Seen | None:
        time.sleep(0.05)  # each look is a connection
        seen = look(scene.address, scene.group_id)
        last.append(seen)
        sizes = [len(each) for each in seen.shares.values()]
        good = seen.type == type_ and seen.state == "Stable"
        return seen if good and sizes == [PARTITIONS // count] * count else None

    return eventually(even, lambda: str(last[-1:]), _SETTLED_S)


def test_the_quick_cells_stand_for_all() -> None:
    assert {library for _, _, library in QUICK_CELLS} == set(LIBRARIES)
    assert {order for _, order, _ in QUICK_CELLS} == set(ORDERS)
