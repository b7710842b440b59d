"""Measure consumer groups (KIP-848): heartbeats at full speed, many members until all is reconciled, memory of a group."""

import argparse
import itertools
import select
import socket
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from groupsdk.wire.api import decode_response
from groupsdk.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from groupsdk.wire.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from tests.benchmarks.broker_load import (
    Speed,
    add_bytes,
    ask,
    bytes_of_a_group,
    connected,
    find_coordinator,
    frame_of,
    full_speed,
    receive,
)
from tests.benchmarks.broker_servers import (
    KAFKA,
    OURS,
    PARTITIONS,
    TOPIC,
    Server,
    in_turn,
    servers,
)
from tests.benchmarks.report import Result, load, options_of, spread
from tests.support.topics import create_topic


CONNECTIONS: Final = (1, 8, 64)
_VERSION: Final = 0
_TIMEOUT_S: Final = 120
_PAUSE_S: Final = 0.05
_WARM_GROUPS: Final = 500
_NUMBERS: Final = itertools.count()
_STEPS: Final = ("from nothing", "one leaves", "the topic grows")


def _request(group_id: str, member_id: str, epoch: int, **fields: Any) -> bytes:
    return frame_of(ConsumerGroupHeartbeatRequest(group_id, member_id, epoch, **fields), _VERSION)


def _read(payload: bytes) -> ConsumerGroupHeartbeatResponse:
    answer: ConsumerGroupHeartbeatResponse
    answer = decode_response(ConsumerGroupHeartbeatRequest, _VERSION, payload)[1]
    if answer.error_code:
        raise RuntimeError(f"a heartbeat is answered with {answer.error_code}: {answer}")
    return answer


class Member:
    """A member over a connection of its own: it acknowledges at once, and else sends a heartbeat now and then."""

    def __init__(self, client: socket.socket, group_id: str, topic: str) -> None:
        self.client = client
        self.group_id = group_id
        self.member_id = f"m{next(_NUMBERS)}"
        self.epoch = 0
        self.owned: dict[UUID, tuple[int, ...]] = {}
        self.size = 0
        """How many partitions it has."""
        self.due_s = 0.0
        self.waits = False
        self._topic = topic
        self.tells = False

    def beat(self) -> None:
        fields: dict[str, Any] = {}
        if not self.epoch:
            fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": (self._topic,)}
            fields["topic_partitions"] = ()
        elif self.tells:
            fields["topic_partitions"] = tuple(TopicPartitions(*e) for e in self.owned.items())
        self.tells = False
        self.waits = True
        self.client.sendall(_request(self.group_id, self.member_id, self.epoch, **fields))

    def take(self, now_s: float) -> None:
        answer = _read(receive(self.client))
        self.waits = False
        self.epoch = answer.member_epoch
        self.due_s = now_s + _PAUSE_S
        if answer.assignment is not None:
            given = answer.assignment.topic_partitions
            new = {each.topic_id: each.partitions for each in given if each.partitions}
            if new != self.owned:
                self.owned, self.tells, self.due_s = new, True, now_s
                self.size = sum(map(len, new.values()))

    def leave(self) -> None:
        self.client.sendall(_request(self.group_id, self.member_id, -1))
        receive(self.client)


def settle(members: Sequence[Member], partitions: int) -> float:
    """Send heartbeats until all partitions have an owner in one epoch; return the ms that it took."""
    poller = select.epoll()
    by_number = {each.client.fileno(): each for each in members}
    for number in by_number:
        poller.register(number, select.EPOLLIN)
    # those that wait for their time: each for as long as the others, so that the first came in first
    pausing: deque[Member] = deque()
    due = [each for each in members if not each.waits]
    owned = sum(each.size for each in members)
    start = time.perf_counter()
    try:
        while True:
            now_s = time.perf_counter()
            if now_s - start > _TIMEOUT_S:
                raise TimeoutError(f"{owned} of {partitions} partitions have an owner")
            while pausing and pausing[0].due_s <= now_s:
                due.append(pausing.popleft())
            while due:
                due.pop().beat()
            for number, _ in poller.poll(_PAUSE_S / 10):
                member = by_number[number]
                owned -= member.size
                member.take(time.perf_counter())
                owned += member.size
                if member.tells:
                    due.append(member)
                else:
                    pausing.append(member)
            if owned == partitions and not due and _is_settled(members, partitions):
                return (time.perf_counter() - start) * 1000
    finally:
        poller.close()
        _take_what_comes(members)


def _take_what_comes(members: Iterable[Member]) -> None:
    for each in members:
        if each.waits:
            each.take(0.0)


def _is_settled(members: Sequence[Member], partitions: int) -> bool:
    least = partitions // len(members)
    if any(each.size < least for each in members):
        return False
    return len({each.epoch for each in members}) == 1 and not any(each.tells for each in members)


def course(server: Server, size: int) -> list[tuple[float, float]]:
    """Take a group through the steps; return the ms of each, and the ms of CPU of the broker."""
    group_id = topic = f"course-{next(_NUMBERS)}"
    grown = size + 50
    create_topic(server.address, topic, size)
    found = []

    def timed(step: Callable[[], float]) -> None:
        cpu_s = server.cpu_s()
        taken_ms = step()
        found.append((taken_ms, (server.cpu_s() - cpu_s) * 1000))

    with connected(server, size) as clients, connected(server) as (admin,):
        members = [Member(each, group_id, topic) for each in clients]
        timed(lambda: settle(members, size))
        gone = members.pop()
        gone.leave()
        timed(lambda: settle(members, size))
        asked = (CreatePartitionsTopic(topic, grown, None),)
        made = ask(admin, CreatePartitionsRequest(asked, 60_000), 3)
        assert made.results[0].error_code == 0, made
        timed(lambda: settle(members, grown))
        for each in members:
            each.leave()
    return found


def stable(server: Server, connections: int, seconds: float) -> Speed:
    """Send heartbeats of stable members at full speed, each in a group of its own."""
    with connected(server, connections) as clients:
        frames = []
        for client in clients:
            member = Member(client, f"stable-{next(_NUMBERS)}", TOPIC)
            settle([member], PARTITIONS)
            frames.append(_request(member.group_id, member.member_id, member.epoch))
        return full_speed(server, clients, frames, lambda payload: None, seconds)


def _single(client: socket.socket, name: str) -> None:
    member = Member(client, name, "narrow")
    for _ in range(2):
        member.beat()
        member.take(0.0)


def run(arguments: list[str], *, quick: bool) -> Result:
    options = options_of(
        "broker_consumer_groups",
        arguments,
        seconds=1.0 if quick else 3.0,
        rounds=2 if quick else 5,
        members=200 if quick else 1_000,
        groups=2_000 if quick else 10_000,
    )
    with servers() as found:
        before = load()
        for server in found:
            find_coordinator(server)
            stable(server, CONNECTIONS[-1], 2.0 if server.name == KAFKA else 0.1)
            create_topic(server.address, "narrow", 4)
        steps = {
            f"{count}": partial(stable, connections=count, seconds=options.seconds)
            for count in CONNECTIONS
        }
        speeds = in_turn(options.rounds, steps, found)
        courses = in_turn(options.rounds, {"": partial(course, size=options.members)}, found)[""]
        memory = {
            server.name: bytes_of_a_group(server, _WARM_GROUPS, options.groups, _single)
            for server in found
        }
    return _result(options, [server.name for server in found], speeds, courses, memory, before)


def _result(
    options: argparse.Namespace,
    names: Sequence[str],
    speeds: dict[str, dict[str, list[Speed]]],
    courses: dict[str, list[list[tuple[float, float]]]],
    memory: dict[str, float],
    before: str,
) -> Result:
    result = Result(
        "broker_consumer_groups",
        "Brokers: consumer groups (KIP-848)",
        ["", *names],
        raw={"courses": courses, "bytes": memory},
    )
    for count, by_name in speeds.items():
        cells = []
        for name in names:
            rate = max(each.per_second for each in by_name[name])
            cells.append(f"{rate:,.0f}/s, CPU {_cpu_us(by_name[name]):.0f} us")
        result.rows.append([f"heartbeats of stable members, connections: {count}", *cells])
        ours, other = (_cpu_us(by_name[name]) for name in (OURS, KAFKA))
        if ours > other:
            result.behind.append(f"{count} connections: {ours:.0f} us of CPU, Kafka {other:.0f}")
    for number, step in enumerate(_STEPS):
        taken = {
            name: [(each[number][0], each[number][1]) for each in courses[name]] for name in names
        }
        cells = [
            f"{spread((t for t, _ in taken[name]), 0)} ms; CPU {spread((c for _, c in taken[name]), 0)}"
            for name in names
        ]
        result.rows.append([f"{options.members:,} members, {step}", *cells])
        ours, other = (_least(taken[name]) for name in (OURS, KAFKA))
        if ours > other:
            result.behind.append(f"{step}: {ours:.0f} ms at best, Kafka {other:.0f}")
    add_bytes(result, options.groups, memory)
    result.notes = [
        (
            f"{options.rounds} rounds, the brokers in turn; the load average was {before} before. CPU of"
            " the broker for one heartbeat: the median. Every broker has Kafka's defaults"
            " (group.consumer.assignment.interval.ms=1000: a target is a second old before the next is computed). Members have a"
            " connection each, acknowledge at once and else send a heartbeat 50 ms after each answer; until every partition has an"
            " owner and all members are in one epoch. Bytes: growth by groups of one member with 4 partitions: of the resident set"
            " of ours, of the live heap of Kafka and kfake."
        )
    ]
    return result


def _cpu_us(runs: Iterable[Speed]) -> float:
    return statistics.median(each.cpu_us for each in runs)


def _least(runs: Iterable[tuple[float, float]]) -> float:
    return min(each for each, _ in runs)
