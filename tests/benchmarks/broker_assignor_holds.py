"""Measure how long the loop of the embedded broker is held while assignors of consumer groups work.

The broker is in this process, where every callback of its loop is timed; the members are in a process of their own.
"""

import asyncio
import contextlib
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from unittest import mock

from typing_extensions import override

from groupsdk.broker.coordinator.consumer.assignment_jobs import AssignmentJob, Target
from groupsdk.broker.coordinator.consumer.assignors import GroupSpec, UniformAssignor
from groupsdk.broker.coordinator.consumer.topics import Partitions
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.broker import keep_survivors, limit_collections
from tests.benchmarks.broker_consumer_groups import Member, settle
from tests.benchmarks.broker_load import connect
from tests.benchmarks.broker_servers import Server
from tests.benchmarks.report import Result, load, options_of, spread
from tests.support.processes import LineProgram
from tests.support.topics import create_topic


_SLOW_S: Final = 2.0
_LIMIT_MS: Final = 50.0
_TIMEOUT_S: Final = 600.0
_MODULE: Final = "tests.benchmarks.broker_assignor_holds"


class SlowAssignor(UniformAssignor):
    """Computes for two seconds, in Python: a user's assignor that takes its time."""

    name = "slow"

    @override
    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        """Do work in Python that leads to nothing, then what `uniform` does."""
        until_s = time.perf_counter() + _SLOW_S
        while time.perf_counter() < until_s:
            pass
        return super().assign(group)


ASSIGNORS: Final = {
    "uniform": "uniform",
    "range": "range",
    "sticky": "sticky",
    "weighted": "weighted",
    "a user's, which computes for 2 s": f"{_MODULE}:SlowAssignor",
}


class Watch:
    """Times what the loop does and what assignors take, in milliseconds."""

    def __init__(self) -> None:
        self.held: list[float] = []
        """Each callback of the loop, by the clock."""
        self.worked: list[float] = []
        """The CPU of each callback."""
        self.assigned: list[float] = []
        """Each run of an assignor, by the clock."""
        self.on_loop = 0
        """How many of these were on the loop's thread."""

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc] # all of it

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Time all loops and assignors of this process."""
        run_callback, run_job = asyncio.Handle._run, AssignmentJob.run

        def timed_callback(handle: asyncio.Handle) -> None:
            cpu_s, start_s = time.thread_time(), time.perf_counter()
            run_callback(handle)
            self.held.append((time.perf_counter() - start_s) * 1000)
            self.worked.append((time.thread_time() - cpu_s) * 1000)

        def timed_job(job: AssignmentJob) -> Target:
            start_s = time.perf_counter()
            self.on_loop += not threading.current_thread().name.startswith("groupsdk-assignor")
            try:
                return run_job(job)
            finally:
                self.assigned.append((time.perf_counter() - start_s) * 1000)

        with (
            mock.patch.object(asyncio.Handle, "_run", timed_callback),
            mock.patch.object(AssignmentJob, "run", timed_job),
        ):
            yield


def course(address: str, members: int, partitions: int) -> None:
    """Let members join, one of them leave, and wait until all is reconciled; a process of its own does this."""
    host, _, port = address.rpartition(":")
    server = Server("groupsdk", host, int(port), os.getppid(), 0.0)
    create_topic(address, "narrow", 4)
    warm = [Member(each, "warm", "narrow") for each in connect(server, 2)]
    settle(warm, 4)
    create_topic(address, "wide", partitions)
    print(flush=True)  # from here on it counts
    sys.stdin.readline()
    group = [Member(each, "watched", "wide") for each in connect(server, members)]
    settle(group, partitions)
    group.pop().leave()
    settle(group, partitions)


def measure(entry: str, members: int, partitions: int) -> Watch:
    """Return what was timed with one assignor."""
    watch = Watch()
    settings: dict[str, Any] = {
        "group.consumer.assignors": entry,
        "offsets.topic.num.partitions": 1,
        "group.consumer.assignor.timeout.ms": 60_000,
    }
    with watch.watching(), EmbeddedBroker(settings) as broker:
        command = [sys.executable, "-m", _MODULE, broker.bootstrap_servers]
        with LineProgram([*command, str(members), str(partitions)]) as child:
            next(child.lines())
            limit_collections()
            watch.clear()
            child.send("")
            child.await_end(_TIMEOUT_S)
            gc.callbacks.remove(keep_survivors)
    return watch


def run(arguments: list[str], *, quick: bool) -> Result:
    options = options_of(
        "broker_assignor_holds",
        arguments,
        rounds=1 if quick else 3,
        members=300 if quick else 1_000,
        partitions=3_000 if quick else 10_000,
    )
    result = Result(
        "broker_assignor_holds",
        f"The embedded broker's loop while assignors work: {options.members:,} members, {options.partitions:,} partitions",
        [
            "assignor",
            "longest run, ms",
            "runs (on the loop)",
            "longest hold, CPU ms",
            "by the clock",
        ],
        raw={},
    )
    before = load()
    collected_after = gc.get_threshold()
    with mock.patch.dict(sys.modules, uvloop=None):
        for name, entry in ASSIGNORS.items():
            size = (options.members, options.partitions)
            rounds = [measure(entry, *size) for _ in range(options.rounds)]
            held = [max(each.held) for each in rounds]
            worked = [max(each.worked) for each in rounds]
            runs, on_loop = (
                sum(len(each.assigned) for each in rounds),
                sum(each.on_loop for each in rounds),
            )
            result.rows.append(
                [
                    name,
                    f"{max(max(each.assigned) for each in rounds):.0f}",
                    f"{runs} ({on_loop})",
                    spread(worked, 0),
                    spread(held, 0),
                ]
            )
            result.raw[name] = {"held": held, "worked": worked}
            if min(worked) > _LIMIT_MS:
                result.behind.append(f"{name}: the loop is held for {min(worked):.0f} ms")
    gc.set_threshold(*collected_after)
    result.notes = [
        (
            f"{options.rounds} rounds. The members join at once, one leaves, until all is reconciled. A hold is one callback of the loop; by the clock it has"
            " the time in it for which other threads, the assignor's among them, and other processes had the processor;"
            " the CPU is that of the loop's thread, with what the garbage collector, set as by `groupsdk broker`, did in it:"
            f" the load average was {before} before."
        )
    ]
    return result


if __name__ == "__main__":
    course(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
