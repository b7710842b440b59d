"""Ask for every API in every version with bodies of no sense: what Kafka does with each is what we do."""

import socket
import struct
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.api import decode_response, encode_request, request_class
from groupsdk.wire.messages.connection import ApiVersionsRequest
from groupsdk.wire.schema import ArrayType, Request, Struct, declared_fields


_KEYS: Final = range(101)
_VERSIONS: Final = range(21)
_TIMEOUT_S: Final = 60.0
_ASKED, _NEXT = 7, 8  # ids of the request in question, and of the one behind it
_BODIES: Final = {
    "nothing": b"",
    "no tagged fields": b"\0",
    "zeros": bytes(48),
    "ones": b"\xff" * 48,
    "noise": Random(4).randbytes(48),
}

_OTHER_ERRORS: Final = {
    68: "Kafka offers the protocol that is refused here",
    37: "Kafka has a time limit for CreatePartitions, which is 0 here, and is over",
    76: "Kafka validates requests of share groups, which are refused here",
    75: "Kafka says UNKNOWN_SERVER_ERROR of a topic without a name",
}
"""Why the errors of an API's answer are not compared."""

Pair = tuple[int, int]


class Prober:
    """Sends requests of raw bytes and says what comes of each; connects anew where it was cut off."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.split(",")[0].rpartition(":")
        self._address = (host, int(port))
        self._socket: socket.socket | None = None
        self.answer = b""
        """What the last request was answered."""

    def close(self) -> None:
        """Ends its connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def served(self) -> dict[int, range]:
        """Asks what is served: versions by API key."""
        connection = self._connection()
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        connection.sendall(encode_request(request, 4, 1, "test"))
        _, response = decode_response(ApiVersionsRequest, 4, self._frame(connection))
        return {
            each.api_key: range(each.min_version, each.max_version + 1)
            for each in response.api_keys
        }

    def reaction(self, pair: Pair, body: bytes) -> str:
        """Sends a request and, behind it, one that has an answer; says which was answered first."""
        connection = self._connection()
        payload = struct.pack(">hhih", *pair, _ASKED, -1) + body
        behind = struct.pack(">hhih", 18, 0, _NEXT, -1)
        try:
            for each in (payload, behind):
                connection.sendall(struct.pack(">i", len(each)) + each)
            answer = self._frame(connection)
            (first,) = struct.unpack_from(">i", answer)
            if first == _ASKED:
                self._frame(connection)
                self.answer = answer
        except ConnectionError:
            self.close()
            return "closed"
        except TimeoutError:
            self.close()
            return "hangs"
        return {_ASKED: "answered", _NEXT: "not answered"}[first]

    def _connection(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, _TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _frame(self, connection: socket.socket) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(connection, 4))
        return self._exactly(connection, size)

    def _exactly(self, connection: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = connection.recv(size - len(data))
            if not part:
                raise ConnectionResetError("closed")
            data += part
        return data


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """One node, as the Kafka beside it: it coordinates and leads everything."""
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def ours(broker: EmbeddedBroker) -> Iterator[Prober]:
    """Asks the embedded broker."""
    prober = Prober(broker.bootstrap_servers)
    yield prober
    prober.close()


@pytest.fixture
def theirs(kafka: LocalKafka) -> Iterator[Prober]:
    """Asks a real Kafka."""
    prober = Prober(kafka.bootstrap_servers)
    yield prober
    prober.close()


def pairs(served: dict[int, range]) -> set[Pair]:
    return {(key, version) for key, versions in served.items() for version in versions}


def test_we_serve_nothing_that_kafka_does_not(ours: Prober, theirs: Prober) -> None:
    assert pairs(ours.served()) <= pairs(theirs.served())


@pytest.mark.timeout(180)
def test_unserved_version_ends_the_connection_as_with_kafka(ours: Prober, theirs: Prober) -> None:
    mine, real = pairs(ours.served()), pairs(theirs.served())
    missing = [(k, v) for k in _KEYS for v in _VERSIONS if (k, v) not in mine]
    wrong = {}
    for pair in missing:
        # where Kafka serves it, what it does with what it does not serve is the measure: the connection ends
        expected = "closed" if pair in real else theirs.reaction(pair, b"")
        found = ours.reaction(pair, b"")
        if found != expected:
            wrong[pair] = (found, expected)
    assert not wrong
    assert len(missing) > 1_000


def filled(struct: type[Struct], version: int) -> Struct:
    """Makes a struct of default values with one element in every array, likewise."""
    values: dict[str, Any] = {}
    for each in declared_fields(struct):
        if isinstance(each.type, ArrayType) and version in each.versions and each.tag is None:
            element = each.type.element
            if isinstance(element, type) and issubclass(element, Struct):
                values[each.name] = (filled(element, version),)
    return struct(**values)


def errors(answer: object) -> list[tuple[str, int]]:
    """Lists all error codes of an answer."""
    if isinstance(answer, tuple):
        return [code for each in answer for code in errors(each)]
    if not isinstance(answer, Struct):
        return []
    found: list[tuple[str, int]] = []
    for each in declared_fields(type(answer)):
        value = getattr(answer, each.name)
        found += [(each.name, value)] if "error_code" in each.name else errors(value)
    return found


@pytest.mark.timeout(180)
def test_empty_values_have_the_end_that_they_have_with_kafka(ours: Prober, theirs: Prober) -> None:
    wrong = {}
    for key, version in sorted(pairs(ours.served())):
        message = request_class(key)
        if version not in message.api:
            continue
        request = filled(message, version)
        assert isinstance(request, Request)
        # what stands before it is the header: the length, four numbers and a client id
        body = encode_request(request, version, _ASKED, "")[14:]
        pair = (key, version)
        found, expected = ours.reaction(pair, body), theirs.reaction(pair, body)
        if found != expected:
            wrong[pair] = (found, expected)
        elif found == "answered" and pair[0] not in _OTHER_ERRORS:
            codes = [
                errors(decode_response(message, version, each.answer)[1]) for each in (ours, theirs)
            ]
            if codes[0] != codes[1]:
                wrong[pair] = (str(codes[0]), str(codes[1]))
    assert not wrong


@pytest.mark.timeout(180)
@pytest.mark.parametrize("body", list(_BODIES))
def test_nonsense_in_what_is_served_has_the_end_that_it_has_with_kafka(
    ours: Prober, theirs: Prober, body: str
) -> None:
    wrong = {}
    for pair in sorted(pairs(ours.served())):
        found = ours.reaction(pair, _BODIES[body])
        expected = theirs.reaction(pair, _BODIES[body])
        if found != expected:
            wrong[pair] = (found, expected)
    assert not wrong
