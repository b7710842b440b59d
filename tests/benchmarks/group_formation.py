"""Measure the time from the members' start to a stable group, and from a leave to stable again."""

import statistics
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass

from groupsdk.testing import LocalKafka
from tests.benchmarks.clients import PEERS
from tests.benchmarks.members import Settings
from tests.benchmarks.observer import PARTITIONS, TOPIC, Observer, kafka_with_topic
from tests.benchmarks.processes import Worker, WorkerError
from tests.benchmarks.report import Result, options_of, spread


NAMES = ("groupsdk", "groupsdk asyncio", *PEERS)
_QUIET_S = 0.3
_TIMEOUT_S = 60.0
_GAP_S = 0.2
_SESSION_MS = 45_000


@dataclass(frozen=True, slots=True)
class Case:
    """How many members, and how long after one another they start."""

    members: int
    gap_s: float = 0.0

    @property
    def label(self) -> str:
        return f"{self.members} members" + (
            f", one every {self.gap_s:g} s or so" if self.gap_s else " at once"
        )


def measure_once(
    kafka: LocalKafka, observer: Observer, client: str, case: Case, interval_ms: int, phase: float
) -> tuple[float, float]:
    """Return seconds to stable, and seconds from one member's leave to stable again.

    Args:
        phase: when in the second heartbeat interval after the last assignment the member leaves, 0 to 1.
    """
    settings = Settings(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=f"formation-{uuid.uuid4().hex[:12]}",
        topic=TOPIC,
        session_timeout_ms=_SESSION_MS,
        heartbeat_interval_ms=interval_ms,
    )
    with Worker(client, settings) as worker:
        count = case.members
        # Not always the same, or the starts would keep step with the heartbeats of some client.
        gap_s = case.gap_s * (0.75 + phase / 2)
        worker.call("start", first=0, count=count, gap_s=gap_s)
        _wait_stable(worker, observer, settings.group_id, count)
        formed_s = _settled(worker, set(range(count)), 0.0)
        # Measured from the last member's start.
        formed_s -= gap_s * (count - 1)
        # After a whole interval, so that the group is in its everyday state.
        _await_phase(worker, observer, settings.group_id, count, (1 + phase) * interval_ms / 1000)
        worker.call("leave", index=0)
        _wait_stable(worker, observer, settings.group_id, count - 1)
        left_s = float(worker.call("taken")["left_s"]["0"])
        return formed_s, _settled(worker, set(range(1, count)), left_s) - left_s


def _await_phase(
    worker: Worker, observer: Observer, group_id: str, members: int, phase_s: float
) -> None:
    """Wait until so long after the last assignment, in a group that is stable then.

    A client may start another rebalance by itself, after its topic's metadata came. Who leaves in the middle
    of one is not waited for, and that would be taken for a fast reaction.
    """
    due_s = _QUIET_S * 2 + phase_s
    end = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < end:
        while (left_s := due_s - float(worker.call("taken")["quiet_s"])) > 0:
            time.sleep(left_s)
        if observer.group(group_id) == ("Stable", members):
            return
        _wait_stable(worker, observer, group_id, members)
        time.sleep(_QUIET_S)  # until the members know
    raise TimeoutError(f"{worker.client}: never stable for {due_s:.1f} s")


def _wait_stable(worker: Worker, observer: Observer, group_id: str, members: int) -> None:
    try:
        observer.wait_stable(group_id, members, _TIMEOUT_S)
    except TimeoutError:
        worker.call("taken")  # raises what a member raised, which tells more
        raise


def _settled(worker: Worker, members: set[int], since_s: float) -> float:
    """Wait until all of `members` took up an assignment after `since_s`, and none does any more; return when."""
    end = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < end:
        answer = worker.call("taken")
        after_s = {int(index): float(at) for index, at in answer["after_s"].items()}
        done = all(after_s.get(index, -1.0) > since_s for index in members)
        if done and answer["quiet_s"] > _QUIET_S:
            return max(after_s[index] for index in members)
        time.sleep(0.05)
    raise TimeoutError(f"{worker.client}: not all took up an assignment")


def measure(
    kafka: LocalKafka, names: list[str], cases: list[Case], repetitions: int, interval_ms: int
) -> Result:
    """Measure all clients in all cases, interleaved."""
    formed: dict[tuple[Case, str], list[float]] = defaultdict(list)
    left: dict[tuple[Case, str], list[float]] = defaultdict(list)
    failures: list[str] = []
    with Observer(kafka.bootstrap_servers) as observer:
        for case in cases:
            for repetition in range(repetitions):
                phase = (repetition + 0.5) / repetitions
                for name in names:
                    try:
                        times = measure_once(kafka, observer, name, case, interval_ms, phase)
                    except (TimeoutError, WorkerError) as error:  # a gap in the table, and why
                        failures.append(f"{name}, {case.label}: {error}")
                        print(failures[-1], flush=True)
                        continue
                    formed[case, name].append(times[0])
                    left[case, name].append(times[1])
                    print(f"{case.label}: {name} {times[0]:.3f} {times[1]:.3f}", flush=True)
    result = Result(
        "group_formation",
        "Seconds until the group is stable: median (least to most)",
        ["", *names],
        raw={
            f"{what}, {case.label}, {name}": values
            for what, table in (("start", formed), ("leave", left))
            for (case, name), values in table.items()
        },
    )
    for what, table in (("start of", formed), ("a leave from", left)):
        for case in cases:
            label = f"{what} {case.label}"
            result.rows.append([label, *(spread(table[case, name]) for name in names)])
            result.behind += _behind(label, {name: table[case, name] for name in names})
    result.notes = [
        (
            f"Session timeout {_SESSION_MS // 1000} s, heartbeat interval {interval_ms / 1000:g} s;"
            f" group.initial.rebalance.delay.ms=0; {repetitions} repetitions, interleaved; all members of a"
            " client in one process, started after its import, until the last of them has its assignment;"
            " members that start one after another: from the last start. The peers' members are consumers of"
            f" one topic with {PARTITIONS} partitions, since they have no other kind."
        ),
        *failures,
    ]
    return result


def _behind(label: str, times: dict[str, list[float]]) -> list[str]:
    ours, peers = times.get("groupsdk"), [times[name] for name in PEERS if times.get(name)]
    if not ours or not peers:
        return []
    mine, best = statistics.median(ours), min(statistics.median(peer) for peer in peers)
    return [f"{label}: {mine:.2f} s, the best peer {best:.2f} s"] if mine > best * 1.02 else []


def run(arguments: list[str], *, quick: bool) -> Result:
    options = options_of(
        "group_formation",
        arguments,
        sizes="2,10" if quick else "2,10,50",
        staggered="10",  # how many members start one by one
        repetitions=2 if quick else 5,
        interval_ms=1_000 if quick else 3_000,
        clients=",".join(NAMES),
    )
    cases = [Case(int(size)) for size in options.sizes.split(",") if size]
    cases += [Case(int(size), _GAP_S) for size in options.staggered.split(",") if size]
    with kafka_with_topic() as kafka:
        names = options.clients.split(",")
        return measure(kafka, names, cases, options.repetitions, options.interval_ms)
