"""Tests a broker process with clients that say nothing, speak slowly or never read: others are served."""

import contextlib
import socket
import struct
from typing import Any, Final

import pytest

from groupsdk.wire.api import encode_request
from groupsdk.wire.messages.connection import ApiVersionsRequest
from groupsdk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.messages.metadata import MetadataRequest
from groupsdk.wire.schema import Request
from tests.broker.clients import Client, batch, produce
from tests.survival.bystander import Bystander
from tests.survival.processes import BrokerProcess, mebibytes


_MIB: Final = 2**20
_TOPICS: Final = ("t:1", "bystanders:1")
_WANTED: Final = FetchPartition(0, fetch_offset=0, partition_max_bytes=50_000_000)
_EVERYTHING: Final = FetchRequest(
    max_wait_ms=0, max_bytes=50_000_000, topics=(FetchTopic("t", partitions=(_WANTED,)),)
)


def still_serves(process: BrokerProcess) -> bool:
    """Says whether a new connection gets an answer."""
    with process.connect() as client:
        return client.ask(ApiVersionsRequest("a", "1"), 3).error_code == 0


def deaf(process: BrokerProcess, request: Request[Any], version: int) -> Client:
    """Connects, asks as often as the broker takes it, and reads nothing."""
    client = process.connect()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.socket.settimeout(0.3)
    frames = encode_request(request, version, 1, "deaf") * 500
    with contextlib.suppress(TimeoutError):
        for _ in range(1_000):
            client.socket.sendall(frames)
        raise AssertionError("the broker takes in whatever a client sends that does not read")
    return client


def _read_to_the_end(client: Client) -> None:
    while client.socket.recv(_MIB):
        pass


def test_a_thousand_connections_that_say_nothing() -> None:
    with BrokerProcess(topics=_TOPICS) as process, contextlib.ExitStack() as stack:
        before = process.memory()
        for _ in range(1_000):
            stack.enter_context(process.connect())
        with Bystander(process.address, "bystanders"):
            assert still_serves(process)
        assert process.memory() - before < 30 * _MIB, mebibytes(process.memory() - before)


def test_a_thousand_connections_that_stop_within_a_request() -> None:
    frame = encode_request(HeartbeatRequest("g" * 30_000, 1, "m"), 4, 1, "c")
    with BrokerProcess(topics=_TOPICS) as process, contextlib.ExitStack() as stack:
        before = process.memory()
        slow = [stack.enter_context(process.connect()) for _ in range(1_000)]
        for position in (0, 10, 1_000, 20_000):
            for each in slow:
                each.socket.sendall(frame[position : position + 10])
                # what follows is not what the length said; a request is only looked at when it is whole
        with Bystander(process.address, "bystanders"):
            assert still_serves(process)
        assert process.memory() - before < 40 * _MIB, mebibytes(process.memory() - before)


def test_a_request_that_comes_byte_by_byte_is_answered_beside_others() -> None:
    frame = encode_request(HeartbeatRequest("g", 1, "m"), 4, 7, "c")
    with BrokerProcess(topics=_TOPICS) as process, process.connect() as slow:
        with Bystander(process.address, "bystanders"):
            for byte in frame:
                slow.socket.sendall(bytes([byte]))
                assert still_serves(process)
        assert slow.frame()[:4] == struct.pack(">i", 7)


def test_clients_that_never_read_hold_a_bounded_part_of_memory() -> None:
    settings = {"queued.max.request.bytes": 32 * _MIB}
    with (
        BrokerProcess(topics=_TOPICS, settings=settings) as process,
        contextlib.ExitStack() as stack,
    ):
        with process.connect() as client:
            for _ in range(20):
                assert produce(client, "t", batch(b"x" * 900_000)).error_code == 0
        before = process.memory()
        for _ in range(8):
            stack.enter_context(deaf(process, _EVERYTHING, 11))
            assert still_serves(process)
        with Bystander(process.address, "bystanders"):
            assert still_serves(process)
        # two answers of 18 MB are over the limit, and all further ones are of one batch; a copy may be in hand
        assert process.peak_memory() - before < 150 * _MIB, mebibytes(process.peak_memory())
        with process.connect() as client:
            (part,) = client.ask(_EVERYTHING, 11).responses[0].partitions
            assert 900_000 < len(part.records or b"") < 1_000_000
        stack.close()
        # they are gone, and what they held with them
        with process.connect() as client:
            while (
                len(client.ask(_EVERYTHING, 11).responses[0].partitions[0].records or b"") < 10**7
            ):
                assert still_serves(process)


def test_clients_that_never_read_metadata_cost_little() -> None:
    topics = [f"topic-{number}:5" for number in range(100)]
    with (
        BrokerProcess(topics=[*topics, *_TOPICS]) as process,
        contextlib.ExitStack() as stack,
    ):
        before = process.memory()
        for _ in range(4):
            stack.enter_context(deaf(process, MetadataRequest(None), 12))
        with Bystander(process.address, "bystanders"):
            assert still_serves(process)
        assert process.peak_memory() - before < 60 * _MIB, mebibytes(process.peak_memory())


def test_idle_client_is_closed_even_if_it_does_not_read() -> None:
    settings = {"connections.max.idle.ms": 8_000}
    with (
        BrokerProcess(topics=_TOPICS, settings=settings) as process,
        contextlib.ExitStack() as stack,
    ):
        with process.connect() as client:
            for _ in range(20):
                assert produce(client, "t", batch(b"x" * 900_000)).error_code == 0
        silent = stack.enter_context(process.connect())
        unread = stack.enter_context(deaf(process, _EVERYTHING, 11))
        with Bystander(process.address, "bystanders") as bystander:
            said = {process.wait_for("idle for connections.max.idle.ms=8000") for _ in range(2)}
            assert {line.split(": ")[2] for line in said} == {
                "closing 127.0.0.1",
                "dropping 127.0.0.1",
            }
            assert silent.is_closed()
            # a reset, and not the end of what it was to read
            unread.socket.settimeout(60)
            with pytest.raises(ConnectionResetError):
                _read_to_the_end(unread)
            # who is not idle stays
            assert bystander.rounds > 0


def test_process_refuses_connections_beyond_the_limit() -> None:
    settings = {"max.connections": 3}
    with (
        BrokerProcess(topics=_TOPICS, settings=settings) as process,
        process.connect() as first,
        process.connect() as second,
        process.connect() as third,
    ):
        for each in (first, second, third):
            assert each.ask(ApiVersionsRequest("a", "1"), 3).error_code == 0
        with process.connect() as fourth:
            assert fourth.is_closed()
        process.wait_for("refusing 127.0.0.1: max.connections=3 is reached")
        assert first.ask(ApiVersionsRequest("a", "1"), 3).error_code == 0
        third.socket.close()
        # there is room again as soon as the broker has noticed
        while True:
            with contextlib.suppress(ConnectionError):
                assert still_serves(process)
                break


def test_a_request_over_the_limit_is_refused_by_its_length() -> None:
    with BrokerProcess(topics=_TOPICS, settings={"socket.request.max.bytes": 1_000}) as process:
        with process.connect() as client:
            client.socket.sendall(struct.pack(">i", 1_001))
            assert client.is_closed()
        process.wait_for(
            "invalid request size of 1001 bytes; the limit is 1000 (socket.request.max.bytes)"
        )
        with process.connect() as client:
            assert client.ask(HeartbeatRequest("g" * 900, 1, "m"), 4).error_code == 25


def test_all_requests_together_wait_for_memory() -> None:
    settings = {"queued.max.request.bytes": 10 * _MIB}
    with (
        BrokerProcess(topics=_TOPICS, settings=settings) as process,
        contextlib.ExitStack() as stack,
    ):
        before = process.memory()
        half = struct.pack(">i", 9 * _MIB) + b"x" * (8 * _MIB)
        for _ in range(12):
            greedy = stack.enter_context(process.connect())
            greedy.socket.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                greedy.socket.sendall(half)
        with Bystander(process.address, "bystanders"):
            assert still_serves(process)
        # two have memory, the others what one read brings
        assert process.memory() - before < 45 * _MIB, mebibytes(process.memory() - before)
