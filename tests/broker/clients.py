"""A client of one connection, for tests of the broker: what it sends and gets are messages, or bytes."""

import socket
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.wire.api import decode_response, encode_request
from groupsdk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupsdk.wire.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from groupsdk.wire.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupsdk.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from groupsdk.wire.records.record import Record, build_batch
from groupsdk.wire.schema import Request, Response


if TYPE_CHECKING:
    from groupsdk.testing import LocalKafka


R = TypeVar("R", bound=Response)
_TIMEOUT_S = 60.0


class Client:
    """One blocking connection; every step has a time limit."""

    def __init__(self, address: tuple[str, int], client_id: str = "test") -> None:
        self.socket = socket.create_connection(address, timeout=_TIMEOUT_S)
        self.client_id = client_id
        self._next_id = 0
        self._versions: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, request: Request[R], version: int | None = None) -> R:
        """Sends a request, in its newest version if none is given, and returns the answer."""
        return self.answer(request, self.send(request, version))

    def send(self, request: Request[Any], version: int | None = None) -> tuple[int, int]:
        """Sends a request; returns its id and version."""
        self._next_id += 1
        used = request.api.client_version if version is None else version
        self.socket.sendall(encode_request(request, used, self._next_id, self.client_id))
        return self._next_id, used

    def answer(self, request: Request[R], sent: tuple[int, int]) -> R:
        """Reads the answer to a request that was sent, which has to be the next one."""
        correlation_id, response = decode_response(type(request), sent[1], self.frame())
        assert correlation_id == sent[0]
        return response

    def frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            data += part
        return data

    def is_closed(self) -> bool:
        """Waits for the end of the connection; False where there is an answer instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


def connect(
    broker: "EmbeddedBroker | LocalKafka", node: int = 1, client_id: str = "test"
) -> Client:
    host, port = broker.bootstrap_servers.split(",")[node - 1].rsplit(":", 1)
    return Client((host, int(port)), client_id)


def batch(*values: bytes, timestamp: int = 1_000, **settings: Any) -> bytes:
    """Builds a batch of records without keys."""
    records = [Record(n, timestamp, None, value) for n, value in enumerate(values)]
    return build_batch(records, **settings)


def produce(
    client: Client,
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
    version: int = 11,
) -> PartitionProduceResponse:
    """Produces a batch and returns the answer for its partition."""
    request = produce_request(topic, records, partition, acks, transactional_id)
    return client.ask(request, version).responses[0].partition_responses[0]


def produce_request(
    topic: str,
    records: bytes | None,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Builds a request to produce one batch."""
    data = (PartitionProduceData(partition, records),)
    topics = (TopicProduceData(topic, partition_data=data),)
    return ProduceRequest(transactional_id, acks, 1_000, topics)


def commit_request(
    group_id: str, offset: int, generation: int = -1, member_id: str = ""
) -> OffsetCommitRequest:
    """Builds a request to commit an offset of t-0."""
    topics = (OffsetCommitRequestTopic("t", partitions=(OffsetCommitRequestPartition(0, offset),)),)
    return OffsetCommitRequest(group_id, generation, member_id, topics=topics)


def fetch_request(max_wait_ms: int, min_bytes: int = 0) -> FetchRequest:
    """Builds a request to fetch t-0 from its start."""
    wanted = FetchPartition(0, partition_max_bytes=10_000_000)
    topics = (FetchTopic("t", partitions=(wanted,)),)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=topics)


def end_offset(client: Client, topic: str, partition: int = 0) -> int:
    """Returns the offset behind the last record."""
    asked = (ListOffsetsTopic(topic, (ListOffsetsPartition(partition, timestamp=-1),)),)
    response = client.ask(ListOffsetsRequest(-1, topics=asked), 5)
    found = response.topics[0].partitions[0]
    assert found.error_code == 0
    return found.offset


def join_request(
    group_id: str, member_id: str = "", *, metadata: bytes = b"\0" * 10, session_ms: int = 30_000
) -> JoinGroupRequest:
    """Builds the request of a consumer to join."""
    protocols = (JoinGroupRequestProtocol("range", metadata),)
    return JoinGroupRequest(group_id, session_ms, 60_000, member_id, None, "consumer", protocols)


def join(client: Client, group_id: str) -> JoinGroupResponse:
    """Makes a group of one stable member."""
    first = client.ask(join_request(group_id), 9)
    assert first.error_code == 79
    joined = client.ask(join_request(group_id, first.member_id), 9)
    assert joined.error_code == 0
    members = (SyncGroupRequestAssignment(joined.member_id, b"mine"),)
    synced = client.ask(
        SyncGroupRequest(
            *(group_id, joined.generation_id, joined.member_id, None, "consumer", "range", members)
        ),
        5,
    )
    assert synced.error_code == 0
    assert synced.assignment == b"mine"
    return joined


def committed_offsets(broker: EmbeddedBroker, group_id: str) -> dict[tuple[str, int], Any]:
    """Returns the committed offsets of a group, as its coordinator has them."""

    def read() -> dict[tuple[str, int], Any]:
        runtime: Any = broker._running().cluster.groups.find_for(group_id)
        return dict(runtime.shard.offsets(group_id))

    return broker._on_loop(read)


def eventually(read: Callable[[], object], expected: object) -> None:
    """Waits for what Kafka's brokers learn from their controller a little later."""
    for _ in range(6_000):
        if read() == expected:
            return
        time.sleep(0.01)
    assert read() == expected
