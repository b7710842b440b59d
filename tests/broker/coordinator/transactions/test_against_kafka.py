"""Tests the shard beside a real broker: the same requests, the same answers.

Markers of the real one are written soon after its reply, so each step waits for them; what is answered in
between depends on time there, and is not compared.
"""

import uuid
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar, cast

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.testing import LocalKafka
from groupsdk.wire.compiler import decoder, encoder
from groupsdk.wire.messages.metadata import FindCoordinatorRequest
from groupsdk.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from groupsdk.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TransactionState,
)
from groupsdk.wire.schema import Request, Response
from tests.broker.clients import Client, eventually
from tests.broker.coordinator.transactions.driving import Coordinator


R = TypeVar("R", bound=Response)
TOPIC = "transactions-against-kafka"


class Peer(Protocol):
    """Something that answers requests about transactions."""

    def send(self, request: Request[R], version: int) -> R:
        """Sends a request and waits until its markers are written."""

    def send_many(self, request: Request[R], version: int, count: int) -> R:
        """Sends a request many times over, without waiting in between; returns the last answer."""


class Ours:
    """The shard."""

    def __init__(self) -> None:
        self._coordinator = Coordinator()

    def send(self, request: Request[R], version: int) -> R:
        response = self._coordinator.send(request, version)
        self._coordinator.write_markers()
        kind = type(response)
        return cast("R", decoder(kind, version)(encoder(kind, version)(response), 0))

    def send_many(self, request: Request[R], version: int, count: int) -> R:
        for _ in range(count - 1):
            self._coordinator.send(request, version)
        return self.send(request, version)


class Theirs:
    """Kafka."""

    def __init__(self, kafka: LocalKafka) -> None:
        host, _, port = kafka.bootstrap_servers.rpartition(":")
        self.client = Client((host, int(port)), "against-kafka")
        self.client.ask(CreateTopicsRequest((CreatableTopic(TOPIC, 3, 1),)), 5)  # or it is there
        for request, version in (
            (FindCoordinatorRequest("warm-up", 1), 3),
            # its first producer ids come from the controller
            (InitProducerIdRequest(None), 4),
        ):
            eventually(partial(self._code, request, version), 0)
        eventually(lambda: self._state("warm-up").error_code, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    def _code(self, request: Request[Any], version: int) -> int:
        answer: Any = self.client.ask(request, version)
        return int(answer.error_code)

    def _state(self, transactional_id: str) -> TransactionState:
        request = DescribeTransactionsRequest((transactional_id,))
        (state,) = self.client.ask(request, 0).transaction_states
        return state

    def send(self, request: Request[R], version: int) -> R:
        response = self.client.ask(request, version)
        transactional_id = getattr(request, "transactional_id", None)
        if transactional_id and isinstance(request, EndTxnRequest | InitProducerIdRequest):
            state = partial(self._state, transactional_id)
            eventually(lambda: state().transaction_state.startswith("Prepare"), False)
        return response

    def send_many(self, request: Request[R], version: int, count: int) -> R:
        sent = [self.client.send(request, version) for _ in range(count)]
        return [self.client.answer(request, each) for each in sent][-1]


class Recorder:
    """Sends to a peer and writes down what is answered, with producer ids in the order they came up."""

    def __init__(self, peer: Peer, run: str) -> None:
        self.seen: list[str] = []
        self._peer = peer
        self._run = run
        self._ids: dict[int, int] = {-1: -1}
        self._real: dict[int, int] = {-1: -1}

    def _name(self, transactional_id: str | None) -> str | None:
        return f"{self._run}-{transactional_id}" if transactional_id else transactional_id

    def _ours(self, producer_id: int) -> int:
        number = self._ids.setdefault(producer_id, len(self._ids) - 1)
        self._real[number] = producer_id
        return number

    def _theirs(self, number: int) -> int:
        return self._real.get(number, 10**12 + number)

    def init(
        self,
        name: str | None,
        given: tuple[int, int] = (-1, -1),
        timeout: int = 60_000,
        version: int = 5,
    ) -> tuple[int, int] | None:
        request = InitProducerIdRequest(self._name(name), timeout, self._theirs(given[0]), given[1])
        response = self._peer.send(request, version)
        producer = (self._ours(response.producer_id), response.producer_epoch)
        self._saw(f"init {name} {given} {timeout} v{version}", response.error_code, producer)
        return producer if response.error_code == 0 else None

    def init_many(self, name: str, count: int) -> None:
        """Starts a producer many times over, and looks at the last answer."""
        request = InitProducerIdRequest(self._name(name), 60_000)
        response = self._peer.send_many(request, 5, count)
        producer = (self._ours(response.producer_id), response.producer_epoch)
        self._saw(f"{count} times init {name}", response.error_code, producer)

    def add(self, name: str, producer: tuple[int, int], *places: int, version: int = 3) -> int:
        topic = AddPartitionsToTxnTopic(TOPIC, places)
        request = AddPartitionsToTxnRequest(
            (), cast("str", self._name(name)), self._theirs(producer[0]), producer[1], (topic,)
        )
        response = self._peer.send(request, version)
        codes = [
            each.partition_error_code
            for result in response.results_by_topic_v3_and_below
            for each in result.results_by_partition
        ]
        self._saw(f"add {name} {producer} {places} v{version}", *codes)
        return codes[0]

    def add_offsets(self, name: str, producer: tuple[int, int], version: int = 3) -> None:
        request = AddOffsetsToTxnRequest(
            cast("str", self._name(name)), self._theirs(producer[0]), producer[1], "g"
        )
        code = self._peer.send(request, version).error_code
        self._saw(f"offsets {name} {producer} v{version}", code)

    def end(
        self, name: str, producer: tuple[int, int], commit: bool, version: int
    ) -> tuple[int, int] | None:
        request = EndTxnRequest(
            cast("str", self._name(name)), self._theirs(producer[0]), producer[1], commit
        )
        response = self._peer.send(request, version)
        following = (self._ours(response.producer_id), response.producer_epoch)
        self._saw(f"end {name} {producer} {commit} v{version}", response.error_code, following)
        return None if response.error_code or version < 5 else following

    def describe(self, name: str) -> None:
        request = DescribeTransactionsRequest((cast("str", self._name(name)),))
        (state,) = self._peer.send(request, 0).transaction_states
        producer = (state.producer_id, state.producer_epoch)
        if state.error_code == 0:
            producer = (self._ours(state.producer_id), state.producer_epoch)
        topics = sorted(
            ("offsets" if topic.topic != TOPIC else "t", len(topic.partitions))
            for topic in state.topics
        )
        began = state.transaction_start_time_ms > 0
        said = (state.error_code, state.transaction_state, state.transaction_timeout_ms)
        self._saw(f"describe {name}", *said, began, *producer, topics)

    def list_states(self, *states: str) -> None:
        response = self._peer.send(ListTransactionsRequest(states), 0)
        mine = sorted(
            (each.transactional_id, self._ours(each.producer_id), each.transaction_state)
            for each in response.transaction_states
            if each.transactional_id.startswith(self._run)
        )
        unknown = sorted(response.unknown_state_filters)
        self._saw(f"list {states}", response.error_code, mine, unknown)

    def _saw(self, what: str, *answer: object) -> None:
        self.seen.append(f"{what}: {answer}")


Script = Callable[[Recorder], None]


@pytest.fixture
def theirs(kafka: LocalKafka) -> Any:
    peer = Theirs(kafka)
    yield peer
    peer.client.socket.close()


def compare(theirs: Theirs, script: Script) -> list[str]:
    """Runs a script on both; returns what both said."""
    run = f"run-{uuid.uuid4().hex[:12]}"
    real, ours = Recorder(theirs, run), Recorder(Ours(), run)
    script(real)
    script(ours)
    for number, (expected, got) in enumerate(zip(real.seen, ours.seen, strict=False)):
        assert got == expected, "after\n" + "\n".join(real.seen[max(0, number - 12) : number])
    assert len(real.seen) == len(ours.seen)
    return real.seen


def refusals(recorder: Recorder) -> None:
    """Everything that is wrong in itself, or with an unknown id."""
    for version in range(6):
        recorder.init("", version=version)
        recorder.init("a", timeout=0, version=version)
        recorder.init("a", timeout=900_001, version=version)
    recorder.init("a", (5, -1))
    recorder.init("a", (-1, 5))
    recorder.init(None, (-1, 5))
    recorder.init(None, timeout=0)
    for version in range(4):
        recorder.add("unknown", (1, 1), 0, version=version)
        recorder.add("", (1, 1), 0, version=version)
        recorder.add("unknown", (1, 1), 0, 1, version=version)
    for version in range(5):
        recorder.add_offsets("unknown", (1, 1), version=version)
    for version in range(6):
        recorder.end("unknown", (1, 1), True, version)
        recorder.end("", (1, 1), True, version)
    recorder.describe("unknown")
    recorder.list_states("Nonsense", "Empty")


def fencing(recorder: Recorder) -> None:
    """A new producer, with and without a transaction of the old one, in every version."""
    first = recorder.init("a")
    assert first is not None
    second = recorder.init("a")
    assert second is not None
    for version in range(4):
        recorder.add("a", first, 0, version=version)
    for version in range(5):
        recorder.add_offsets("a", first, version=version)
    for version in range(6):
        recorder.end("a", first, True, version)
        if version > 2:
            recorder.init("a", first, version=version)
    recorder.add("a", second, 0)
    recorder.describe("a")
    recorder.list_states("Ongoing")
    recorder.init("a")
    recorder.describe("a")
    recorder.add("a", second, 0)
    recorder.end("a", second, False, 5)
    recorder.end("a", second, False, 4)
    recorder.init("a", second)
    recorder.init("a")
    recorder.describe("a")


def matrix(recorder: Recorder) -> None:
    """Every state that lasts, with every end of either generation, by the epochs around."""
    for version in (4, 5):
        for state in ("empty", "ongoing", "committed", "aborted"):
            for commit in (True, False):
                for shift in (-2, -1, 0, 1):
                    name = f"{version}-{state}-{commit}-{shift}"
                    for _ in range(2):
                        recorder.init(name)
                    producer = recorder.init(name)
                    assert producer is not None
                    if state != "empty":
                        recorder.add(name, producer, 0, 2)
                    if state in ("committed", "aborted"):
                        following = recorder.end(name, producer, state == "committed", version)
                        producer = following or producer
                    recorder.end(name, (producer[0], producer[1] + shift), commit, version)
                    recorder.describe(name)
                    recorder.end(name, (producer[0] + 50, producer[1]), commit, version)


@pytest.mark.parametrize("script", [refusals, fencing, matrix])
def test_the_same_answers(theirs: Theirs, script: Script) -> None:
    seen = compare(theirs, script)
    assert len(seen) > 20


def bumped(recorder: Recorder, producer: tuple[int, int]) -> None:
    """The end of a transaction uses up the epochs."""
    recorder.add("a", producer, 0, 1)
    following = recorder.end("a", producer, True, 5)
    assert following is not None
    recorder.describe("a")
    recorder.end("a", producer, True, 5)
    recorder.end("a", producer, False, 5)
    recorder.add("a", producer, 0)
    recorder.add("a", following, 0)
    recorder.end("a", producer, True, 5)
    recorder.end("a", following, False, 5)


def fenced(recorder: Recorder, producer: tuple[int, int]) -> None:
    """A fence uses up the epochs."""
    recorder.add("a", producer, 0)
    recorder.init("a")
    recorder.describe("a")
    recorder.add("a", producer, 0)
    recorder.end("a", producer, False, 5)
    recorder.init("a")
    recorder.describe("a")


def rotated(recorder: Recorder, producer: tuple[int, int]) -> None:
    """A producer that goes on after an error uses up the epochs."""
    following = recorder.init("a", producer)
    assert following is not None
    recorder.init("a", producer)
    recorder.add("a", producer, 0)
    recorder.add("a", following, 0)
    recorder.end("a", following, True, 4)
    recorder.describe("a")


@pytest.mark.slow
@pytest.mark.parametrize("last", [bumped, fenced, rotated])
def test_used_up_epochs_get_the_same_answers(
    theirs: Theirs, last: Callable[[Recorder, tuple[int, int]], None]
) -> None:
    def script(recorder: Recorder) -> None:
        recorder.init("a")
        for start in range(0, 32_765, 655):
            recorder.init_many("a", min(655, 32_765 - start))
        producer = recorder.init("a")
        assert producer is not None
        assert producer[1] == 32_766
        last(recorder, producer)

    compare(theirs, script)


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_get_the_same_answers(theirs: Theirs, seed: int) -> None:
    def script(recorder: Recorder) -> None:
        random = Random(seed)
        known: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
        for _ in range(400):
            name = random.choice("ab")
            producers = known[name]
            # mostly the newest, now and then one that is fenced or never was
            number = min(random.choice((1, 1, 1, 1, 2, 3)), len(producers))
            producer = producers[-number] if producers else (0, 0)
            if random.random() < 0.1:
                producer = (producer[0], producer[1] + random.choice((-1, 1)))
            step = random.choice("iIaaaaoeeEEd")
            got = None
            if step in "iI":
                given = producer if step == "I" and producer[1] >= 0 else (-1, -1)
                got = recorder.init(name, given, version=random.randint(3, 5))
            elif step == "a":
                places = random.sample(range(3), random.randint(1, 3))
                recorder.add(name, producer, *places, version=random.randint(0, 3))
            elif step == "o":
                recorder.add_offsets(name, producer)
            elif step == "d":
                recorder.describe(name)
                recorder.list_states(*random.sample(["Empty", "Ongoing", "CompleteAbort"], 2))
            else:
                version = 5 if step == "E" else random.randint(0, 4)
                got = recorder.end(name, producer, random.random() < 0.5, version)
            if got is not None and got not in producers:
                producers.append(got)

    compare(theirs, script)
