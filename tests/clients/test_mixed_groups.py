"""Let members of each client take part in groups together: migrations up and down, and members that are killed."""

import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from tests.clients import steered
from tests.clients.steered import Member, Remote
from tests.support.go import built_go
from tests.support.java import JavaProgram
from tests.support.processes import LineProgram
from tests.support.workers import eventually


_MEMBERS = Path(__file__).parent / "java" / "Members.java"
_RELEASES = ("4.3.1", "4.4.0")
_CLIENTS = ("librdkafka", "ours", "kgo", "java-4.3.1", "java-4.4.0")
_ALL = {0, 1, 2, 3}
_PATIENCE_S = 60.0
pytestmark = [pytest.mark.go, pytest.mark.timeout(400)]

Join = Callable[[str, str, str, str], Member]
"""Has a client join: client, protocol, topic, group."""


@pytest.fixture(scope="module")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Go program with kgo."""
    return built_go(Path(__file__).parent / "go" / "scenarios", tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="module")
def programs(
    kafka_installed: None, broker: EmbeddedBroker, go_program: Path
) -> Iterator[Mapping[str, steered.Asked]]:
    """The programs of the clients that are not in Python."""
    servers = broker.bootstrap_servers
    with ExitStack() as stack:
        running: dict[str, steered.Asked] = {
            f"java-{release}": stack.enter_context(_java(servers, release)) for release in _RELEASES
        }
        running["kgo"] = stack.enter_context(LineProgram([str(go_program), servers]))
        yield running


def _java(servers: str, release: str) -> JavaProgram:
    return JavaProgram(_MEMBERS, [f"org.apache.kafka:kafka-clients:{release}"], arguments=[servers])


@pytest.fixture
def join(broker: EmbeddedBroker, programs: Mapping[str, steered.Asked]) -> Join:
    count = itertools.count()

    def joined(client: str, protocol: str, topic: str, group_id: str) -> Member:
        if client in programs:
            name = f"{group_id}-{next(count)}"
            return Remote(programs[client], name, protocol, topic, group_id)
        maker = steered.librdkafka if client == "librdkafka" else steered.ours
        return maker(broker.bootstrap_servers, protocol, topic, group_id)

    return joined


def share(*members: Member) -> None:
    """Waits until the members have the four partitions, each one of them once and as many as the others."""

    def is_shared() -> bool:
        owned = [each.owned() for each in members]
        sizes = {len(each) for each in owned}
        return len(sizes) == 1 and sum(map(len, owned)) == 4 and set().union(*owned) == _ALL

    eventually(is_shared, lambda: f"{[each.owned() for each in members]}", _PATIENCE_S)


def migrate(broker: EmbeddedBroker, join: Join, old: str, new: str, topic: str, group: str) -> None:
    """Takes a group of one client's classic members to another's new ones, and back."""
    classic = join(old, "classic", topic, group)
    share(classic)
    upgraded = join(new, "consumer", topic, group)
    share(classic, upgraded)
    seen = broker.consumer_group(group)
    assert seen is not None
    assert sorted(each.is_classic for each in seen.members.values()) == [False, True]
    classic.leave()
    share(upgraded)
    late = join(old, "classic", topic, group)
    share(upgraded, late)
    upgraded.leave()
    share(late)
    assert broker.classic_group(group) is not None
    late.leave()


@pytest.mark.parametrize("new", _CLIENTS)
def test_a_group_migrates_up_and_down(
    broker: EmbeddedBroker, join: Join, topic: str, group_id: str, new: str
) -> None:
    for old in {new, "ours"}:
        migrate(broker, join, old, new, topic, f"{group_id}-{old}")


@pytest.mark.slow
@pytest.mark.parametrize("new", _CLIENTS)
def test_a_group_migrates_from_and_to_every_client(
    broker: EmbeddedBroker, join: Join, topic: str, group_id: str, new: str
) -> None:
    for old in _CLIENTS:
        migrate(broker, join, old, new, topic, f"{group_id}-{old}")


def test_new_members_of_all_clients_share_a_topic(
    broker: EmbeddedBroker, join: Join, group_id: str
) -> None:
    topic = f"wide-{group_id}"
    broker.create_topic(topic, 10)
    members = [join(each, "consumer", topic, group_id) for each in _CLIENTS]
    for left in (5, 2):
        members, leaving = members[:left], members[left:]
        for each in leaving:
            each.leave()

        def is_shared(members: list[Member] = members) -> bool:
            owned = [each.owned() for each in members]
            return {len(each) for each in owned} == {10 // len(members)} and set().union(
                *owned
            ) == set(range(10))

        eventually(is_shared, lambda: f"{[each.owned() for each in members]}", _PATIENCE_S)  # noqa: B023
    for each in members:
        each.leave()


@pytest.mark.parametrize("victim", _CLIENTS)
def test_the_partitions_of_a_killed_member_go_to_others(
    kafka_installed: None, go_program: Path, group_id: str, victim: str
) -> None:
    settings = {"group.consumer.session.timeout.ms": 3_000}
    with EmbeddedBroker(settings, topics={"t": 4}) as broker, ExitStack() as stack:
        servers = broker.bootstrap_servers
        program: LineProgram | JavaProgram
        if victim.startswith("java"):
            program = stack.enter_context(_java(servers, victim.removeprefix("java-")))
        elif victim == "kgo":
            program = stack.enter_context(LineProgram([str(go_program), servers]))
        else:
            command = [sys.executable, "-m", "tests.clients.steered", servers, victim]
            program = stack.enter_context(LineProgram(command))
        survivor = steered.librdkafka(servers, "consumer", "t", group_id)
        stack.callback(survivor.leave)
        share(survivor)
        share(survivor, Remote(program, "victim", "consumer", "t", group_id))
        os.kill(program.pid, signal.SIGKILL)
        share(survivor)
