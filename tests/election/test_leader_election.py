"""Holds elections on brokers: one leader, who stays, whom another follows, whatever callbacks do."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from groupsdk.clock import SystemClock
from groupsdk.election import LeaderElection, Term
from groupsdk.errors import ConfigError
from tests.connect.workers import eventually
from tests.support.scripted_broker import refusing_port


ROOT = Path(__file__).resolve().parents[2]
TIMES = {
    # a machine that stalls must not end it: leaders are expected to stay
    "session_timeout_ms": 20_000,
    "heartbeat_interval_ms": 150,
    "rebalance_timeout_ms": 20_000,
    "retry_backoff_ms": 20,
}


class Taking:
    """One process that takes part, and notes what it is told."""

    def __init__(self, election: LeaderElection) -> None:
        self.election = election
        self.told: list[Term | None] = []
        self.raises = False
        election.on_elected(self._elected)
        election.on_lost(self._lost)

    def _elected(self, term: Term) -> None:
        self.told.append(term)
        if self.raises:
            raise ValueError("the callback is broken")

    def _lost(self) -> None:
        self.told.append(None)
        if self.raises:
            raise ValueError("this one too")


Join = Callable[..., Taking]


@pytest.fixture
def join(servers: str, group_id: str) -> Iterator[Join]:
    with ExitStack() as stack:

        def joined(name: str, **options: Any) -> Taking:
            election = LeaderElection(
                group_id, candidate=name, bootstrap_servers=servers, **{**TIMES, **options}
            )
            stack.callback(election.stop)
            taking = Taking(election)
            election.start()
            return taking

        yield joined


def test_one_leads_all_know_it_and_it_stays(join: Join) -> None:
    first = join("b")
    eventually(lambda: first.election.term)
    second = join("a")
    eventually(lambda: second.election.leader == "b")
    assert second.election.term is None
    assert second.election.standby == ("a",)
    term = first.election.term
    assert term is not None
    third = join("c")
    eventually(lambda: third.election.standby == ("a", "c"))
    # through two rebalances it leads on, under the token that it was elected with
    assert first.told == [term]
    assert first.election.term == term
    first.election.stop()
    assert first.told == [term, None]
    next_term = eventually(lambda: second.election.term)
    assert next_term.generation > term.generation
    eventually(lambda: third.election.leader == "a")


def test_block_takes_part_from_its_beginning_to_its_end(servers: str, group_id: str) -> None:
    settings: Any = {"bootstrap_servers": servers, **TIMES}
    with LeaderElection(group_id, candidate="a", **settings) as first:
        eventually(lambda: first.term)
        with LeaderElection(group_id, candidate="b", **settings) as second:
            eventually(lambda: (first.standby, second.standby) == (("b",), ("b",)))
            assert (first.leader, second.leader) == ("a", "a")
        eventually(lambda: first.standby == ())
    assert first.term is None


def test_ineligible_member_only_observes_the_leader(join: Join) -> None:
    observer = join("a", eligible=False)
    leader = join("b")
    eventually(lambda: leader.election.term)
    eventually(lambda: observer.election.leader == "b")
    leader.election.stop()
    eventually(lambda: observer.election.leader is None)
    assert observer.told == []


def test_a_new_leader_waits_before_it_acts(join: Join) -> None:
    begun_ms = SystemClock().now_ms()
    leader = join("a", grace=0.4)
    eventually(lambda: leader.election.leader == "a")
    eventually(lambda: leader.told)
    assert SystemClock().now_ms() - begun_ms >= 400


def test_callbacks_that_raise_end_nothing(join: Join) -> None:
    first = join("a")
    first.raises = True
    eventually(lambda: first.election.term)
    second = join("b")
    eventually(lambda: second.election.leader == "a")
    first.election.resign()
    eventually(lambda: second.election.term)
    assert first.told[-1] is None
    second.election.stop()
    eventually(lambda: first.election.term)
    assert len(first.told) == 3


def test_a_callback_that_does_not_return_is_told_that_it_is_over(join: Join) -> None:
    """The election's thread is stuck in `on_elected` past its poll interval: the group goes on without it."""
    stuck = join("a", rebalance_timeout_ms=1_000)
    hold = threading.Event()

    @stuck.election.on_elected
    def never_returns(term: Term) -> None:
        stuck.told.append(term)
        hold.wait(120)

    eventually(lambda: stuck.told)
    eventually(lambda: stuck.told[-1] is None)
    assert stuck.election.term is None
    hold.set()


_PROCESS = """
import sys, time
from groupsdk.clock import SystemClock
from groupsdk.election import LeaderElection
servers, group, name, path = sys.argv[1:]
election = LeaderElection(group, candidate=name, bootstrap_servers=servers, session_timeout_ms=5000,
    heartbeat_interval_ms=150, rebalance_timeout_ms=20000, retry_backoff_ms=20)
election.start()
clock = SystemClock()
with open(path, "a", buffering=1) as ledger:
    while True:
        before_ms = clock.now_ms()
        term = election.term
        if term is not None:
            ledger.write(f"{term.generation} {before_ms} {clock.now_ms()}\\n")
        time.sleep(0.005)
"""


def test_a_paused_leader_does_not_act_when_it_goes_on(
    servers: str, group_id: str, tmp_path: Path
) -> None:
    script = tmp_path / "candidate.py"
    script.write_text(_PROCESS)
    paths = {name: tmp_path / name for name in ("a", "b")}
    with ExitStack() as stack:
        processes = {}
        for name, path in paths.items():
            path.touch()
            processes[name] = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, str(script), servers, group_id, name, str(path)],
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                )
            )
            stack.callback(processes[name].kill)
        leader = eventually(lambda: next((n for n, p in paths.items() if p.stat().st_size), None))
        other = "b" if leader == "a" else "a"
        processes[leader].send_signal(signal.SIGSTOP)
        eventually(lambda: paths[other].stat().st_size)
        processes[leader].send_signal(signal.SIGCONT)
        size = paths[other].stat().st_size
        eventually(lambda: paths[other].stat().st_size > size + 500)
        acts = {
            name: [tuple(map(int, line.split())) for line in path.read_text().splitlines()]
            for name, path in paths.items()
        }
    # whoever led, and however often: each term has one leader, and ends before the next one begins
    terms = {name: {term for term, *_ in done} for name, done in acts.items()}
    assert not terms["a"] & terms["b"]
    assert min(terms[leader]) < max(terms[other])
    latest_ms = 0
    for term in sorted(terms["a"] | terms["b"]):
        # a process may have been suspended between a look at the clock and that at its term
        times = [each[1:] for done in acts.values() for each in done if each[0] == term]
        assert latest_ms <= min(after_ms for _, after_ms in times)
        latest_ms = max(latest_ms, *(before_ms for before_ms, _ in times))


def test_a_negative_grace_is_refused() -> None:
    with pytest.raises(ValueError, match="grace"):
        LeaderElection("g", bootstrap_servers="x", grace=-1)


def test_a_static_member_takes_part_in_no_election() -> None:
    # it would come back under the generation of before: the old verdict names its old member id, so that nobody
    # leads, and a second process of the same id would lead under the token of the first
    with pytest.raises(ConfigError, match=r"group\.instance\.id \('x'\) cannot be set"):
        LeaderElection("e", {"group.instance.id": "x"}, bootstrap_servers="localhost")


def test_a_callback_whose_code_does_not_run_is_told(caplog: pytest.LogCaptureFixture) -> None:
    election = LeaderElection("e", bootstrap_servers="localhost")

    async def begin(term: Term) -> None:
        """Nobody awaits it."""

    election.on_elected(begin)  # type: ignore[arg-type]  # that is the case
    election._call(election._on_elected, None)
    assert "which nobody awaits here" in caplog.text


def test_an_election_says_why_it_cannot_reach_its_cluster() -> None:
    with refusing_port() as port:
        election = LeaderElection("lonely", bootstrap_servers=f"127.0.0.1:{port}")
        assert election.trouble is None
        with election:
            eventually(lambda: election.trouble is not None)
            snapshot = election.snapshot()
        assert f"127.0.0.1:{port}" in str(snapshot.trouble)
        assert (snapshot.group_id, snapshot.stable, snapshot.coordinator) == ("lonely", False, None)
