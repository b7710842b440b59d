"""Holds the demo to its word: it passes on a real Kafka, and its checker can fail."""

import io
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from examples.demo.__main__ import conclude, options_of
from examples.demo.board import Board, WorkerState
from examples.demo.ledger import Record, ShardLedger, Verdict, judge
from examples.demo.screen import Screen, ranges
from examples.demo.texts import count_words, standard_library, units_of
from groupsdk.testing import LocalKafka
from tests.examples.conftest import StartExample
from tests.examples.process import ExampleProcess


TRUTH = [Counter({"a": 1}), Counter({"b": 2}), Counter({"a": 3, "c": 4})]


def fence(epoch: int, member: str) -> Record:
    """Makes the fence of an owner of shard 0."""
    return Record(0, epoch, member)


def counted(epoch: int, member: str, unit: int) -> Record:
    """Makes the right count of a unit of shard 0."""
    return Record(0, epoch, member, unit, TRUTH[unit])


def replayed(*records: Record) -> ShardLedger:
    """Replays a log."""
    ledger = ShardLedger(0)
    for offset, record in enumerate(records):
        # through its bytes, as it comes from Kafka
        ledger.replay(offset, Record.of(record.to_bytes()))
    return ledger


def verdict(*records: Record) -> Verdict:
    """Judges a log of shard 0."""
    return judge([replayed(*records)], TRUTH)


def test_all_units_once_is_right() -> None:
    result = verdict(fence(1, "a"), *(counted(1, "a", unit) for unit in range(3)))
    assert result == Verdict(
        counted=10, expected=10, lost=0, twice=0, ignored=0, saved=0, wrong_words=()
    )
    assert result.right


def test_a_lost_unit_is_wrong() -> None:
    result = verdict(fence(1, "a"), counted(1, "a", 0), counted(1, "a", 2))
    assert (result.lost, result.counted, result.wrong_words) == (1, 8, ("b",))
    assert not result.right


def test_a_unit_that_counts_twice_is_wrong() -> None:
    units = (0, 1, 1, 2)
    result = verdict(fence(1, "a"), *(counted(1, "a", unit) for unit in units))
    assert (result.twice, result.counted, result.wrong_words) == (1, 12, ("b",))
    assert not result.right


def test_a_unit_that_was_lost_and_another_that_hides_it_are_wrong() -> None:
    # the sum is right: 2 words "b" of unit 1 are missing, 2 other words too many
    false = Record(0, 1, "a", 1, {"x": 2})
    result = verdict(fence(1, "a"), counted(1, "a", 0), false, counted(1, "a", 2))
    assert result.counted == result.expected
    assert result.wrong_words == ("b", "x")
    assert not result.right


def test_a_late_write_does_not_count() -> None:
    result = verdict(
        fence(1, "a"),
        counted(1, "a", 0),
        fence(2, "b"),
        counted(2, "b", 1),
        counted(1, "a", 1),  # the zombie
        counted(2, "b", 2),
    )
    assert result.right
    assert (result.ignored, result.saved) == (1, 1)


def test_without_its_fence_the_late_write_would_count_twice() -> None:
    # The same log, but all written as one owner: what the ledger does without fences to obey.
    result = verdict(fence(1, "a"), *(counted(1, "a", unit) for unit in (0, 1, 1, 2)))
    assert result.twice == 1
    assert not result.right


def test_a_write_before_the_fence_counts_and_the_new_owner_sees_it() -> None:
    ledger = replayed(fence(1, "a"), counted(1, "a", 1), fence(2, "b"))
    assert ledger.done == {1}
    assert not ledger.ignored
    assert ledger.next_offset == 3


def test_a_late_fence_takes_nothing_back() -> None:
    ledger = replayed(fence(2, "b"), fence(1, "a"), counted(1, "a", 0), counted(2, "b", 1))
    assert ledger.done == {1}
    assert [record.member for record in ledger.ignored] == ["a"]


def test_without_any_fence_nothing_counts() -> None:
    assert replayed(counted(1, "a", 0)).ignored


@pytest.mark.parametrize(
    ("changes", "status"),
    [({}, 0), ({"lost": 1}, 1), ({"twice": 1}, 1), ({"counted": 9}, 1), ({"ignored": 0}, 1)],
)
def test_the_exit_status_tells_the_verdict(changes: dict[str, int], status: int) -> None:
    values = {"counted": 10, "expected": 10, "lost": 0, "twice": 0, "ignored": 1, "saved": 1}
    out = io.StringIO()
    assert conclude(Verdict(**(values | changes), wrong_words=()), 2, Screen(out)) == status
    assert "refused 2" in out.getvalue()


def test_words_are_counted_whatever_their_case(tmp_path: Path) -> None:
    path = tmp_path / "text.py"
    path.write_bytes(b"def Def(x_def):\n    '\xff \xc3\xa9 x'\n")
    assert count_words(path) == Counter({"def": 3})


def test_the_texts_are_the_same_each_time_and_every_unit_has_one_shard() -> None:
    files = standard_library(50)
    assert files == standard_library(50)
    assert len(set(files)) == 50
    units = sorted(unit for shard in range(7) for unit in units_of(shard, 7, files))
    assert units == list(range(50))


def gained(*shards: int, done: list[int] | None = None) -> dict[str, object]:
    return {"event": "gained", "leader": True, "shards": list(shards), "done": done or []}


def test_the_board_knows_owners_and_how_long_shards_stood_still() -> None:
    board = Board(shards=3, units=6)
    board.workers = {"w1": WorkerState("w1", 1), "w2": WorkerState("w2", 2)}
    board.update("w1", gained(0, 1, 2), 0)
    assert board.owners() == ["w1", "w1", "w1"]
    board.update("w1", {"event": "released", "shards": [1]}, 100)
    assert board.owners() == ["w1", "", "w1"]
    board.update("w2", gained(1, done=[4]), 140)
    board.stop("w1", "killed", 200)
    board.update("w1", {"event": "ended", "status": -9}, 210)
    assert board.owners() == ["", "w2", ""]
    board.update("w2", gained(0, 2), 3_200)
    assert board.shared_by("w2")
    assert board.stood == {"moved": [40], "killed": [3_000, 3_000]}
    assert board.done == {4}
    assert board.busiest("w1", "w2") == "w2"


def test_the_screen_writes_no_control_characters_into_a_file() -> None:
    out = io.StringIO()
    board = Board(shards=2, units=4, workers={"w1": WorkerState("w1", 1)})
    board.update("w1", gained(0, 1, done=[0]), 0)
    screen = Screen(out)
    screen.show(board)
    screen.say("bye", strong=True)
    assert "1 of 4 texts: w1 has 0-1" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_shards_are_written_as_ranges() -> None:
    assert ranges([3, 1, 2, 7]) == "1-3 7"
    assert ranges([]) == ""


def test_the_environment_names_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOTSTRAP", "broker:9092")
    options = options_of([])
    assert options.bootstrap_servers == "broker:9092"
    assert options.session_timeout_ms == 6_000
    monkeypatch.setenv("BOOTSTRAP", "")
    assert options_of([]).bootstrap_servers is None


STOPS = """
import os, threading, time
from examples.demo.worker import stop_this_process

def write() -> None:
    for _ in range(20):
        stop_this_process()
        os.write(1, b"x")

writing = threading.Thread(target=write)
writing.start()
while writing.is_alive():
    writing.join(0.001)
"""


def test_a_worker_stops_before_its_thread_writes_on() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STOPS], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as child:
        assert child.stdout is not None
        os.set_blocking(child.stdout.fileno(), False)
        try:
            for written in range(20):
                # SIGCONT takes the stop back before it returns, so that each wait is for the next one
                os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                assert child.stdout.read() == (b"x" if written else None)
                child.send_signal(signal.SIGCONT)
            assert child.wait(60) == 0
        finally:
            # which `with` would wait for, and a stopped process does not end by itself
            child.kill()


# so long that a machine that stalls has texts left when the last worker has its share
SMALL = ("--files", "96", "--shards", "12", "--seconds", "24", "--session-timeout-ms", "3000")


@pytest.mark.timeout(300)
def test_a_small_demo_comes_out_right_on_the_embedded_broker(start_example: StartExample) -> None:
    demo = start_example("-m", "examples.demo", *SMALL)
    demo.wait_for("groupsdk's embedded broker answers at 127.0.0.1:")
    comes_out_right(demo)


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_a_small_demo_comes_out_right_on_kafka(
    kafka: LocalKafka, start_example: StartExample
) -> None:
    where = ("--bootstrap-servers", kafka.bootstrap_servers)
    demo = start_example("-m", "examples.demo", *where, *SMALL)
    topic = demo.wait_for(r"topic (groupsdk-demo-\w+)$")[1]
    comes_out_right(demo)
    assert topic not in topics(kafka)


def comes_out_right(demo: ExampleProcess) -> None:
    """Waits for every step of the story, the totals and the exit status."""
    demo.wait_for(r"is killed \(SIGKILL\)")
    demo.wait_for("worker-4 starts")
    demo.wait_for(r"wakes up \(SIGCONT\)")
    demo.wait_for("late: .* behind the new owner's fence")
    demo.wait_for(r"shards moved to a worker that came: stood still for \d+ ms")
    totals = demo.wait_for(
        r"words counted (\d+), expected (\d+), lost 0, counted twice 0,"
        r" writes of a fenced worker refused (\d+), ignored (\d+)$"
    )
    demo.wait_for("right: every word")
    assert demo.end() == 0
    assert totals[1] == totals[2] != "0"
    assert int(totals[3]) >= 1
    assert int(totals[4]) >= 1


@pytest.mark.kafka
def test_an_interrupted_demo_leaves_nothing_behind(
    kafka: LocalKafka, start_example: StartExample
) -> None:
    demo = start_example(
        *("-m", "examples.demo", "--bootstrap-servers", kafka.bootstrap_servers, "--files", "96"),
        *("--session-timeout-ms", "2000"),
    )
    topic = demo.wait_for(r"topic (groupsdk-demo-\w+)$")[1]
    worker = int(demo.wait_for(r"worker-3 starts, pid (\d+)$")[1])
    demo.wait_for("worker-3 has")
    assert demo.end(signal.SIGINT) == 130
    assert re.search("interrupted", demo.lines[-1])
    assert topic not in topics(kafka)
    assert not Path(f"/proc/{worker}").exists()


def topics(kafka: LocalKafka) -> set[str]:
    """Lists the topics of the broker."""
    from confluent_kafka.admin import AdminClient

    return set(
        AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=60).topics
    )
