"""Measure heartbeats and commits of offsets at full speed: how many a second, and the broker's CPU for one."""

import itertools
import socket
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from tests.benchmarks.broker_load import (
    Speed,
    check_commit,
    check_heartbeat,
    commit_of,
    connected,
    find_coordinator,
    full_speed,
    heartbeat_of,
    single_member,
)
from tests.benchmarks.broker_servers import KAFKA, KFAKE, OURS, Server, in_turn, servers
from tests.benchmarks.report import Result, load, options_of


CONNECTIONS: Final = (1, 8, 64)
PARTITIONS: Final = (1, 100)
_WARM_S: Final = 2.0
_NUMBERS: Final = itertools.count()


class Case:
    """One kind of request over so many connections."""

    def __init__(self, kind: str, connections: int, partitions: int = 0) -> None:
        self.connections = connections
        self._partitions = partitions
        plural = "s" if connections > 1 else ""
        what = f", {partitions} partition{'s' if partitions > 1 else ''}" if partitions else ""
        self.name = f"{kind}{what}, {connections} connection{plural}"

    def run(self, server: Server, seconds: float) -> Speed:
        """Ask at full speed; every connection is of a member of a group of its own."""
        with connected(server, self.connections) as clients:
            frames = [self._frame(client) for client in clients]
            check: Callable[[bytes], None] = check_commit if self._partitions else check_heartbeat
            return full_speed(server, clients, frames, check, seconds)

    def _frame(self, client: socket.socket) -> bytes:
        # never the same one: the member of the run before is still in it
        name = f"group-{next(_NUMBERS)}"
        joined = single_member(client, name)
        if self._partitions:
            return commit_of(name, joined, self._partitions)
        return heartbeat_of(name, joined)


def cases() -> list[Case]:
    return [
        *(Case("Heartbeat", count) for count in CONNECTIONS),
        *(Case("OffsetCommit", count, each) for each in PARTITIONS for count in CONNECTIONS),
    ]


def run(arguments: list[str], *, quick: bool) -> Result:
    seconds, rounds = (1.0, 3) if quick else (3.0, 5)
    options = options_of("broker_requests", arguments, seconds=seconds, rounds=rounds)
    wanted = cases()
    with servers() as found:
        for server in found:
            _warm(server, wanted)
        names = [server.name for server in found]
        before = load()
        steps = {each.name: partial(each.run, seconds=options.seconds) for each in wanted}
        speeds = in_turn(options.rounds, steps, found)
    result = Result(
        "broker_requests",
        "Brokers: requests a second in the best round, CPU us of the broker for one, ms of the 99th percentile",
        ["one in flight on each connection", *names],
        rows=[[case.name, *(_cell(speeds[case.name][name]) for name in names)] for case in wanted],
        raw={
            case: {
                name: [(each.per_second, each.cpu_us, each.p99_ms) for each in all_runs]
                for name, all_runs in by_name.items()
            }
            for case, by_name in speeds.items()
        },
    )
    result.notes = [
        (
            f"{options.rounds} rounds of {options.seconds:g} s each, the brokers in turn; the load average was"
            f" {before} before, so compare the columns of a row, and CPU rather than"
            " rates: on a busy machine those say who got the cores, and Kafka and kfake use several threads. CPU is"
            " the median. Nobody syncs to the disk before it answers; Kafka"
            " waits for nobody (append.linger.ms=0) and was warmed up for"
            f" {_WARM_S:g} s a row. kfake keeps everything in memory. Every member is in a group of its own."
        )
    ]
    result.behind = [text for case in wanted for text in _behind(case.name, speeds[case.name])]
    slower = [case.name for case in wanted if _costs_more_than_kfake(speeds[case.name])]
    if slower:
        result.behind.append(f"more CPU than kfake, which is Go: {'; '.join(slower)}")
    return result


def _warm(server: Server, wanted: list[Case]) -> None:
    find_coordinator(server)
    for case in wanted:
        # Java compiles what runs often only after a while
        case.run(server, _WARM_S if server.name == KAFKA else _WARM_S / 20)


def _costs_more_than_kfake(speeds: dict[str, list[Speed]]) -> bool:
    ours, other = ([each.cpu_us for each in speeds.get(name, [])] for name in (OURS, KFAKE))
    return bool(other) and statistics.median(ours) > statistics.median(other)


def _cell(runs: list[Speed]) -> str:
    rate = max(each.per_second for each in runs)
    cpu_us = statistics.median(each.cpu_us for each in runs)
    late_ms = min(each.p99_ms for each in runs)
    return f"{rate:,.0f}, {cpu_us:.0f} us, {late_ms:.1f} ms"


def _behind(case: str, speeds: dict[str, list[Speed]]) -> Iterator[str]:
    """Say where ours takes more CPU than Kafka, or answers fewer."""

    def rate(name: str) -> float:
        return max(each.per_second for each in speeds[name])

    def cpu_us(name: str) -> float:
        return statistics.median(each.cpu_us for each in speeds[name])

    if rate(OURS) < rate(KAFKA):
        yield f"{case}: {rate(OURS):,.0f}/s, Kafka {rate(KAFKA):,.0f}/s"
    if cpu_us(OURS) > cpu_us(KAFKA):
        yield f"{case}: {cpu_us(OURS):.0f} us of CPU, Kafka {cpu_us(KAFKA):.0f} us"
