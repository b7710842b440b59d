"""Run random faults against members and brokers in virtual time, and check the invariants at every step.

A failure names its seed: ``random_run(seed)`` plays it again, step by step.
"""

import os
import re
import subprocess
import sys
from functools import partial

import pytest

from groupsdk.broker.coordinator.classic.rebalance import Rebalances
from groupsdk.member.state import MemberState
from groupsdk.member.view import MemberView
from groupsdk.testing.simulation import runs
from tests.simulation.__main__ import main
from tests.simulation.checks import check_runs, chunks, play
from tests.simulation.watched_tasks import random_run


CHUNK = 100
QUICK = 2_000
QUICK_HARSH = 1_000
FULL = int(os.environ.get("GROUPSDK_SEEDS", "20000"))
pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize("first", chunks(0, QUICK, CHUNK))
def test_runs_with_faults_keep_the_invariants(first: int) -> None:
    check_runs(play, first, CHUNK)


@pytest.mark.parametrize("first", chunks(0, QUICK_HARSH, CHUNK))
def test_runs_with_late_requests_keep_the_invariants(first: int) -> None:
    check_runs(partial(play, harsh=True), first, CHUNK)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("harsh", [False, True])
@pytest.mark.parametrize("first", chunks(1_000_000, FULL, CHUNK))
def test_many_runs_keep_the_invariants(first: int, harsh: bool) -> None:
    check_runs(partial(play, harsh=harsh), first, CHUNK)


def test_member_that_joins_later_does_not_prolong_the_join_phase() -> None:
    """As in Kafka: the phase waits for as long as the member with the most patience allowed when it began."""
    random_run(91_795_719_901_503)


def test_power_that_fails_after_a_kill_takes_what_was_never_synced() -> None:
    random_run(91_795_722_211_717)


def test_late_plan_of_a_lost_generation_is_taken_for_the_one_of_its_number() -> None:
    """As in Kafka (`tests/kafka/test_lost_generation.py`): members that it does not name get nothing."""
    world = random_run(39_000_100_900_765, harsh=True)
    assert any(
        each.generation == 2 and sorted(map(len, each.members.values())) == [0, 0, 1, 1]
        for each in world.watch.history
    )


def test_seed_repeats_its_run() -> None:
    one, two = random_run(7), random_run(7)
    assert one.report("") == two.report("")
    assert one.timeline.steps == two.timeline.steps > 100
    assert one.report("") != random_run(8).report("").replace("seed 8", "seed 7")


def test_a_seed_is_the_same_run_in_every_process() -> None:
    """Python orders sets of texts anew in each: nothing may follow from that."""
    code = (
        "import hashlib, logging; logging.disable(logging.CRITICAL)\n"
        "from tests.simulation.watched_tasks import random_run\n"
        "text = ''.join(random_run(seed).report('') for seed in range(40))\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_the_command_counts_what_it_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--runs", "30", "--seed", "3"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "from seed 3"
    found = re.fullmatch(r"30 runs, (\d+) assignments, (\d+) commits, 0 violations", last)
    assert found is not None
    assert int(found[1]) > 30


def test_the_command_fails_with_the_seed_and_what_led_to_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rebalances, "phase_ended", lambda *_: None)
    assert main(["--runs", "1", "--seed", "3", "--harsh"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert any(line.startswith("invariant ") for line in told)
    assert "seed 3 harsh, what led to it:" in told
    assert told[-1].endswith(" 1 violations")


def test_no_time_is_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--duration", "0"]) == 0
    assert capsys.readouterr().out.endswith("0 runs, 0 assignments, 0 commits, 0 violations\n")


@pytest.mark.parametrize("options", [[], ["--harsh"], ["--consumer-groups", "--extended"]])
def test_command_of_the_package_plays_without_watches(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs.main(["--runs", "15", "--seed", "3", *options]) == 0
    assert re.fullmatch(
        r"15 runs, \d+ assignments, \d+ commits, 0 violations",
        capsys.readouterr().out.splitlines()[-1],
    )


def test_two_believers_are_noticed_without_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemberView, "believes_at", lambda view, _: view.state is MemberState.STABLE)
    violations = runs.play(runs.random_run, range(200), runs.Tally())
    assert any("both believe in" in str(violation) for violation in violations)


def test_two_holders_are_noticed_without_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemberView, "holds_at", lambda *_: True)
    violations = runs.play(runs.random_consumer_run, range(200), runs.Tally())
    assert any("both believe in" in str(violation) for violation in violations)
