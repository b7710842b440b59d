"""Measure how fast many members become one stable generation, and what a group of one member takes in memory."""

import itertools
import select
import socket
import time
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Final

from groupsdk.wire.api import decode_response
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from tests.benchmarks.broker_load import (
    HEARTBEAT_VERSION,
    JOIN_VERSION,
    SYNC_VERSION,
    add_bytes,
    bytes_of_a_group,
    connected,
    find_coordinator,
    frame_of,
    heartbeat_of,
    join_request,
    receive,
    single_member,
    sync_request,
)
from tests.benchmarks.broker_servers import KAFKA, OURS, Server, in_turn, servers
from tests.benchmarks.report import Result, load, options_of, spread


SIZES: Final = (100, 1000, 2000)
_MEMBER_ID_REQUIRED: Final = 79
_REBALANCE_IN_PROGRESS: Final = 27
_ASSIGNMENT: Final = b"a" * 21
_ASSIGNMENTS_BYTES: Final = 10_240
_BEAT_S: Final = 0.2
_TIMEOUT_S: Final = 60
_WARM_GROUPS: Final = 2000
_NUMBERS: Final = itertools.count()


class _State(Enum):
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    BEATING = "beating"


class _Member:
    """One member over a connection of its own, which does what clients do, and nothing else."""

    __slots__ = ("_first", "_group_id", "_size", "client", "joined", "member_id", "state")

    def __init__(self, client: socket.socket, group_id: str, size: int, first: bytes) -> None:
        self.client = client
        self._group_id = group_id
        self._first = first
        self._size = size
        self.member_id = ""
        self.joined = JoinGroupResponse()
        self.state = _State.JOINING

    def join(self) -> None:
        self.state = _State.JOINING
        if self.member_id:
            self.client.sendall(_join_of(self._group_id, self.member_id))
        else:
            self.client.sendall(self._first)

    def beat(self) -> None:
        self.state = _State.BEATING
        self.client.sendall(heartbeat_of(self._group_id, self.joined))

    def take(self, payload: bytes) -> None:
        if self.state is _State.JOINING:
            self._joined(payload)
            return
        if self.state is _State.SYNCING:
            error = decode_response(SyncGroupRequest, SYNC_VERSION, payload)[1].error_code
        else:
            error = decode_response(HeartbeatRequest, HEARTBEAT_VERSION, payload)[1].error_code
        if error == _REBALANCE_IN_PROGRESS:
            self.join()
        elif error:
            raise RuntimeError(f"a member that is {self.state.value} is answered with {error}")
        else:
            self.state = _State.STABLE

    def _joined(self, payload: bytes) -> None:
        self.joined = joined = decode_response(JoinGroupRequest, JOIN_VERSION, payload)[1]
        self.member_id = joined.member_id
        if joined.error_code == _MEMBER_ID_REQUIRED:
            self.join()
            return
        if joined.error_code:
            raise RuntimeError(f"JoinGroup is answered with {joined.error_code}")
        self.state = _State.SYNCING
        assignments: list[tuple[str, bytes]] = []
        if joined.leader == joined.member_id:
            assignment = b"a" * max(21, _ASSIGNMENTS_BYTES // self._size)
            assignments = [(each.member_id, assignment) for each in joined.members]
        self.client.sendall(
            frame_of(sync_request(self._group_id, joined, assignments), SYNC_VERSION)
        )


def _join_of(group_id: str, member_id: str) -> bytes:
    return frame_of(join_request(group_id, member_id, b"subscription"), JOIN_VERSION)


def form(clients: Sequence[socket.socket], group_id: str) -> float:
    """Have a member on each connection join one group; returns the ms until all have one generation."""
    poller = select.epoll()
    first = _join_of(group_id, "")  # the same for all
    members = {each.fileno(): _Member(each, group_id, len(clients), first) for each in clients}
    for number in members:
        poller.register(number, select.EPOLLIN)
    start = time.perf_counter()
    for member in members.values():
        member.join()
    try:
        while not _is_formed(members.values()):
            events = poller.poll(_BEAT_S)
            for number, _ in events:
                members[number].take(receive(members[number].client))
            if not events:
                if time.perf_counter() - start > _TIMEOUT_S:
                    raise TimeoutError(f"{len(clients)} members of {group_id} are not stable")
                for member in members.values():
                    if member.state is _State.STABLE:
                        member.beat()
        return (time.perf_counter() - start) * 1000
    finally:
        poller.close()


def _is_formed(members: Iterable[_Member]) -> bool:
    generations = set()
    for each in members:
        if each.state is not _State.STABLE:
            return False
        generations.add(each.joined.generation_id)
    return len(generations) == 1


def formation(server: Server, size: int) -> tuple[float, float]:
    """Form a group of so many members; returns ms, and the ms of CPU of the broker."""
    with connected(server, size) as clients:
        cpu_s = server.cpu_s()
        taken_ms = form(clients, f"formed-{next(_NUMBERS)}")
        return taken_ms, (server.cpu_s() - cpu_s) * 1000


def run(arguments: list[str], *, quick: bool) -> Result:
    rounds = 3 if quick else 7
    options = options_of("broker_groups", arguments, rounds=rounds, groups=10_000)
    with servers() as found:
        names = [server.name for server in found]
        before = load()
        for server in found:
            find_coordinator(server)
            formation(server, SIZES[0])
        steps = {f"{size:,} members": partial(formation, size=size) for size in SIZES}
        times = in_turn(options.rounds, steps, found)
        single = partial(single_member, assignment=_ASSIGNMENT)
        memory = {
            server.name: bytes_of_a_group(server, _WARM_GROUPS, options.groups, single)
            for server in found
        }
    result = Result(
        "broker_groups",
        "Brokers: ms until N members, each on a connection, are one stable generation; bytes of a group",
        ["", *names],
        raw={"formation": times, "bytes": memory},
    )
    for size, runs in times.items():
        cells = []
        for name in names:
            cpu = spread((each[1] for each in runs[name]), 0)
            cells.append(f"{spread((each[0] for each in runs[name]), 0)}; CPU {cpu}")
        result.rows.append([size, *cells])
        ours, other = (min(each[0] for each in runs[name]) for name in (OURS, KAFKA))
        if ours > other:
            result.behind.append(f"{size}: {ours:.0f} ms at best, Kafka {other:.0f}")
    add_bytes(result, options.groups, memory)
    result.notes = [
        (
            f"Median (least to most) of {options.rounds} rounds, CPU of the broker in ms; the load average was"
            f" {before} before. Members ask for an id first and join with it, the leader"
            " sends max(21, 10,240 / N) bytes for each. Bytes: growth of a broker by groups of one member with"
            " an assignment of 21 bytes: of the resident set of ours, of the live heap of Kafka and kfake."
        )
    ]
    return result
