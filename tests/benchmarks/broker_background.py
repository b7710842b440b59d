"""Measure commits of one connection while the broker is busy with something else: compaction, or a group that forms.

On a machine that does other work rates and times say who got the processors: a broker with one thread loses more of them
beside three busy processes than one with twenty. So the CPU that the broker spent between a request and its response is
measured as well, by the clock of its process: what other work went first.
"""

import contextlib
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from confluent_kafka import Producer

from groupsdk.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.benchmarks.broker_consumer_groups import Member, settle
from tests.benchmarks.broker_groups import form
from tests.benchmarks.broker_load import (
    ask,
    check_commit,
    commit_of,
    connect,
    connected,
    receive,
    single_member,
)
from tests.benchmarks.broker_requests import Case
from tests.benchmarks.broker_servers import KAFKA, OURS, Server, in_turn, servers
from tests.benchmarks.report import Result, load, options_of, percentile
from tests.support.processes import LineProgram
from tests.support.topics import create_topic


_MODULE: Final = "tests.benchmarks.broker_background"
_BROKER: Final = 4
_ALTER_VERSION: Final = 1
_KEYS: Final = 1_000
_WARM_S: Final = 4.0
_TIMEOUT_S: Final = 60
_COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
}
ALONE: Final = "commits alone"
_COMMIT: Final = Case("OffsetCommit", 1, 1)
_CPUCLOCK_SCHED: Final = 2
_NUMBERS: Final = itertools.count()
_CONSUMER, _CLASSIC = "consumer", "classic"

Work = Callable[[Server, str], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class _Commits:
    """What one connection that commits measured, one request at a time."""

    seconds: float
    latencies_ms: tuple[float, ...]
    cpu_ms: tuple[float, ...]
    """The CPU of the broker's process between each request and its response."""

    @property
    def per_second(self) -> float:
        """Answers in a second."""
        return len(self.latencies_ms) / self.seconds

    @property
    def p99_ms(self) -> float:
        """What 99 of 100 answers did not take longer than."""
        return percentile(self.latencies_ms, 0.99)


def _commits(server: Server, seconds: float) -> _Commits:
    # the CPU-time clock of another process, as clock_getcpuclockid(3) makes it
    clock = (~server.pid << 3) | _CPUCLOCK_SCHED
    latencies, spent, payload = [], [], b""
    with connected(server) as (client,):
        name = f"beside-{next(_NUMBERS)}"
        frame = commit_of(name, single_member(client, name), 1)
        begin = before = time.perf_counter_ns()
        end = begin + int(seconds * 1e9)
        while before < end:
            cpu = time.clock_gettime_ns(clock)
            client.sendall(frame)
            payload = receive(client)
            spent.append((time.clock_gettime_ns(clock) - cpu) / 1e6)
            after = time.perf_counter_ns()
            latencies.append((after - before) / 1e6)
            before = after
    check_commit(payload)
    return _Commits((before - begin) / 1e9, tuple(latencies), tuple(spent))


@contextlib.contextmanager
def nothing(_server: Server, _name: str) -> Iterator[None]:
    """Leave the broker alone."""
    yield


def compaction(records: int) -> Work:
    """Have it compact a topic of so many records of 100 bytes and 1,000 keys, which begins within 0.1 s."""

    @contextlib.contextmanager
    def work(server: Server, name: str) -> Iterator[None]:
        create_topic(server.address, name, config=_COMPACTED)
        producer = Producer({"bootstrap.servers": server.address, "linger.ms": 5, "log_level": 3})
        for number in range(records):
            producer.produce(name, b"r" * 100, key=b"%d" % (number % _KEYS), partition=0)
            if not number % 1_000:
                producer.poll(0)
                if not number % 50_000:
                    producer.flush(_TIMEOUT_S)
        if producer.flush(_TIMEOUT_S):
            raise TimeoutError("not everything was written")
        yield

    return work


def forming(members: int, kind: str) -> Work:
    """Have so many members join in another process: in the consumer protocol until they have as many partitions."""

    @contextlib.contextmanager
    def work(server: Server, name: str) -> Iterator[None]:
        create_topic(server.address, name, members)
        command = [sys.executable, "-m", _MODULE, server.address, name, str(members), kind]
        with LineProgram(command) as child:
            next(child.lines())  # it is connected
            child.send("")
            yield
            child.await_end(_TIMEOUT_S)

    return work


def clean_often(server: Server) -> None:
    """Have the cleaner look for work every 0.1 s, by a setting that both brokers can change while they run."""
    setting = IncrementalAlterableConfig("log.cleaner.backoff.ms", 0, "100")
    request = IncrementalAlterConfigsRequest(
        (IncrementalAlterConfigsResource(_BROKER, "", (setting,)),)
    )
    with connected(server) as (client,):
        response = ask(client, request, _ALTER_VERSION)
    assert response.responses[0].error_code == 0, response


def run(arguments: list[str], *, quick: bool) -> Result:
    options = options_of(
        "broker_background",
        arguments,
        seconds=1.0 if quick else 2.0,
        rounds=2 if quick else 5,
        records=200_000 if quick else 500_000,
        members=200 if quick else 1_000,
    )
    kinds: dict[str, Work] = {
        ALONE: nothing,
        f"while a log of {options.records:,} records is compacted": compaction(options.records),
        f"while a group of {options.members:,} forms": forming(options.members, _CONSUMER),
        f"while a classic group of {options.members:,} forms": forming(options.members, _CLASSIC),
    }

    def commits_beside(work: Work, server: Server) -> _Commits:
        with work(server, f"background-{next(_NUMBERS)}"):
            return _commits(server, options.seconds)

    with servers() as found:
        before = load()
        measured = [server for server in found if server.name in {OURS, KAFKA}]
        names = [server.name for server in measured]
        for server in measured:
            clean_often(server)
            _COMMIT.run(server, _WARM_S if server.name == KAFKA else _WARM_S / 20)
        steps = {kind: partial(commits_beside, work) for kind, work in kinds.items()}
        speeds = in_turn(options.rounds, steps, measured)
    result = Result(
        "broker_background",
        "Brokers: commits of one connection beside other work: a second, ms of the 99th percentile; CPU ms of the broker between"
        " request and response, of the 99th percentile and at most",
        ["one in flight on one connection", *names],
        rows=[
            [kind, *(_cell(by_name, speeds[ALONE], each) for each in names)]
            for kind, by_name in speeds.items()
        ],
        raw={
            kind: {
                name: [(each.per_second, each.p99_ms, max(each.cpu_ms)) for each in runs]
                for name, runs in by_name.items()
            }
            for kind, by_name in speeds.items()
        },
    )
    result.notes = [
        (
            f"Medians of {options.rounds} rounds of {options.seconds:g} s each, the brokers in turn; in brackets the part of the"
            " rate alone. The load average was"
            f" {before} before. The cleaner looks for work every 0.1 s. Kafka compacts, loads"
            " and assigns on threads of its own, and so on other cores; ours has one loop, of which compaction gets a"
            " tenth and a group that forms a third while clients are served, and runs assignors on threads that share its interpreter. The CPU of Kafka"
            " is that of all its threads, of which few keep a commit waiting. Command:"
            " `python -m tests.benchmarks --full --only broker_background`."
        )
    ]
    return result


def _cell(by_name: dict[str, list[_Commits]], alone: dict[str, list[_Commits]], name: str) -> str:
    rate = statistics.median(each.per_second for each in by_name[name])
    usual = statistics.median(each.per_second for each in alone[name])
    late_ms = statistics.median(each.p99_ms for each in by_name[name])
    cpu_ms = statistics.median(percentile(each.cpu_ms, 0.99) for each in by_name[name])
    most_ms = statistics.median(max(each.cpu_ms) for each in by_name[name])
    return f"{rate:,.0f} ({rate / usual:.0%}), {late_ms:.1f} ms; CPU {cpu_ms:.1f}, {most_ms:.0f} ms"


def _members(address: str, topic: str, count: int, kind: str) -> None:
    """Be the members of a group that forms; a process of its own does this."""
    host, _, port = address.rpartition(":")
    clients = connect(Server("broker", host, int(port), os.getppid(), 0.0), count)
    print(flush=True)
    sys.stdin.readline()
    if kind == _CLASSIC:
        form(clients, f"group-of-{topic}")
        return
    members = [Member(each, f"group-of-{topic}", topic) for each in clients]
    settle(members, count)
    for each in members:
        each.leave()


if __name__ == "__main__":
    _members(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
