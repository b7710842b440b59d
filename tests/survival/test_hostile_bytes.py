"""Tests a broker process under bytes that no client sends: bounded memory, nobody else disturbed."""

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server.apis import APIS
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.groups import HeartbeatRequest
from tests.survival.bystander import Bystander
from tests.survival.hostile import CLASSES, MUTATIONS, framed, header, mutated, requests
from tests.survival.processes import BrokerProcess, mebibytes


_MIB: Final = 2**20
_TIMEOUT_S: Final = 60.0
_BYSTANDERS: Final = "bystanders-0f6c"


@pytest.fixture(scope="module")
def process() -> Iterator[BrokerProcess]:
    with BrokerProcess(topics=["t:1", f"{_BYSTANDERS}:1"]) as running:
        yield running


def throw(address: tuple[str, int], data: bytes) -> bytes:
    """Sends bytes and nothing more, reads to the end of the connection, and returns what came."""
    got = bytearray()
    with (
        socket.create_connection(address, timeout=_TIMEOUT_S) as thrown,
        contextlib.suppress(ConnectionError),
    ):
        thrown.sendall(data)
        with contextlib.suppress(OSError):  # the broker may have cut it already
            thrown.shutdown(socket.SHUT_WR)
        while part := thrown.recv(65_536):
            got += part
    return bytes(got)


def outcome(address: tuple[str, int], data: bytes) -> str:
    """Says what becomes of a connection with these bytes: closed, or answered."""
    with socket.create_connection(address, timeout=_TIMEOUT_S) as thrown:
        try:
            thrown.sendall(data)
            return "answered" if thrown.recv(1) else "closed"
        except ConnectionError:
            return "closed"


def test_all_apis_are_among_the_requests() -> None:
    # The tests here would pass on an empty list.
    assert {struct.unpack_from(">h", frame, 4)[0] for frame in requests()} == APIS.keys()
    assert len({struct.unpack_from(">hh", frame, 4) for frame in requests()}) > 190


def test_damaged_requests_of_all_apis_disturb_nobody(process: BrokerProcess) -> None:
    with Bystander(process.address, _BYSTANDERS):
        for data in mutated(requests(), seed=1, count=2_000):
            throw(process.address, data)
    # what a damaged request may do is to create topics, groups and transactions
    assert process.peak_memory() < 150 * _MIB, mebibytes(process.peak_memory())


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_very_many_damaged_requests_disturb_nobody(process: BrokerProcess) -> None:
    with Bystander(process.address, _BYSTANDERS):
        for data in mutated(requests(), seed=2, count=60_000):
            throw(process.address, data)
    assert process.peak_memory() < 600 * _MIB, mebibytes(process.peak_memory())


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.binary(max_size=60) | st.sampled_from(list(CLASSES)), max_size=4),
    st.booleans(),
)
def test_any_bytes_leave_others_alone(
    process: BrokerProcess, parts: list[bytes | str], with_length: bool
) -> None:
    data = [CLASSES[part] if isinstance(part, str) else part for part in parts]
    throw(process.address, b"".join(framed(part) if with_length else part for part in data))
    with process.connect() as client:
        assert client.ask(HeartbeatRequest("g", 1, "m"), 4).error_code == 25


def _empty_texts(key: int, version: int, count: int, *, behind: bytes = b"") -> bytes:
    return framed(header(key, version) + struct.pack(">i", count) + b"\0\0" * count + behind)


def _pairs(count: int) -> bytes:
    fixed = struct.pack(">iiiibi", -1, 0, 1, 1_000, 0, count)
    return framed(header(1, 4) + fixed + b"\0\0\0\0\0\0" * count)


AMPLIFIERS: Final[dict[str, Callable[[int], bytes]]] = {
    "Metadata": lambda count: _empty_texts(3, 4, count, behind=b"\0"),
    "DescribeGroups": lambda count: _empty_texts(15, 0, count),
    "DeleteTopics": lambda count: _empty_texts(20, 1, count, behind=b"\0\0\0\1"),
    "Fetch": _pairs,
    "tagged fields": lambda count: framed(header(18, 3) + b"\xff\xff\xff\x01" + b"\1\0" * count),
}
"""Requests of as many elements as wanted, of the fewest bytes; what each becomes in memory is far more."""


@pytest.mark.parametrize("name", AMPLIFIERS)
def test_a_small_request_does_not_become_large_in_memory(name: str) -> None:
    with BrokerProcess(topics=[f"{_BYSTANDERS}:1"]) as process:
        for count in (3_000_000, 50_000):
            throw(process.address, AMPLIFIERS[name](count))
        with Bystander(process.address, _BYSTANDERS):
            throw(process.address, AMPLIFIERS[name](1_000_000))
        assert process.peak_memory() < 300 * _MIB, mebibytes(process.peak_memory())


def test_a_length_takes_no_memory_before_its_bytes_are_there(process: BrokerProcess) -> None:
    before = process.memory()
    greedy = [process.connect() for _ in range(20)]
    try:
        for each in greedy:
            each.socket.sendall(struct.pack(">i", 100 * _MIB) + b"x" * 1_000)
        with Bystander(process.address, _BYSTANDERS):
            # a round trip on a connection that is younger than all of them
            assert outcome(process.address, framed(header(18, 0))) == "answered"
        assert process.memory() - before < 20 * _MIB
    finally:
        for each in greedy:
            each.socket.close()


@pytest.fixture(scope="module")
def embedded() -> Iterator[tuple[str, int]]:
    """The address of a broker with a topic `t`."""
    with EmbeddedBroker(topics={"t": 1}) as broker:
        host, port = broker.bootstrap_servers.rsplit(":", 1)
        yield host, int(port)


def _address(kafka: LocalKafka) -> tuple[str, int]:
    host, port = kafka.bootstrap_servers.split(",")[0].rsplit(":", 1)
    return host, int(port)


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_of_wrong_bytes_ends_as_with_kafka(
    kafka: LocalKafka, embedded: tuple[str, int], name: str
) -> None:
    data = CLASSES[name]
    assert outcome(embedded, data) == outcome(_address(kafka), data)


_NO_COMPARISON: Final = frozenset({1, 11, 30, 31, 33, 36, 44})
"""What one of them may answer late (Fetch, JoinGroup), and where Kafka looks into a body while reading it: unknown
kinds of access rules and settings end the connection there, and are answered with an error here."""


def test_damaged_requests_end_as_with_kafka(kafka: LocalKafka, embedded: tuple[str, int]) -> None:
    chance = [
        each for each in requests() if struct.unpack_from(">h", each, 4)[0] not in _NO_COMPARISON
    ]
    # those that leave the header and the length as they are, so that there is an answer or an end
    whole = {"other bytes in the body", "huge count", "many tags", "cut off, with the right length"}
    assert whole <= MUTATIONS.keys()
    found = {"answered": 0, "closed": 0}
    for data in mutated(chance, seed=3, count=400, only=whole):
        ours = outcome(embedded, data)
        assert ours == outcome(_address(kafka), data), data
        found[ours] += 1
    assert min(found.values()) > 50, found
