"""Ask brokers as fast as they answer, over raw sockets with frames that were made before.

The generator must not be what is measured: it does nothing but send a frame, receive the answer and compare
it with the one that is right, which costs 3 to 8 us an operation in a process of its own.
"""

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from groupsdk.wire.api import decode_response, encode_request
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from groupsdk.wire.messages.metadata import FindCoordinatorRequest
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from groupsdk.wire.schema import Request, Response
from tests.benchmarks.broker_servers import OURS, TOPIC, Server
from tests.benchmarks.report import Result, percentile


JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
COMMIT_VERSION: Final = 9
_FIND_VERSION: Final = 4
_MEMBER_ID_REQUIRED: Final = 79
_NOT_READY: Final = (14, 15, 16)
_CORRELATION_ID: Final = 7
_CLIENT_ID: Final = "benchmark"
_SESSION_MS: Final = 300_000
_PROTOCOL: Final = "range"
_LENGTH: Final = struct.Struct(">i")
_TIMEOUT_S: Final = 60
_AIM_KB: Final = 2.2

R = TypeVar("R", bound=Response)


@dataclass(frozen=True, slots=True)
class Speed:
    """What a run at full speed came to."""

    operations: int
    seconds: float
    cpu_s: float
    latencies_ms: tuple[float, ...]

    @property
    def per_second(self) -> float:
        """Answers in a second."""
        return self.operations / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU of the broker's process for one answer, in microseconds."""
        return self.cpu_s * 1e6 / self.operations

    @property
    def p99_ms(self) -> float:
        """What 99 of 100 answers did not take longer than."""
        return percentile(self.latencies_ms, 0.99)


def connect(server: Server, count: int) -> list[socket.socket]:
    """Open connections; a process of its own leaves them open to its end."""
    made = []
    for _ in range(count):
        client = socket.create_connection((server.host, server.port), _TIMEOUT_S)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.append(client)
    return made


@contextlib.contextmanager
def connected(server: Server, count: int = 1) -> Iterator[list[socket.socket]]:
    """Open connections, and close them."""
    clients = connect(server, count)
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


def frame_of(request: Request[Any], version: int) -> bytes:
    return encode_request(request, version, _CORRELATION_ID, _CLIENT_ID)


def receive(client: socket.socket) -> bytes:
    """Wait for one answer; returns it without its length."""
    data = b""
    while len(data) < 4 or len(data) < 4 + _LENGTH.unpack_from(data)[0]:
        more = client.recv(1 << 20)
        if not more:
            raise ConnectionError("the broker closed a connection")
        data += more
    return data[4:]


def ask(client: socket.socket, request: Request[R], version: int) -> R:
    """Send a request and wait for its answer."""
    client.sendall(frame_of(request, version))
    return decode_response(type(request), version, receive(client))[1]


def find_coordinator(server: Server) -> None:
    """Have a broker make its `__consumer_offsets`, and wait until it serves a group."""
    give_up = time.monotonic() + _TIMEOUT_S
    with connected(server) as (client,):
        while time.monotonic() < give_up:
            found = FindCoordinatorRequest(coordinator_keys=("first",))
            if ask(client, found, _FIND_VERSION).coordinators[0].error_code == 0:
                joined = ask(client, join_request("first", ""), JOIN_VERSION)
                if joined.error_code not in _NOT_READY:
                    return
            time.sleep(0.02)
    raise TimeoutError(f"{server.name} does not coordinate groups")


def join_request(group_id: str, member_id: str, metadata: bytes = b"") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=_SESSION_MS,
        rebalance_timeout_ms=_SESSION_MS,
        member_id=member_id,
        protocol_type="benchmark",
        protocols=(JoinGroupRequestProtocol(_PROTOCOL, metadata),),
    )


def sync_request(
    group_id: str, joined: JoinGroupResponse, assignments: Sequence[tuple[str, bytes]]
) -> SyncGroupRequest:
    """Make the request that a member sends after it joined."""
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="benchmark",
        protocol_name=_PROTOCOL,
        assignments=tuple(SyncGroupRequestAssignment(*each) for each in assignments),
    )


def single_member(
    client: socket.socket, group_id: str, assignment: bytes = b""
) -> JoinGroupResponse:
    """Make a group of one member, stable; returns how it joined."""
    joined = ask(client, join_request(group_id, ""), JOIN_VERSION)
    if joined.error_code == _MEMBER_ID_REQUIRED:
        joined = ask(client, join_request(group_id, joined.member_id), JOIN_VERSION)
    if joined.error_code:
        raise RuntimeError(f"{group_id}: JoinGroup is answered with {joined.error_code}")
    own = ((joined.member_id, assignment),)
    synced: SyncGroupResponse = ask(client, sync_request(group_id, joined, own), SYNC_VERSION)
    if synced.error_code or synced.assignment != assignment:
        raise RuntimeError(f"{group_id}: SyncGroup is answered with {synced.error_code}")
    return joined


def heartbeat_of(group_id: str, joined: JoinGroupResponse) -> bytes:
    """Make the bytes of a member's heartbeat."""
    request = HeartbeatRequest(group_id, joined.generation_id, joined.member_id)
    return frame_of(request, HEARTBEAT_VERSION)


def commit_of(group_id: str, joined: JoinGroupResponse, partitions: int) -> bytes:
    """Make the bytes of a member's commit of so many partitions."""
    offsets = tuple(OffsetCommitRequestPartition(each, 1_000_000) for each in range(partitions))
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=joined.generation_id,
        member_id=joined.member_id,
        topics=(OffsetCommitRequestTopic(TOPIC, partitions=offsets),),
    )
    return frame_of(request, COMMIT_VERSION)


def check_heartbeat(payload: bytes) -> None:
    """Refuse an answer that is not the right one."""
    answer: HeartbeatResponse = decode_response(HeartbeatRequest, HEARTBEAT_VERSION, payload)[1]
    if answer.error_code:
        raise RuntimeError(f"Heartbeat is answered with {answer.error_code}")


def check_commit(payload: bytes) -> None:
    """Refuse an answer that is not the right one."""
    answer: OffsetCommitResponse = decode_response(OffsetCommitRequest, COMMIT_VERSION, payload)[1]
    errors = {each.error_code for topic in answer.topics for each in topic.partitions}
    if errors != {0}:
        raise RuntimeError(f"OffsetCommit is answered with {errors}")


def bytes_of_a_group(
    server: Server, warm: int, count: int, make: Callable[[socket.socket, str], object]
) -> float:
    """Return what each of so many further groups takes that `make` makes over a connection."""
    held = server.live_heap or server.resident
    with connected(server) as (client,):
        for number in range(warm):
            make(client, f"warm-{number}")
        before = held()
        for number in range(count):
            make(client, f"single-{number:05}")
        return (held() - before) / count


def add_bytes(result: Result, groups: int, memory: Mapping[str, float]) -> None:
    """Write the row of what a group takes with each broker."""
    cells = [f"{each / 1000:.2f} KB" for each in memory.values()]
    result.rows.append([f"one of {groups:,} groups", *cells])
    if memory[OURS] > _AIM_KB * 1000:
        result.behind.append(f"a group takes {memory[OURS] / 1000:.2f} KB, the aim is {_AIM_KB}")


def full_speed(
    server: Server,
    clients: Sequence[socket.socket],
    frames: Sequence[bytes],
    check: Callable[[bytes], None],
    seconds: float,
) -> Speed:
    """Send one frame on each connection, and again whenever its answer is there, for so long.

    The first answer of each connection is checked; all others have to be the same bytes.
    """
    right = []
    for client, frame in zip(clients, frames, strict=True):
        client.sendall(frame)
        payload = receive(client)
        check(payload)
        right.append(_LENGTH.pack(len(payload)) + payload)
    cpu_s, start = server.cpu_s(), time.perf_counter()
    run = _one if len(clients) == 1 else _many
    latencies = run(clients, frames, right, seconds)
    taken = time.perf_counter() - start
    return Speed(len(latencies), taken, server.cpu_s() - cpu_s, tuple(latencies))


def _one(
    clients: Sequence[socket.socket],
    frames: Sequence[bytes],
    right: Sequence[bytes],
    seconds: float,
) -> list[float]:
    client, frame, answer = clients[0], frames[0], right[0]
    send, recv, now = client.send, client.recv, time.perf_counter
    size = len(answer)
    latencies = []
    start = now()
    end = start + seconds
    while start < end:
        send(frame)
        data = recv(65536)
        while len(data) < size:
            data += _more(client)
        after = now()
        if data != answer:
            raise RuntimeError(f"an answer is {data!r} where {answer!r} came before")
        latencies.append((after - start) * 1000)
        start = after
    return latencies


def _many(
    clients: Sequence[socket.socket],
    frames: Sequence[bytes],
    right: Sequence[bytes],
    seconds: float,
) -> list[float]:
    poller, now = select.epoll(), time.perf_counter
    by_number: dict[int, int] = {}
    sent = []
    parts = [b""] * len(clients)
    latencies: list[float] = []
    for index, client in enumerate(clients):
        by_number[client.fileno()] = index
        poller.register(client.fileno(), select.EPOLLIN)
    end = now() + seconds
    for client, frame in zip(clients, frames, strict=True):
        sent.append(now())
        client.send(frame)
    flying = len(clients)
    while flying:
        for number, _ in poller.poll(_TIMEOUT_S):
            index = by_number[number]
            client, answer = clients[index], right[index]
            data = parts[index] + _more(client)
            if len(data) < len(answer):
                parts[index] = data
                continue
            parts[index] = b""
            after = now()
            if data != answer:
                raise RuntimeError(f"an answer is {data!r} where {answer!r} came before")
            latencies.append((after - sent[index]) * 1000)
            if after < end:
                sent[index] = after
                client.send(frames[index])
            else:
                flying -= 1
    poller.close()
    return latencies


def _more(client: socket.socket) -> bytes:
    data = client.recv(65536)
    if not data:
        raise ConnectionError("the broker closed a connection")
    return data
