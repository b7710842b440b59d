"""Consumers in processes that are stopped, killed or end, in both group protocols: on which partitions they may still act."""

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from groupsdk.clock import SystemClock
from groupsdk.testing import LocalKafka
from tests.kafka.migrating_group import look
from tests.support.consumers import (
    PROTOCOLS,
    ConsumerProcess,
    Group,
    check_one_owner_at_a_time,
)
from tests.support.proxy import FaultProxy
from tests.support.workers import eventually


PARTITIONS = 4
EVERY = frozenset(range(PARTITIONS))
_SESSION_MS = 1_500

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def session_ms() -> int:
    """The session timeout of the group: short where its end is waited for."""
    return _SESSION_MS


@pytest.fixture(params=PROTOCOLS)
def group(
    request: pytest.FixtureRequest, paced_kafka: LocalKafka, group_id: str, session_ms: int
) -> Group:
    """The test's group, with its topic."""
    address = paced_kafka.bootstrap_servers
    topic = f"t-{group_id}"
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    made = Group(request.param, group_id, topic, address, address, session_ms, heartbeat_ms=100)
    return made.configure()


NewProcess = Callable[..., ConsumerProcess]


@pytest.fixture
def new_process(group: Group, tmp_path: Path) -> Iterator[NewProcess]:
    """Start processes of the group, which are killed at the end; no two may ever have acted on a partition at once."""
    with ExitStack() as stack:
        started: list[ConsumerProcess] = []

        def start(**settings: Any) -> ConsumerProcess:
            made = ConsumerProcess(tmp_path / f"{len(started)}", group, **settings)
            started.append(stack.enter_context(made))
            return made

        yield start
        check_one_owner_at_a_time(*started)


def await_share(*processes: ConsumerProcess) -> None:
    """Wait until these act on all partitions together, as evenly as can be."""
    size = PARTITIONS // len(processes)

    def shared() -> bool:
        acting = [each.acts_on() for each in processes]
        return [len(each) for each in acting] == [size] * len(processes) and (
            frozenset().union(*acting) == EVERY
        )

    eventually(shared, lambda: [each.turns()[-3:] for each in processes])


def await_turns(process: ConsumerProcess, count: int) -> None:
    """Wait until its loop went round some more times."""
    before = len(process.turns())
    eventually(lambda: len(process.turns()) >= before + count)


def acted_on_old(process: ConsumerProcess, since_ms: int) -> bool:
    """Return whether it acted, once it ran again, on a tenure that began before it was stopped."""
    turns = process.turns()
    stopped = list(itertools.takewhile(lambda turn: turn.at_ms < since_ms, turns))
    old = set(stopped[-1].tenures.items())
    return any(old & set(turn.tenures.items()) for turn in turns[len(stopped) :])


class TestStopped:
    def test_past_its_session_it_does_not_act_on_what_it_had(self, new_process: NewProcess) -> None:
        far, near = new_process(), new_process()
        await_share(far, near)
        far.pause()
        await_share(near)
        resumed_ms = SystemClock().now_ms()
        far.resume()
        await_share(far, near)
        assert not acted_on_old(far, resumed_ms)

    def test_nor_when_no_answer_can_reach_it(
        self, new_process: NewProcess, way: FaultProxy
    ) -> None:
        far, near = new_process(bootstrap_servers=way.bootstrap_servers), new_process()
        await_share(far, near)
        far.pause()
        way.black_hole()
        await_share(near)
        resumed_ms = SystemClock().now_ms()
        far.resume()
        # Nobody can tell it that it is out. Its own clock does, from the first turn on.
        await_turns(far, 30)
        assert not [turn for turn in far.turns() if turn.at_ms >= resumed_ms and turn.tenures]
        way.black_hole(False)
        way.disconnect()
        await_share(far, near)

    def test_nor_when_the_broker_refuses_it_at_the_same_time(
        self, new_process: NewProcess, way: FaultProxy
    ) -> None:
        far, near = new_process(bootstrap_servers=way.bootstrap_servers), new_process()
        await_share(far, near)
        far.pause()
        way.refuse()
        way.disconnect()
        await_share(near)
        resumed_ms = SystemClock().now_ms()
        far.resume()
        await_turns(far, 30)
        assert not [turn for turn in far.turns() if turn.at_ms >= resumed_ms and turn.tenures]
        way.refuse(False)
        await_share(far, near)

    def test_alone_it_waits_for_its_coordinators_word(
        self, new_process: NewProcess, group: Group
    ) -> None:
        far = new_process()
        await_share(far)
        far.pause()
        eventually(lambda: not look(group.address, group.group_id).shares)
        resumed_ms = SystemClock().now_ms()
        far.resume()
        await_share(far)
        assert not acted_on_old(far, resumed_ms)


class TestStoppedForShorter:
    @pytest.fixture
    def session_ms(self) -> int:
        """Longer than a machine may stall."""
        return 30_000

    def test_than_its_session_it_just_goes_on(self, new_process: NewProcess) -> None:
        far, near = new_process(), new_process()
        await_share(far, near)
        before = far.turns()[-1].tenures
        far.pause()
        await_turns(near, 20)
        far.resume()
        await_turns(far, 30)
        await_share(far, near)
        assert far.turns()[-1].tenures == before


class TestCallerStopped:
    @pytest.fixture
    def session_ms(self) -> int:
        """Longer than a machine may stall."""
        return 6_000

    def test_for_longer_than_the_session_it_keeps_its_partitions(
        self, new_process: NewProcess, session_ms: int
    ) -> None:
        one, two = new_process(heartbeat="process"), new_process()
        await_share(one, two)
        before = one.turns()[-1].tenures
        one.pause()
        paused_ms = SystemClock().now_ms()
        eventually(lambda: two.turns()[-1].at_ms > paused_ms + session_ms + 1_000)
        # on a busy machine it may doubt its own session for a moment
        eventually(lambda: len(two.acts_on()) == PARTITIONS // 2)
        one.resume()
        await_turns(one, 10)
        # the count of a tenure tells one that was lost and given again from one that was kept
        eventually(lambda: one.turns()[-1].tenures)
        assert one.turns()[-1].tenures == before


class TestHeartbeatOfAProcessOfItsOwn:
    @pytest.mark.parametrize("with_children", [False, True], ids=["caller", "caller-and-child"])
    def test_stopped_past_its_deadlines_it_does_not_act_on_what_it_had(
        self, new_process: NewProcess, with_children: bool
    ) -> None:
        one = new_process(heartbeat="process", max_poll_interval_ms=1_500)
        two = new_process()
        await_share(one, two)
        one.pause(with_children=with_children)
        await_share(two)
        resumed_ms = SystemClock().now_ms()
        one.resume()
        await_share(one, two)
        assert not acted_on_old(one, resumed_ms)


class TestEnds:
    def test_killed_its_partitions_are_handed_over_after_its_session(
        self, new_process: NewProcess
    ) -> None:
        far, near = new_process(), new_process()
        await_share(far, near)
        far.kill()
        await_share(near)
        assert near.send(signal.SIGTERM) == 0

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
    def test_asked_to_end_it_leaves_at_once(
        self, new_process: NewProcess, group: Group, number: signal.Signals
    ) -> None:
        far, near = new_process(), new_process()
        await_share(far, near)
        assert far.send(number) == 0
        await_share(near)
        assert near.send(number) == 0
        assert not look(group.address, group.group_id).shares
