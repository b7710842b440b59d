"""Measure how long shards stand still: at restarts, a drain, a death, a rolling restart; and groups of 200 workers."""

import argparse
import json
import os
import shlex
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from typing_extensions import override

from assignors import assign_range
from groupsdk import AbstractCoordinator, GroupMembers, GroupMembershipOperation
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.shards import Lease, ShardWorker
from groupsdk.testing import LocalKafka
from tests.benchmarks.java_connect import ConnectGroup
from tests.benchmarks.report import Result, options_of
from tests.support.connect import RELEASE


_SHARDS, _WORKERS, _ROLLING, _MANY = 120, 5, 20, 200
_TASKS: Final = 60
_DOWN_S: Final = 1.0
_TIMEOUT_S: Final = 180.0
_NOTE: Final = (
    "{} shards on {} workers, threads of one process; heartbeats every {} ms, sessions of {} ms, a restart takes 1 s, a release {} ms. A"
    " shard stands still from the moment that its worker has released or stopped it, or fell silent, until a worker was told to"
    " begin; each cell: how many shards stood still, and the median and the greatest of the seconds. The range worker"
    " is an AbstractCoordinator over assign_range: it stops all work when a rebalance begins, as it cannot know what it"
    " keeps."
)


@dataclass(frozen=True)
class Setup:
    """The broker, and the times of workers in milliseconds."""

    servers: str
    heartbeat_ms: int
    session_ms: int
    release_ms: int = 0


class Book:
    """Which shards run since when, and how long each stood still; what workers tell, on one clock."""

    def __init__(self, release_s: float = 0.0) -> None:
        self.lock = threading.Lock()
        self.release_s = release_s
        """How long a release of a shard worker takes, in which it works on."""
        self.runs: dict[str, int] = {}
        self._still_since: dict[str, float] = {}
        self._gaps: list[float] = []

    def begins(self, worker: int, names: Iterable[str]) -> None:
        """Note that a worker begins with shards."""
        now = time.perf_counter()
        with self.lock:
            for name in names:
                if name in self._still_since:
                    self._gaps.append(now - self._still_since.pop(name))
                self.runs[name] = worker

    def stops(self, worker: int, names: Iterable[str] | None = None) -> None:
        """Note that a worker has stopped shards; None: all that it has."""
        now = time.perf_counter()
        with self.lock:
            mine = [name for name, owner in self.runs.items() if owner == worker]
            for name in mine if names is None else set(mine).intersection(names):
                del self.runs[name]
                self._still_since[name] = now

    def take(self) -> list[float]:
        """Return the gaps so far, and forget them."""
        with self.lock:
            gaps, self._gaps = self._gaps, []
            return gaps


class _Shards(ShardWorker):
    """The worker that this is about."""

    protocol_type = "bench-shards"

    def __init__(self, book: Book, number: int, count: int, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self._book, self._number, self._count = book, number, count

    @override
    def shards(self) -> list[str]:
        return [f"shard-{number}" for number in range(self._count)]

    @override
    def on_shards_gained(self, leases: Sequence[Lease]) -> None:
        self._book.begins(self._number, [lease.name for lease in leases])

    @override
    def on_shards_released(self, names: Sequence[str]) -> None:
        time.sleep(self._book.release_s)
        self._book.stops(self._number, names)

    @override
    def on_shards_lost(self, names: Sequence[str]) -> None:
        self._book.stops(self._number, names)


class _Range(AbstractCoordinator):
    """README's worker, which stops all work when a rebalance begins."""

    protocol_type = "bench-range"

    def __init__(self, book: Book, number: int, count: int, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self._book, self._number, self._count = book, number, count

    @override
    def metadata(self) -> dict[str, bytes]:
        return {"range": b""}

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        shares = assign_range(range(self._count), members)
        return {member: json.dumps(share).encode() for member, share in shares.items()}

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None:
        self._book.stops(self._number)

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self._book.begins(self._number, [f"shard-{each}" for each in json.loads(assignment)])

    @override
    def on_leave_prepare(self) -> None:
        self._book.stops(self._number)


CONNECT: Final = f"Kafka Connect {RELEASE}"
KINDS: Final[dict[str, Callable[..., Any]]] = {
    "ShardWorker": _Shards,
    "range worker": _Range,
}


class Member:
    """One worker on a thread of its own."""

    def __init__(self, group: "Group", number: int, instance: str | None) -> None:
        self.number = number
        self.instance = instance
        settings = dict(group.settings)
        if instance is not None:
            settings["group.instance.id"] = instance
        self._book = group.book
        self._worker = KINDS[group.kind](group.book, number, group.shards, settings)
        self._stop = threading.Event()
        self._drain = self._dead = False
        self._operation = GroupMembershipOperation.DEFAULT
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def leads(self) -> bool:
        """Whether it leads its group."""
        leads: bool = self._worker.snapshot().is_leader
        return leads

    def end(self, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT) -> None:
        """End in good order: close."""
        self._operation = operation
        self._stop.set()
        self._worker.wakeup()
        self._thread.join(_TIMEOUT_S)

    def drain(self) -> None:
        """Drain, and end."""
        self._drain = True
        self.end()

    def die(self) -> None:
        """Fall silent, as a process does that is killed."""
        self._dead = True
        self._stop.set()
        host = self._worker._groupsdk_handle.host
        host.abort()
        self._book.stops(self.number)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._worker.poll(0.2)
            except Exception:
                if not self._stop.is_set():
                    raise
        if self._dead:
            return
        if self._drain:
            self._worker.drain()
            while not self._worker.drained:
                self._worker.poll(0.2)
        self._worker.close(10, self._operation)


class Group:
    """Workers of one kind that share shards."""

    def __init__(self, kind: str, setup: Setup, shards: int = _SHARDS) -> None:
        self.kind = kind
        self.book = Book(setup.release_ms / 1000)
        self.shards = shards
        self.members: dict[int, Member] = {}
        self.settings: dict[str, Any] = {
            "bootstrap.servers": setup.servers,
            "group.id": f"handover-{uuid.uuid4().hex[:8]}",
            "heartbeat.interval.ms": setup.heartbeat_ms,
            "session.timeout.ms": setup.session_ms,
            "rebalance.timeout.ms": 60_000,
        }
        self._started = 0

    def start(self, instance: str | None = None) -> Member:
        self._started += 1
        member = self.members[self._started] = Member(self, self._started, instance)
        return member

    def rest(self) -> None:
        """Wait until all shards run, each worker has its share, and that stays so for two heartbeats."""
        until = time.monotonic() + _TIMEOUT_S
        calm_s = 2 * self.settings["heartbeat.interval.ms"] / 1000
        since: float | None = None
        while since is None or time.monotonic() - since < calm_s:
            if time.monotonic() > until:
                raise TimeoutError(
                    f"{self.kind}: the group does not come to rest: {self._counts()}"
                )
            if not self._shared():
                since = None
            elif since is None:
                since = time.monotonic()
            time.sleep(0.01)

    def settled(self) -> float:
        """Wait until all shards run and each worker has its share, and return the seconds that this took."""
        began = time.perf_counter()
        while not self._shared():
            if time.perf_counter() - began > _TIMEOUT_S:
                raise TimeoutError(
                    f"{self.kind}: the group does not come to rest: {self._counts()}"
                )
            time.sleep(0.005)
        return time.perf_counter() - began

    def end(self) -> None:
        for member in self.members.values():
            member._stop.set()
        for member in self.members.values():
            member.end(GroupMembershipOperation.LEAVE_GROUP)

    def _counts(self) -> list[int]:
        with self.book.lock:
            owners = list(self.book.runs.values())
        return [owners.count(each) for each in self.members]

    def _shared(self) -> bool:
        counts = self._counts()
        return sum(counts) == self.shards and min(counts) >= self.shards // len(counts)


def _restart(group: Group, end: Callable[[Member], None]) -> list[float]:
    """Restart one worker, which is not the leader, and return the gaps."""
    number = next(each for each, member in group.members.items() if not member.leads)
    member = group.members.pop(number)
    group.book.take()
    end(member)
    time.sleep(_DOWN_S)
    group.start(member.instance)
    group.rest()
    return group.book.take()


def measure_events(kind: str, setup: Setup) -> dict[str, list[float]]:
    """Return the gaps of each event."""
    found: dict[str, list[float]] = {}
    static = Group(kind, setup)
    for number in range(_WORKERS):
        static.start(f"i{number}")
    static.rest()
    found["restart, static"] = _restart(static, Member.end)
    static.end()
    group = Group(kind, setup)
    for _ in range(_WORKERS):
        group.start()
    group.rest()
    found["restart, dynamic"] = _restart(group, Member.end)
    if kind == "ShardWorker":
        found["restart with drain"] = _restart(group, Member.drain)
    found["kill -9"] = _restart(group, Member.die)
    group.end()
    return found


def measure_rolling(kind: str, setup: Setup) -> tuple[list[float], list[float]]:
    """Restart 20 workers, one after the other, those of ours with a drain; return the gaps, and how long each end took."""
    group = Group(kind, setup)
    for _ in range(_ROLLING):
        group.start()
    group.rest()
    group.book.take()
    ends: list[float] = []
    for number in list(group.members):
        member = group.members.pop(number)
        began = time.perf_counter()
        (member.drain if kind == "ShardWorker" else member.end)()
        ends.append(time.perf_counter() - began)
        group.start()
        group.settled()
    gaps = group.book.take()
    group.end()
    return gaps, ends


def measure_connect(
    setup: Setup, delay_ms: int, folder: Path, *, rolling: bool
) -> tuple[dict[str, list[float]], int]:
    """Return the gaps of each event with Java's Connect workers, each a process, and tasks in place of shards.

    The second is how many workers hung when they were to end.
    """
    group = ConnectGroup(
        setup.servers,
        folder,
        tasks=_TASKS,
        heartbeat_ms=setup.heartbeat_ms,
        session_ms=setup.session_ms,
        delay_ms=delay_ms,
    )
    found: dict[str, list[float]] = {}
    try:
        group.start()
        group.configure()
        for _ in range(_WORKERS - 1):
            group.start()
        group.rest()
        for event, end in (("restart, dynamic", group.end), ("kill -9", group.kill)):
            mark = group.mark()
            end([*group.workers][1])
            time.sleep(_DOWN_S)
            group.start()
            group.rest()
            found[event] = group.gaps_since(mark)
        if rolling:
            for _ in range(_ROLLING - _WORKERS):
                group.start()
            group.rest()
            mark = group.mark()
            for port in [*group.workers]:
                group.end(port)
                group.start()
                group.rest()
            found[f"rolling restart of {_ROLLING}"] = group.gaps_since(mark)
    finally:
        group.close()
    return found, group.hung


def measure_many(setup: Setup) -> dict[str, float]:
    """Have 200 workers start at once, one more join, and one leave; return the seconds of each."""
    group = Group("ShardWorker", setup, shards=10 * _MANY)
    for _ in range(_MANY):
        group.start()
    found = {"start": group.settled()}
    group.rest()
    group.start()
    found["one joins"] = group.settled()
    group.rest()
    group.book.take()
    group.members.pop(next(iter(group.members))).end()
    found["one leaves"] = group.settled()
    found["stood still"] = max(group.book.take(), default=0.0)
    group.end()
    return found


def _cell(gaps: list[float] | None) -> str:
    if gaps is None:
        return "-"
    if not gaps:
        return "0"
    return f"{len(gaps)}: {statistics.median(gaps):.2f}, {max(gaps):.2f}"


def run(arguments: list[str], *, quick: bool) -> Result:
    """Measure all kinds on Kafka, and 200 workers on Kafka and on the embedded broker."""
    del quick
    given = options_of(
        "shard_handover",
        arguments,
        heartbeat_ms=1_000,
        session_ms=10_000,
        kinds=",".join(KINDS),  # and `CONNECT`, which takes a quarter of an hour
        connect_delay_ms=0,
        release_ms=0,
        no_rolling=False,
        no_many=False,
    )
    command = " ".join(shlex.quote(each) for each in arguments)
    with LocalKafka() as kafka:
        return _measured(kafka, given, command)


def _measured(kafka: LocalKafka, given: argparse.Namespace, command: str) -> Result:
    setup = Setup(kafka.bootstrap_servers, given.heartbeat_ms, given.session_ms, given.release_ms)
    result = Result(
        "shard_handover",
        "Shards that stand still: how many, and seconds each (median, greatest)",
        ("event", *given.kinds.split(",")),
        notes=[
            _NOTE.format(_SHARDS, _WORKERS, given.heartbeat_ms, given.session_ms, given.release_ms)
        ],
    )
    before = os.getloadavg()[0]
    figures: dict[str, dict[str, Any]] = {}
    for kind in given.kinds.split(","):
        if kind == CONNECT:
            with TemporaryDirectory() as folder:
                figures[kind], hung = measure_connect(
                    setup, given.connect_delay_ms, Path(folder), rolling=not given.no_rolling
                )
            result.notes.append(
                f"Kafka Connect: {_TASKS} tasks that do nothing, each worker a process; it has no static workers and no"
                f" drain. scheduled.rebalance.max.delay.ms is {given.connect_delay_ms} (300,000 by default: for so long"
                f" the tasks of a worker that is gone wait for it). {hung} workers did not end when they were told to, and"
                " were killed after a minute."
            )
            continue
        figures[kind] = measure_events(kind, setup)
        if given.no_rolling:
            continue
        gaps, ends = measure_rolling(kind, setup)
        figures[kind][f"rolling restart of {_ROLLING}"] = gaps
        result.notes.append(
            f"In the rolling restart the end of each {kind} took {statistics.median(ends):.1f} s (median), at most"
            f" {max(ends):.1f} s."
        )
    events = dict.fromkeys(event for each in figures.values() for event in each)
    for event in events:
        result.rows.append((event, *(_cell(each.get(event)) for each in figures.values())))
    if not given.no_many:
        for where, found in _many(kafka, setup).items():
            figures[where] = found
            result.notes.append(
                f"{_MANY} workers, {10 * _MANY} shards on {where}: all own their share {found['start']:.1f} s after"
                f" the start, {found['one joins']:.1f} s after one more joins, {found['one leaves']:.1f} s after one"
                f" leaves; no shard stands still for longer than {found['stood still']:.1f} s then."
            )
    result.notes.append(
        f"The machine did other work at the same time: the load average was {before:.0f} at the beginning and"
        f" {os.getloadavg()[0]:.0f} at the end, on {os.cpu_count()} cores. Command: `python -m tests.benchmarks --only"
        f" shard_handover -- {command}`."
    )
    result.raw = figures
    return result


def _many(kafka: LocalKafka, setup: Setup) -> dict[str, dict[str, float]]:
    with EmbeddedBroker() as broker:
        embedded = measure_many(replace(setup, servers=broker.bootstrap_servers))
    return {
        "the embedded broker": embedded,
        f"Kafka {kafka.version}": measure_many(setup),
    }
