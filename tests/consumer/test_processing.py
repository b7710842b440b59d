"""Test the processing of records on threads; nothing here waits for time to pass."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from groupsdk.consumer.processing import PartitionProcessor
from groupsdk.errors import ConfigError
from groupsdk.member.state import MemberState
from groupsdk.wire.messages.groups import HeartbeatRequest, JoinGroupRequest
from tests.consumer.rig import Bench, partitions
from tests.member.driving import beaten


class Handler:
    """Notes what it is given, partition by partition; holds what a test wants held."""

    def __init__(self) -> None:
        self.seen: defaultdict[int, list[int]] = defaultdict(list)
        self.at_once: set[int] = set()
        self.most_at_once = 0
        self.gates: dict[int, threading.Event] = {}
        self.entered: defaultdict[int, threading.Event] = defaultdict(threading.Event)
        self.fails_at: tuple[int, int] | None = None

    def __call__(self, message: Message) -> None:
        partition, offset = message.partition() or 0, message.offset() or 0
        assert partition not in self.at_once, "two records of a partition at once"
        self.at_once.add(partition)
        self.most_at_once = max(self.most_at_once, len(self.at_once))
        self.entered[partition].set()
        if partition in self.gates:
            assert self.gates[partition].wait(60)
        self.at_once.discard(partition)
        if (partition, offset) == self.fails_at:
            raise ValueError("poison")
        self.seen[partition].append(offset)


class Rig:
    """A processor in virtual time, with real threads."""

    def __init__(self, strategy: str = "range", **options: Any) -> None:
        self.bench = Bench(
            enable_auto_offset_store=False,
            auto_commit_interval_ms=1_000,
            partition_assignment_strategy=strategy,
        )
        self.handler = Handler()
        self.processor = PartitionProcessor(
            self.bench.consumer, self.handler, clock=self.bench.clock, **options
        )
        self.processor.subscribe("t")
        self.processor.step(0.3)

    def settle(self) -> None:
        """Wait until no handler is at work, but those that are held."""
        held = {*self.handler.gates}
        lanes = self.processor._lanes
        busy = [lane.busy for where, lane in lanes.items() if where.partition not in held]
        for future in filter(None, busy):
            future.result(60)

    def take(self) -> None:
        """Take what there is, and have it processed."""
        while self.processor.step(0):
            self.settle()
        self.settle()


@pytest.fixture
def make() -> Iterator[Callable[..., Rig]]:
    """Makes rigs, which end with the test."""
    made: list[Rig] = []

    def one(**options: Any) -> Rig:
        made.append(Rig(**options))
        return made[-1]

    yield one
    for rig in made:
        for gate in rig.handler.gates.values():
            gate.set()
        rig.processor.close()


@pytest.fixture
def rig(make: Callable[..., Rig]) -> Rig:
    return make(max_waiting=10, batch=4)


def test_each_partition_is_processed_in_order_beside_the_others(rig: Rig) -> None:
    rig.bench.fill(50)
    rig.take()
    assert rig.handler.seen == {number: list(range(50)) for number in range(3)}


def test_processed_records_alone_are_committed(rig: Rig) -> None:
    rig.handler.gates[1] = threading.Event()
    rig.bench.fill(5)
    rig.take()
    rig.bench.advance(1_000)
    rig.processor.step(0)
    rig.processor.step(0)
    assert rig.bench.group.committed() == [{"t-0": 5, "t-2": 5}]


def test_a_slow_partition_is_paused_and_the_others_go_on(rig: Rig) -> None:
    rig.handler.gates[1] = threading.Event()
    rig.bench.fill(100)
    rig.take()
    assert rig.bench.consumer.paused() == partitions("t-1")
    assert rig.handler.seen[0] == list(range(100))
    assert len(rig.processor._lanes[partitions("t-1")[0]].queue) < 20
    for _ in range(100):  # far beyond max.poll.interval.ms: who polls stays a member
        rig.processor.step(1.0)
    assert rig.bench.consumer.snapshot().stable
    rig.handler.gates.pop(1).set()
    rig.take()
    while rig.bench.consumer.paused():
        rig.take()
    rig.take()
    assert rig.handler.seen[1] == list(range(100))


def test_a_revocation_waits_for_the_handler_at_work_and_drops_the_rest(rig: Rig) -> None:
    gate = rig.handler.gates[1] = threading.Event()
    rig.bench.fill(3, "t-1")
    rig.processor.step(0)
    assert rig.handler.entered[1].wait(60)
    waited = threading.Event()
    wait = rig.processor._wait

    def open_then_wait(future: Any, timeout_ms: int) -> bool:
        waited.set()
        gate.set()
        return wait(future, timeout_ms)

    rig.processor._wait = open_then_wait  # type: ignore[method-assign]  # to see that it waits
    rig.bench.consumer.enforce_rebalance("test")
    rig.bench.read(timeout=0)
    assert waited.is_set()
    assert rig.handler.seen[1] == [0]
    assert rig.bench.group.committed()[-1] == {"t-1": 1}


def test_a_handler_that_hangs_holds_a_rebalance_for_so_long_only(make: Callable[..., Rig]) -> None:
    rig = make(revoke_timeout=0.0)
    rig.handler.gates[1] = threading.Event()
    rig.bench.fill(3, "t-1")
    rig.processor.step(0)
    assert rig.handler.entered[1].wait(60)
    rig.bench.consumer.enforce_rebalance("test")
    rig.bench.read(timeout=0)
    assert rig.bench.consumer.generation().generation_id == 2
    assert not rig.bench.group.commits


def test_queued_records_of_a_lost_partition_are_dropped_at_once(rig: Rig) -> None:
    rig.handler.gates[1] = threading.Event()
    rig.bench.fill(3, "t-1")
    rig.processor.step(0)
    assert rig.handler.entered[1].wait(60)
    rig.bench.group.scripts[HeartbeatRequest].append(beaten(25))
    rig.bench.advance(1_500)
    rig.bench.native.ends.clear()
    rig.processor.step(0)
    assert not rig.bench.group.commits


def test_a_poison_record_comes_out_and_is_not_committed(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.handler.fails_at = (0, 2)
    rig.bench.fill(5, "t-0")
    rig.processor.step(0)
    rig.settle()
    with pytest.raises(ValueError, match="poison"):
        rig.processor.step(0)
    rig.processor.close()
    assert rig.bench.group.committed() == [{"t-0": 2}]


@pytest.mark.parametrize("kind", ["generator", "coroutine"])
def test_a_handler_whose_code_does_not_run_counts_nothing_as_processed(
    make: Callable[..., Rig], kind: str
) -> None:
    def generator(message: Message) -> Iterator[None]:
        yield

    async def coroutine(message: Message) -> None:
        """Nobody awaits it."""

    rig = make(on_error=lambda message, error: True)
    rig.processor._handler = {"generator": generator, "coroutine": coroutine}[kind]
    rig.bench.fill(5, "t-0")
    rig.processor.step(0)
    rig.settle()
    with pytest.raises(TypeError, match=f"{kind} is a"):
        rig.processor.step(0)
    rig.processor.close()
    assert rig.bench.group.committed() == []


def test_a_poison_record_may_be_passed_over(make: Callable[..., Rig]) -> None:
    dead_letters: list[int] = []

    def pass_over(message: Message, error: Exception) -> bool:
        assert str(error) == "poison"
        dead_letters.append(message.offset() or 0)
        return True

    rig = make(on_error=pass_over)
    rig.handler.fails_at = (0, 2)
    rig.bench.fill(5, "t-0")
    rig.take()
    assert dead_letters == [2]
    assert rig.handler.seen[0] == [0, 1, 3, 4]


def test_a_record_is_tried_again_later_while_other_partitions_go_on(
    make: Callable[..., Rig],
) -> None:
    rig = make(on_error=lambda message, error: 2.5, workers=1)
    rig.handler.fails_at = (0, 1)
    rig.bench.fill(3, "t-0")
    rig.bench.fill(3, "t-1")
    rig.take()
    assert (rig.handler.seen[0], rig.handler.seen[1]) == ([0], [0, 1, 2])
    rig.bench.clock.advance(2_400)
    rig.take()
    rig.handler.fails_at = (-1, -1)
    rig.take()
    assert rig.handler.seen[0] == [0], "before its time"
    rig.bench.clock.advance(200)
    rig.take()
    rig.take()
    assert rig.handler.seen[0] == [0, 1, 2]


def test_a_record_that_waits_for_its_next_attempt_is_left_to_the_next_owner(
    make: Callable[..., Rig],
) -> None:
    rig = make(on_error=lambda message, error: 60.0)
    rig.handler.fails_at = (0, 1)
    rig.bench.fill(3, "t-0")
    rig.take()
    rig.processor.close()
    assert rig.bench.group.committed() == [{"t-0": 1}]


def test_a_delay_that_is_none_ends_the_run_with_its_value(make: Callable[..., Rig]) -> None:
    rig = make(on_error=lambda message, error: float("nan"))
    rig.handler.fails_at = (0, 0)
    rig.bench.fill(1, "t-0")
    rig.processor.step(0)
    rig.settle()
    with pytest.raises(ValueError, match="on_error returned nan"):
        rig.processor.step(0)


def test_run_ends_when_it_is_stopped(rig: Rig) -> None:
    rig.bench.fill(1)
    rig.processor.stop()
    rig.processor.run()
    assert rig.handler.seen == {}


def test_a_consumer_that_commits_what_it_has_only_read_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"enable\.auto\.offset\.store"):
        PartitionProcessor(Bench().consumer, print)
    with pytest.raises(ConfigError, match="must be at least 1"):
        PartitionProcessor(Bench(enable_auto_offset_store=False).consumer, print, workers=0)


@pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError._BAD_MSG])
def test_only_an_error_after_which_a_partition_is_read_no_more_ends_it(
    make: Callable[..., Rig], code: int
) -> None:
    rig = make()
    failed = Failed(KafkaError(code))
    rig.bench.native.consume = lambda *_: [failed]  # type: ignore[method-assign]  # as librdkafka does
    rig.processor.step(0)
    if code == KafkaError._AUTO_OFFSET_RESET:
        with pytest.raises(KafkaException):
            rig.processor.step(0)
    else:
        rig.processor.step(0)


class Failed:
    """What librdkafka returns in place of a record."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    def error(self) -> KafkaError:
        return self._error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0


def test_closing_during_a_rebalance_commits_what_the_handlers_at_work_finish() -> None:
    rig = Rig("cooperative-sticky")
    group = rig.bench.group
    rig.bench.fill(3)
    rig.take()
    group.scripts[JoinGroupRequest].append(None)
    rig.bench.consumer.enforce_rebalance("test")
    rig.take()
    assert rig.bench.consumer.snapshot().state is MemberState.PREPARING_REBALANCE
    assert group.committed() == [{"t-0": 3, "t-1": 3, "t-2": 3}]
    gate = rig.handler.gates[1] = threading.Event()
    rig.handler.entered[1].clear()
    rig.bench.fill(2)
    rig.processor.step(0)
    assert rig.handler.entered[1].wait(60)
    rig.settle()
    wait = rig.processor._wait

    def open_then_wait(future: Any, timeout_ms: int) -> bool:
        assert len(group.commits) == 1, "the one commit that there is time for came too early"
        gate.set()
        return wait(future, timeout_ms)

    rig.processor._wait = open_then_wait  # type: ignore[method-assign]  # to see that it waits
    rig.processor.close()
    assert group.committed()[1:] == [{"t-0": 5, "t-1": 4, "t-2": 5}]
