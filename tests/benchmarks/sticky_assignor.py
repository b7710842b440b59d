"""Time the sticky assignors beside their peers, on large groups of many shapes, and check what they do.

Run it with `python -m tests.benchmarks.sticky_assignor [--only TEXT] [--limit SECONDS] [--no-peers] [--check]`.

CPU seconds of the assignment alone, median of the rounds; what goes before (parsing, building the objects)
is not in it. "cooperative" is `CooperativeStickyAssignor`, as are the figures of franz-go; "with the wire" adds
decoding all subscriptions and encoding all assignments; "sticky" reads the user data of all members, as
Kafka's class, kafka-python and aiokafka do. "MiB" is what one cooperative assignment allocates at most, its
result included. Java's figure is the CPU time of its thread, franz-go's that of its process, both after one
round to warm up if that took less than 5 s. A peer that takes longer than the limit is stopped, and left out
of greater groups of the same shape. `--check` looks for a way to fairer loads, and has OR-tools find the
fewest moves; a peer that is not as good has a "!".
"""

import argparse
import gc
import json
import multiprocessing
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from assignors.cooperative_sticky import CooperativeStickyAssignor
from assignors.sticky import StickyAssignor
from assignors.sticky.user_data import encode_claim
from groupsdk.assignment import Cluster, PartitionAssignor, Partitions, Subscription
from groupsdk.assignment.subscriptions import (
    decode_subscriptions,
    encode_assignments,
    encode_subscription,
)
from groupsdk.types import GroupMembers
from tests.benchmarks.processes import go_program
from tests.benchmarks.python_peers import aiokafka, kafka_python
from tests.benchmarks.report import DIRECTORY, Result
from tests.benchmarks.sticky_check import is_balanced, least_moves, moves
from tests.benchmarks.sticky_shapes import ROWS, Row, build, rack, replica_racks
from tests.support.java import java_command


_HERE = Path(__file__).parent
_NOTE = (
    "U: all members subscribe alike; H: they do not, in the shape that is named; R: racks. Churn replaces a"
    " tenth of the members, redraw by some that read something else."
    ' "cooperative" is `assign` alone on ready objects, as for franz-go; "with the wire" adds decoding all subscriptions and encoding all assignments; "sticky" reads all members\' user data, as'
    " do Java (kafka-clients 4.1.0), kafka-python and aiokafka. MiB: what `assign` allocates at most, its result"
    ' included. "checked": a search for a way to fairer loads found none, and OR-tools no assignment with loads as'
    ' fair and fewer moves. "!": not as balanced as ours, or'
    ' more moves (in rows R franz-go is not told of the racks). "-": not run, as a smaller group of the shape took too long.'
    ' "> 60": stopped after 60 CPU seconds, or as many as it says. The machine did other work too; figures of peers may be of'
    " an earlier run on it, with the same groups."
)
_CLIENTS = "org.apache.kafka:kafka-clients:4.1.0"
_STOPPED = (-9, -24, 137, 152)
"""What a process returns that used up its CPU time."""

_LIMIT_REACHED = 3
"""What the peers' programs return then."""


@dataclass(frozen=True)
class Case:
    """One group, when its leader has to share out."""

    row: Row
    cluster: Cluster
    topics: dict[str, list[str]]
    claims: dict[str, Partitions]

    def subscriptions(self, *, user_data: bool = False) -> dict[str, Subscription]:
        """Return what the members joined with."""
        return {
            member: Subscription(
                topics,
                encode_claim(self.claims[member], 1) if user_data else None,
                {} if user_data else self.claims[member],
                1,
                rack(self.row, member),
            )
            for member, topics in self.topics.items()
        }

    def write(self, path: Path) -> None:
        """Write it for the programs of the peers."""
        number = {topic: index for index, topic in enumerate(self.cluster.partition_counts)}
        with path.open("w") as file:
            for topic, count in self.cluster.partition_counts.items():
                racks = self.cluster.replica_racks.get(topic, ())
                text = ",".join("".join(sorted(each)) for each in racks)
                file.write(f"topic\t{topic}\t{count}\t{text}\n")
            for member, topics in self.topics.items():
                owned = ";".join(
                    f"{number[topic]}:{','.join(map(str, numbers))}"
                    for topic, numbers in self.claims[member].items()
                )
                wanted = ",".join(str(number[topic]) for topic in topics)
                file.write(f"member\t{member}\t{rack(self.row, member) or ''}\t{wanted}\t{owned}\n")


def make_case(row: Row) -> Case:
    """Build a group, let it share out, and let the event happen."""
    before, after = build(row)
    claims: Mapping[str, Partitions] = {}
    if row.event != "fresh":
        subscriptions = {m: Subscription(topics) for m, topics in before.subscribed.items()}
        found = CooperativeStickyAssignor().assign(Cluster(before.counts), subscriptions)
        claims = {member: assignment.partitions for member, assignment in found.items()}
    cluster = Cluster(after.counts, replica_racks(row, after.counts))
    return Case(row, cluster, after.subscribed, {m: claims.get(m, {}) for m in after.subscribed})


def cpu_seconds(call: Callable[[], Any], rounds: int) -> float:
    """Return the median CPU time of some calls, garbage of the one before collected."""
    taken = []
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def time_ours(case: Case, assignor: PartitionAssignor, rounds: int, *, user_data: bool) -> float:
    subscriptions = case.subscriptions(user_data=user_data)
    return cpu_seconds(lambda: assignor.assign(case.cluster, subscriptions), rounds)


def check_ours(case: Case) -> str:
    """Prove that our assignment is balanced and moves least; returns what there is to say of it."""
    subscriptions = case.subscriptions(user_data=True)
    found = StickyAssignor().assign(case.cluster, subscriptions)
    assigned = {member: each.partitions for member, each in found.items()}
    total = sum(sum(map(len, each.values())) for each in assigned.values())
    if total != sum(case.cluster.partition_counts.values()):
        return "NOT VALID"
    if not is_balanced(subscriptions, assigned):
        return "NOT BALANCED"
    ours = moves(case.claims, assigned)
    off_rack = sum(
        rack(case.row, member) not in case.cluster.replica_racks[topic][number]
        for member, partitions in assigned.items()
        for topic, numbers in partitions.items()
        if topic in case.cluster.replica_racks
        for number in numbers
    )
    least = least_moves(case.cluster, subscriptions, case.claims, assigned)
    if (off_rack, ours) != least:
        return f"NOT MINIMAL: {ours} moves, {off_rack} off rack; least are {least[1]}, {least[0]}"
    return "optimal"


# ---- peers in Python --------------------------------------------------------------------------------


Prepare = Callable[[Mapping[str, int], Mapping[str, Subscription]], Callable[[], Any]]


def _in_child(prepare: Prepare, case: Case, limit: int) -> str:
    """Time one call in a process of its own, which ends when it has used up its time."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def work(pipe: Connection) -> None:
        call = prepare(case.cluster.partition_counts, case.subscriptions(user_data=True))
        used = int(time.process_time()) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (used + limit, used + limit))
        pipe.send(cpu_seconds(call, 1))

    process = context.Process(target=work, args=(theirs,))
    process.start()
    theirs.close()
    try:
        return f"{ours.recv():.2g}"
    except EOFError:
        process.join()
        return _over(limit) if process.exitcode in _STOPPED else "fails"
    finally:
        process.join()


# ---- peers in other languages -----------------------------------------------------------------------


def _java_command() -> list[str] | None:
    try:
        source = _HERE / "java" / "StickyTimes.java"
        return java_command(source, [_CLIENTS], options=["-Xmx3g", "-XX:+UseSerialGC"])
    except Exception as error:  # noqa: BLE001 - any reason will do to leave it out, and is told
        print(f"without Java's StickyAssignor: {error}", file=sys.stderr)
        return None


def _other(command: list[str], path: Path, rounds: int, limit: int) -> tuple[str, int, int]:
    """Run a peer's program; returns its time, the sum of squares of its loads, and its moves."""
    # The programs stop themselves at the limit; this is for what goes before, and should they not.
    allowed = 60 + limit
    try:
        done = subprocess.run(
            [*command, str(path), str(rounds), str(limit)],
            capture_output=True,
            text=True,
            timeout=3 * allowed,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (allowed, allowed)),
        )
    except subprocess.TimeoutExpired:
        return _over(limit), 0, 0
    if done.returncode in (*_STOPPED, _LIMIT_REACHED):
        return _over(limit), 0, 0
    if done.returncode:
        return "fails", 0, 0
    nanoseconds, squares, moved = map(int, done.stdout.split())
    seconds = nanoseconds / 1e9
    return (_over(limit) if seconds > limit else f"{seconds:.2g}"), squares, moved


def _over(limit: int) -> str:
    return f"> {limit}"


class Peers:
    """The peers, each left out of greater groups of a shape once it was too slow."""

    def __init__(self, directory: Path, limit: int) -> None:
        self._limit = limit
        self._path = directory / "group.tsv"
        go = go_program("stickytimes")
        self._commands = {"Java": _java_command(), "franz-go": None if go is None else [str(go)]}
        self._slow: set[tuple[str, str]] = set()

    def times(self, case: Case, squares: int, moved: int) -> list[str]:
        """Time all of them; "!" marks loads, or moves, that are not as good as those given."""
        case.write(self._path)
        rounds = 3 if case.row.partitions < 10**6 else 1
        cells = []
        for name, command in self._commands.items():
            if command is None or (name, case.row.shape) in self._slow:
                cells.append("-")
                continue
            text, their_squares, their_moves = _other(command, self._path, rounds, self._limit)
            # What franz-go withholds for the second round is missing from its loads.
            worse = their_moves > moved or (name == "Java" and their_squares > squares)
            cells.append(
                self._note(name, case, text) + (" !" if text[0].isdigit() and worse else "")
            )
        for name, prepare in (("kafka-python", kafka_python), ("aiokafka", aiokafka)):
            if (name, case.row.shape) in self._slow:
                cells.append("-")
            else:
                cells.append(self._note(name, case, _in_child(prepare, case, self._limit)))
        return cells

    def _note(self, name: str, case: Case, text: str) -> str:
        if text.startswith(">"):
            self._slow.add((name, case.row.shape))
        return text


_PEERS = ("Java", "franz-go", "kafka-python", "aiokafka")


def run(_arguments: list[str], *, quick: bool) -> Result:
    return measure(peers=not quick, check=not quick)


def measure(
    *, only: Sequence[str] = (), limit: int = 60, rounds: int = 5, peers: bool, check: bool
) -> Result:
    """Measure the rows whose names have one of the texts, or all; each is printed when it is done.

    The others are in the result as they were measured last on this machine, if they were; so are the peers
    where they are not run.
    """
    with tempfile.TemporaryDirectory(prefix="groupsdk-sticky-") as directory:
        others = Peers(Path(directory), limit) if peers else None
        for row in ROWS:
            if not only or any(text in row.name for text in only):
                _measure(row, others, rounds, check=check)
    return _result()


def _measure(row: Row, others: Peers | None, rounds: int, *, check: bool) -> None:
    case = make_case(row)
    figures = _ours(case, rounds)
    if others:
        # The peers before the check, which leaves most garbage behind.
        figures |= zip(_PEERS, others.times(case, *_squares_and_moves(case)), strict=True)
    else:
        last = _last(row)
        # Figures of an earlier run are of another group where that one needed other moves.
        same = last.get("moves") == figures["moves"]
        figures |= {peer: last[peer] for peer in _PEERS if same and peer in last}
    if check:
        figures["checked"] = check_ours(case)
    print(f"| {row.name} | {' | '.join(figures.values())} |", flush=True)
    _kept(row).parent.mkdir(parents=True, exist_ok=True)
    _kept(row).write_text(json.dumps(figures), encoding="utf-8")


def _last(row: Row) -> dict[str, str]:
    """Return what was measured last of a row; the group is the same in every run."""
    figures: dict[str, str] = (
        json.loads(_kept(row).read_text(encoding="utf-8")) if _kept(row).is_file() else {}
    )
    return figures


def _kept(row: Row) -> Path:
    return DIRECTORY / "sticky_assignor" / f"{row.name}.json"


def _result() -> Result:
    """Put together what was measured last of each row."""
    columns = ("moves", "cooperative", "with the wire", "MiB", "sticky", *_PEERS, "checked")
    result = Result(
        "sticky_assignor",
        "Sticky: CPU seconds of one assignment",
        ["partitions x members", *columns],
        notes=[_NOTE],
        raw={},
    )
    for row in ROWS:
        if figures := _last(row):
            result.rows.append([row.name, *(figures.get(column, "-") for column in columns)])
            result.behind += _behind(row.name, figures)
            result.raw[row.name] = figures
    return result


def _ours(case: Case, rounds: int) -> dict[str, str]:
    subscriptions = case.subscriptions()
    assignor = CooperativeStickyAssignor()
    alone = cpu_seconds(lambda: assignor.assign(case.cluster, subscriptions), rounds)
    sticky = time_ours(case, StickyAssignor(), rounds, user_data=True)
    joined = {member_id: encode_subscription(each) for member_id, each in subscriptions.items()}
    members = GroupMembers(joined)
    wire = cpu_seconds(
        lambda: encode_assignments(assignor.assign(case.cluster, decode_subscriptions(members))),
        min(rounds, 3),
    )
    tracemalloc.start()
    assignor.assign(case.cluster, subscriptions)
    mib = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    moved = _squares_and_moves(case)[1]
    return {
        "moves": f"{moved:,}",
        "cooperative": f"{alone:.2g}",
        "with the wire": f"{wire:.2g}",
        "MiB": f"{mib:.1f}",
        "sticky": f"{sticky:.2g}",
    }


def _squares_and_moves(case: Case) -> tuple[int, int]:
    found = StickyAssignor().assign(case.cluster, case.subscriptions(user_data=True))
    assigned = {member: each.partitions for member, each in found.items()}
    return sum(len(each) ** 2 for each in found.values()), moves(case.claims, assigned)


def _behind(name: str, figures: Mapping[str, str]) -> Iterator[str]:
    """Yield the peers that were sooner; each is compared with ours that does what it does."""
    for peer in _PEERS:
        ours = figures["cooperative" if peer == "franz-go" else "sticky"]
        theirs = figures.get(peer, "-")
        if theirs[0].isdigit() and float(theirs.rstrip(" !")) < float(ours):
            yield f"{name}: {peer} takes {theirs}"


def main(arguments: list[str]) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.sticky_assignor")
    parser.add_argument("--only", action="append", default=[], help="part of a row's name")
    parser.add_argument("--limit", type=int, default=60, help="CPU seconds for a peer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = vars(parser.parse_args(arguments))
    measure(peers=not options.pop("no_peers"), **options).finish()


if __name__ == "__main__":
    main(sys.argv[1:])
