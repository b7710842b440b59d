"""Processes that are paused, killed or end, as members of a group on a real broker: what they may still do."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from groupsdk.clock import SystemClock
from groupsdk.testing import LocalKafka
from tests.support.groups import describe_group
from tests.support.proxy import FaultProxy
from tests.support.workers import Entry, WorkerProcess, eventually


_SESSION_MS = 1_500


@pytest.fixture
def session_ms() -> int:
    """The session timeout of the workers: short where its end is waited for."""
    return _SESSION_MS


@pytest.fixture
def settings(group_id: str, session_ms: int) -> dict[str, Any]:
    """What all workers of a test have in common."""
    return {
        "group_id": group_id,
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": 100,
        "rebalance_timeout_ms": 5_000,
        "socket_connection_setup_timeout_ms": 500,
        "retry_backoff_ms": 20,
        "retry_backoff_max_ms": 200,
    }


@pytest.fixture
def far(proxy: FaultProxy, settings: dict[str, Any], tmp_path: Path) -> Iterator[WorkerProcess]:
    """A worker behind the proxy."""
    with WorkerProcess(
        tmp_path / "far", bootstrap_servers=proxy.bootstrap_servers, **settings
    ) as worker:
        yield worker


@pytest.fixture
def near(kafka: LocalKafka, settings: dict[str, Any], tmp_path: Path) -> Iterator[WorkerProcess]:
    """A worker with a way of its own to the broker."""
    with WorkerProcess(
        tmp_path / "near", bootstrap_servers=kafka.bootstrap_servers, **settings
    ) as worker:
        yield worker


def _last_generation(worker: WorkerProcess) -> int:
    ledger = worker.ledger()
    return ledger[-1].generation if ledger and ledger[-1].kind == "acting" else -1


def _await_together(one: WorkerProcess, two: WorkerProcess) -> int:
    """Wait until both act under the same generation, and return it."""

    def look() -> int:
        generation = _last_generation(one)
        return generation if generation == _last_generation(two) else -1

    return eventually(lambda: max(0, look()), lambda: (one.ledger()[-5:], two.ledger()[-5:]))


def _acted_under(worker: WorkerProcess) -> int:
    """Return the generation that the worker acted under last."""
    return worker.acts()[-1].generation


def _await_acts_after(worker: WorkerProcess, generation: int) -> int:
    """Wait until the worker acts under a later generation, and return that."""
    return eventually(
        lambda: max(0, _last_generation(worker) if _last_generation(worker) > generation else 0),
        lambda: worker.ledger()[-5:],
    )


def _await_turns(worker: WorkerProcess, count: int) -> list[Entry]:
    """Wait until the worker's loop went round some more times, and return the new entries."""
    before = len(worker.ledger())
    eventually(lambda: len(worker.ledger()) >= before + count, lambda: worker.ledger()[-5:])
    return worker.ledger()[before:]


def _check_handed_over(generation: int, *workers: WorkerProcess) -> None:
    """Check that nobody acted under `generation` once anybody had acted under a later one (invariant 4)."""
    acts: Sequence[Entry] = [act for worker in workers for act in worker.acts()]
    last = max(act.at_ms for act in acts if act.generation <= generation)
    first = min(act.at_ms for act in acts if act.generation > generation)
    assert last <= first, f"generation {generation} was acted under {last - first} ms too long"


class TestPaused:
    def test_past_its_session_it_does_not_act_on_what_it_had(
        self, far: WorkerProcess, near: WorkerProcess
    ) -> None:
        _await_together(far, near)
        far.pause()
        old = _acted_under(far)
        # Expelled: the other one works alone, in a later generation.
        alone = _await_acts_after(near, old)
        resumed_ms = SystemClock().now_ms()
        far.resume()
        both = _await_acts_after(far, old)
        assert both > alone
        later = [act for act in far.acts() if act.at_ms >= resumed_ms]
        assert all(act.generation > old for act in later)
        _check_handed_over(old, far, near)
        # It was told that all is lost before it was given anything new.
        callbacks = [
            (entry.kind, entry.generation)
            for entry in far.ledger()
            if entry.kind.startswith("on_join") and entry.at_ms >= resumed_ms
        ]
        assert callbacks[0] == ("on_join_prepare", -1)

    def test_nor_when_no_answer_can_reach_it(
        self, far: WorkerProcess, near: WorkerProcess, proxy: FaultProxy
    ) -> None:
        _await_together(far, near)
        far.pause()
        old = _acted_under(far)
        proxy.black_hole()
        alone = _await_acts_after(near, old)
        resumed_ms = SystemClock().now_ms()
        far.resume()
        # Nobody can tell it that it is out. Its own clock does, from the first turn on.
        turns = _await_turns(far, 30)
        assert not [entry for entry in turns if entry.kind == "acting"]
        assert not [act for act in far.acts() if act.at_ms >= resumed_ms]
        proxy.black_hole(False)
        proxy.disconnect()
        assert _await_acts_after(far, old) > alone
        _check_handed_over(old, far, near)

    def test_nor_when_the_broker_refuses_it_at_the_same_time(
        self, far: WorkerProcess, near: WorkerProcess, proxy: FaultProxy
    ) -> None:
        _await_together(far, near)
        far.pause()
        old = _acted_under(far)
        proxy.refuse()
        proxy.disconnect()
        _await_acts_after(near, old)
        resumed_ms = SystemClock().now_ms()
        far.resume()
        _await_turns(far, 30)
        assert not [act for act in far.acts() if act.at_ms >= resumed_ms]
        proxy.refuse(False)
        _await_acts_after(far, old)
        _check_handed_over(old, far, near)

    def test_alone_it_waits_for_its_coordinators_word(
        self, far: WorkerProcess, kafka: LocalKafka, group_id: str
    ) -> None:
        eventually(lambda: max(0, _last_generation(far)))
        far.pause()
        old = _acted_under(far)
        # Nobody takes over, and still the group does not count on it any more.
        eventually(lambda: describe_group(kafka.bootstrap_servers, group_id).state == "Empty")
        resumed_ms = SystemClock().now_ms()
        far.resume()
        _await_acts_after(far, old)
        assert all(act.generation > old for act in far.acts() if act.at_ms >= resumed_ms)


class TestPausedForShorter:
    @pytest.fixture
    def session_ms(self) -> int:
        """Longer than a machine may stall."""
        return 30_000

    def test_than_its_session_it_just_goes_on(
        self, far: WorkerProcess, near: WorkerProcess
    ) -> None:
        generation = _await_together(far, near)
        far.pause()
        _await_turns(near, 20)
        far.resume()
        _await_turns(far, 30)
        assert _last_generation(far) == generation
        assert _last_generation(near) == generation


class TestEnds:
    def test_killed_its_work_is_handed_over_after_its_session(
        self, far: WorkerProcess, near: WorkerProcess
    ) -> None:
        _await_together(far, near)
        far.kill()
        old = _acted_under(far)
        _await_acts_after(near, old)
        _check_handed_over(old, far, near)
        assert near.terminate() == 0

    def test_terminated_it_leaves_at_once(
        self, far: WorkerProcess, near: WorkerProcess, kafka: LocalKafka, group_id: str
    ) -> None:
        _await_together(far, near)
        assert far.terminate() == 0
        old = _acted_under(far)
        _await_acts_after(near, old)
        _check_handed_over(old, far, near)
        assert near.terminate() == 0
        assert describe_group(kafka.bootstrap_servers, group_id).state == "Empty"
