"""Test the transactional loop in virtual time: what each error and each interruption makes of a batch."""

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition as NativePartition,
)
from pytest_mock import MockerFixture

from groupsdk.assignment import TopicPartition
from groupsdk.consumer.transactions import Transaction, TransactionLoop
from groupsdk.errors import ConfigError, TransactionFatalError
from tests.consumer.rig import Bench
from tests.support.interrupts import everywhere


def failing(
    code: int, *, fatal: bool = False, retriable: bool = False, abort: bool = False
) -> KafkaException:
    return KafkaException(KafkaError(code, "for the test", fatal, retriable, abort))


class FakeProducer:
    """A transactional producer, whose transactions reach a group of the rig."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.state = "new"
        self.calls: list[str] = []
        self.errors: dict[str, list[BaseException]] = {}
        """What the next calls of a name raise, before they have done anything."""
        self.open: list[str] = []
        self.offsets: dict[TopicPartition, int] = {}
        self.committed: list[str] = []
        self.full = 0
        """How often the queue is full yet."""

    def _called(self, name: str, *states: str) -> None:
        self.calls.append(name)
        if self.errors.get(name):
            raise self.errors[name].pop(0)
        if self.state not in states:
            raise failing(KafkaError._STATE)

    def init_transactions(self, *_: object) -> None:
        self._called("init", "new")
        self.state = "ready"

    def begin_transaction(self, *_: object) -> None:
        self._called("begin", "ready")
        self.state = "open"

    def produce(self, topic: str, **record: Any) -> None:
        if self.full:
            self.full -= 1
            raise BufferError
        self._called("produce", "open")
        self.open.append(record["value"].decode())

    def poll(self, timeout: float) -> int:
        return 0

    def send_offsets_to_transaction(
        self, offsets: Sequence[NativePartition], metadata: object, *_: object
    ) -> None:
        self._called("offsets", "open")
        assert isinstance(metadata, bytes)
        for each in offsets:
            self.offsets[TopicPartition(each.topic, each.partition)] = each.offset

    def commit_transaction(self, *_: object) -> None:
        self._called("commit", "open")
        self.committed += self.open
        self.bench.group.offsets |= self.offsets
        self._end()

    def abort_transaction(self, *_: object) -> None:
        self._called("abort", "open")
        self._end()

    def _end(self) -> None:
        self.open, self.offsets, self.state = [], {}, "ready"


class Brokers:
    """Stands for a client: whether each look finds a broker."""

    def __init__(self, *found: bool) -> None:
        self.found = list(found)
        self.closed = False

    def list_topics(self, timeout: float) -> Any:
        assert timeout > 0
        if not self.found.pop(0):
            raise failing(KafkaError._TRANSPORT)
        return SimpleNamespace(brokers={1: object()})

    def close(self) -> None:
        self.closed = True


def values(records: Sequence[Message], transaction: Transaction) -> None:
    for each in records:
        transaction.produce("out", value=each.value())


class Rig:
    """A loop over three partitions with four records each."""

    def __init__(self, handler: Callable[..., object] = values, **options: Any) -> None:
        self.bench = Bench(enable_auto_commit=False)
        self.bench.fill(4)
        self.bench.consumer.subscribe("t")
        self.producer = FakeProducer(self.bench)
        self.loop = TransactionLoop(
            self.bench.consumer,
            cast("Producer", self.producer),
            handler,
            batch=5,
            clock=self.bench.clock,
            **options,
        )

    def drain(self) -> None:
        """Go on until no record comes."""
        idle = 0
        for _ in range(100):
            idle = 0 if self.loop.step(0.5) else idle + 1
            if idle == 4:
                return
        raise AssertionError("records come for ever")

    def check(self) -> None:
        """Hold the output to the input: each record once."""
        end = max(self.bench.native.ends.values())
        assert sorted(self.producer.committed) == sorted(
            f"t-{number}@{offset}" for number in range(3) for offset in range(end)
        )
        assert set(self.bench.group.offsets.values()) == {end}
        assert self.producer.state == "ready"


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupsdk.consumer.transactions.time.sleep", lambda _: None)
    monkeypatch.setattr(TransactionLoop, "_connect_other", lambda _: Brokers(False))


def test_records_and_offsets_are_committed_together(rig: Rig) -> None:
    rig.drain()
    rig.check()
    assert rig.producer.calls.count("init") == 1
    assert rig.producer.calls.count("commit") == 3
    assert "abort" not in rig.producer.calls


@pytest.mark.parametrize("name", ["init", "begin", "offsets", "commit"])
def test_passing_transaction_error_is_retried(
    rig: Rig, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig.producer.errors[name] = [failing(KafkaError._TIMED_OUT, retriable=True) for _ in range(5)]
    rig.drain()
    rig.check()
    assert "abort" not in rig.producer.calls
    told = [each.getMessage() for each in caplog.records if each.name.endswith("transactions")]
    assert [each.partition(" times")[0][-1] for each in told] == ["2", "4"]


@pytest.mark.parametrize("name", ["begin", "produce", "offsets", "commit"])
def test_a_failed_transaction_is_aborted_and_its_records_are_read_again(
    rig: Rig, name: str
) -> None:
    code = KafkaError._STATE if name == "produce" else KafkaError.ILLEGAL_GENERATION
    rig.producer.errors[name] = [failing(code, abort=name != "produce") for _ in range(3)]
    # which has its own errors that pass
    rig.producer.errors["abort"] = [failing(KafkaError._TIMED_OUT, retriable=True)]
    rig.drain()
    rig.check()


def test_a_batch_that_can_never_be_committed_is_an_error_in_the_end() -> None:
    rig = Rig(retries=3)
    denied = failing(KafkaError.GROUP_AUTHORIZATION_FAILED, abort=True)
    rig.producer.errors["offsets"] = [denied] * 4
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        rig.drain()
    assert rig.producer.calls.count("abort") == 4
    rig.drain()
    rig.check()


@pytest.mark.parametrize("name", ["init", "begin", "offsets", "commit", "abort"])
def test_a_producer_that_is_fenced_ends_the_loop_for_good(rig: Rig, name: str) -> None:
    rig.producer.errors[name] = [failing(KafkaError._FENCED, fatal=True)]
    if name == "abort":
        rig.producer.errors["offsets"] = [failing(KafkaError.UNKNOWN_MEMBER_ID, abort=True)]
    with pytest.raises(TransactionFatalError, match=r"transactional\.id"):
        rig.drain()
    calls = len(rig.producer.calls)
    with pytest.raises(TransactionFatalError):
        rig.loop.run()
    assert len(rig.producer.calls) == calls
    assert rig.producer.committed == []


def test_a_transaction_whose_abort_is_refused_ends_the_loop_for_good(rig: Rig) -> None:
    rig.producer.errors["offsets"] = [failing(KafkaError.UNKNOWN_MEMBER_ID, abort=True)]
    rig.producer.errors["abort"] = [failing(KafkaError.INVALID_TXN_STATE)]
    with pytest.raises(TransactionFatalError, match="could not be aborted"):
        rig.drain()


def test_offsets_that_librdkafka_sends_for_ever_end_the_loop_for_good(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.drain()
    monkeypatch.setattr("groupsdk.consumer.transactions._HUNG_S", 0.05)
    never = threading.Event()
    rig.producer.send_offsets_to_transaction = lambda *_: never.wait()  # type: ignore[assignment]
    rig.bench.fill(1)
    with pytest.raises(TransactionFatalError, match="does not return"):
        rig.drain()
    assert "abort" not in rig.producer.calls  # librdkafka takes no two calls at a time
    never.set()


def test_exception_of_a_handler_aborts_and_the_batch_is_read_again() -> None:
    told: list[int] = []

    def handler(records: Sequence[Message], transaction: Transaction) -> None:
        told.append(len(records))
        values(records, transaction)
        if len(told) == 2:
            raise failing(KafkaError.UNKNOWN)  # of some other client of the handler's

    rig = Rig(handler)
    with pytest.raises(KafkaException, match="UNKNOWN"):
        rig.drain()
    assert rig.producer.state == "ready"
    rig.drain()
    rig.check()
    assert told == [5, 5, 5, 2]


def test_a_handler_whose_code_does_not_run_commits_nothing() -> None:
    async def handler(records: Sequence[Message], transaction: Transaction) -> None:
        """Nobody awaits it."""

    rig = Rig(handler)
    with pytest.raises(TypeError, match="which nobody awaits here"):
        rig.drain()
    assert rig.producer.state == "ready"


def test_a_full_queue_is_waited_for(rig: Rig) -> None:
    rig.producer.full = 3
    rig.drain()
    rig.check()


def test_without_a_generation_the_batch_is_for_the_next_owner(
    rig: Rig, caplog: pytest.LogCaptureFixture, mocker: MockerFixture
) -> None:
    rig.loop.step(0.5)
    consume = rig.bench.consumer.consume

    def lost(*arguments: Any) -> Any:
        batch = consume(*arguments)
        # the group goes on without this member while it holds records
        mocker.stop(patched)
        rig.bench.advance(120_000)
        return batch

    patched = mocker.patch.object(rig.bench.consumer, "consume", side_effect=lost)
    rig.drain()
    rig.check()
    assert "no generation" in caplog.text


def test_a_broker_that_is_gone_at_the_end_is_waited_for_so_long() -> None:
    rig = Rig(patience=2.0)
    rig.producer.errors["commit"] = [failing(KafkaError._TIMED_OUT, retriable=True)] * 1000

    def commit(*_: object) -> None:
        rig.loop.stop()
        rig.bench.clock.advance(700)
        FakeProducer.commit_transaction(rig.producer)

    rig.producer.commit_transaction = commit  # type: ignore[method-assign]
    with pytest.raises(TransactionFatalError, match="still in progress at the end"):
        rig.drain()
    assert rig.producer.calls.count("commit") == 4
    assert "abort" not in rig.producer.calls


@pytest.mark.parametrize(
    ("producers", "others", "is_lost"),
    [
        ([False], [True, True], True),
        ([False], [True, False], False),
        ([], [False], False),
        ([True], [True], False),
    ],
)
def test_producer_that_alone_reaches_no_broker_ends_the_loop(
    rig: Rig, mocker: MockerFixture, producers: list[bool], others: list[bool], is_lost: bool
) -> None:
    other = Brokers(*others)
    mocker.patch.object(rig.loop, "_connect_other", return_value=other)
    mocker.patch.object(rig.producer, "list_topics", Brokers(*producers).list_topics, create=True)
    error = failing(KafkaError._TIMED_OUT, retriable=True)
    rig.producer.errors["commit"] = [error] * (100 if is_lost else 5)
    if is_lost:
        with pytest.raises(TransactionFatalError, match="issue 5301"):
            rig.drain()
        assert rig.producer.calls.count("commit") == 4
    else:
        rig.drain()
        rig.check()
    assert other.closed
    assert other.found == []


@pytest.mark.parametrize(
    "settings", [{"enable_auto_commit": True}, {"isolation_level": "read_uncommitted"}]
)
def test_settings_that_would_repeat_records_are_refused(settings: dict[str, Any]) -> None:
    bench = Bench(**({"enable_auto_commit": False} | settings))
    with pytest.raises(ConfigError, match=r"enable\.auto\.commit|read_committed"):
        TransactionLoop(bench.consumer, cast("Producer", FakeProducer(bench)), values)


def test_a_ctrl_c_anywhere_leaves_each_record_once() -> None:
    rigs: list[Rig] = []

    def run(block: Callable[[], Any]) -> None:
        rigs[:] = [Rig()]
        with block():
            for _ in range(3):
                rigs[0].loop.step(0.5)

    places = 0
    where = ("/consumer/transactions.py", "/consumer/reader.py", "/consumer/consumer.py")
    for place in everywhere(run, where):
        places += 1
        rigs[0].bench.fill(1)
        try:
            rigs[0].drain()
            rigs[0].check()
        except AssertionError as error:
            raise AssertionError(place) from error
    assert places > 100
