"""Processes that are paused, killed or end, as members of every kind on a real broker: what they may still do."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupsdk.clock import SystemClock
from groupsdk.testing import LocalKafka
from tests.kafka.crews import KINDS, AnyCrew, crew_of
from tests.support.proxy import FaultProxy
from tests.support.workers import eventually


pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def session_ms() -> int:
    """The session timeout of the group: short where its end is waited for."""
    return 1_500


@pytest.fixture(params=KINDS)
def crew(
    request: pytest.FixtureRequest,
    paced_kafka: LocalKafka,
    group_id: str,
    session_ms: int,
    tmp_path: Path,
) -> Iterator[AnyCrew]:
    """A crew of nobody yet; at the end, no two may ever have acted on the same at once."""
    with crew_of(request.param, paced_kafka, group_id, session_ms, tmp_path) as crew:
        yield crew


members_alone = pytest.mark.parametrize("crew", ["member"], indirect=True)


def test_process_paused_past_its_session_does_not_act_on_what_it_had(crew: AnyCrew) -> None:
    far, near = crew.start_pair()
    far.pause()
    crew.await_share(near)
    resumed_ms = crew.resume(far)
    crew.await_share(far, near)
    crew.check_lost_at(far, resumed_ms)


def test_process_paused_past_its_session_and_without_answers_stops_by_its_own_clock(
    crew: AnyCrew, way: FaultProxy
) -> None:
    far, near = crew.start_pair(way)
    far.pause()
    way.black_hole()
    crew.await_share(near)
    resumed_ms = crew.resume(far)
    # Nobody can tell it that it is out. Its own clock does, from the first turn on.
    crew.await_turns(far, 30)
    assert not crew.acted_since(far, resumed_ms)
    way.black_hole(False)
    way.disconnect()
    crew.await_share(far, near)


def test_process_paused_past_its_session_and_refused_by_the_broker_does_not_act(
    crew: AnyCrew, way: FaultProxy
) -> None:
    far, near = crew.start_pair(way)
    far.pause()
    way.refuse()
    way.disconnect()
    crew.await_share(near)
    resumed_ms = crew.resume(far)
    crew.await_turns(far, 30)
    assert not crew.acted_since(far, resumed_ms)
    way.refuse(False)
    crew.await_share(far, near)


def test_process_alone_paused_past_its_session_waits_for_its_coordinator(crew: AnyCrew) -> None:
    far = crew.start()
    crew.await_share(far)
    far.pause()
    # Nobody takes over, and still the group does not count on it any more.
    eventually(crew.is_empty)
    resumed_ms = crew.resume(far)
    crew.await_share(far)
    crew.check_lost_at(far, resumed_ms)


@pytest.mark.parametrize("session_ms", [30_000])  # longer than a machine may stall
def test_process_paused_within_its_session_keeps_what_it_had(crew: AnyCrew) -> None:
    far, near = crew.start_pair()
    before = [crew.acts_under(far), crew.acts_under(near)]
    far.pause()
    crew.await_turns(near, 20)
    far.resume()
    crew.await_turns(far, 30)
    crew.await_share(far, near)
    assert [crew.acts_under(far), crew.acts_under(near)] == before


def test_killed_process_hands_its_work_over_after_its_session(crew: AnyCrew) -> None:
    far, near = crew.start_pair()
    far.kill()
    crew.await_share(near)
    assert near.send(signal.SIGTERM) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_process_that_is_asked_to_end_leaves_at_once(crew: AnyCrew, number: signal.Signals) -> None:
    far, near = crew.start_pair()
    assert far.send(number) == 0
    crew.await_share(near)
    assert near.send(number) == 0
    assert crew.is_empty()


@pytest.mark.parametrize("session_ms", [6_000])
def test_caller_paused_past_the_session_keeps_what_its_heartbeat_process_holds(
    crew: AnyCrew, session_ms: int
) -> None:
    own: dict[str, Any] = {"heartbeat": "process", "max_poll_interval_ms": 60_000}
    one, two = crew.start(**own), crew.start(**own)
    crew.await_share(one, two)
    before, of_the_other = crew.acts_under(one), crew.acts_under(two)
    one.pause()
    paused_ms = SystemClock().now_ms()
    eventually(lambda: crew.last_turn_ms(two) > paused_ms + session_ms + 1_000)
    # on a busy machine it may doubt its own session for a moment
    eventually(lambda: crew.acts_under(two) == of_the_other)
    resumed_ms = crew.resume(one)
    crew.await_turns(one, 10)
    eventually(lambda: crew.acted_since(one, resumed_ms))
    # the count of a tenure tells one that was lost and given again from one that was kept
    eventually(lambda: crew.acts_under(one))
    assert crew.acts_under(one) == before


@pytest.mark.parametrize("with_children", [False, True], ids=["caller", "caller-and-child"])
def test_caller_paused_past_its_poll_interval_does_not_act_on_what_it_had(
    crew: AnyCrew, with_children: bool
) -> None:
    one = crew.start(heartbeat="process", max_poll_interval_ms=1_500)
    two = crew.start()
    crew.await_share(one, two)
    one.pause(with_children=with_children)
    crew.await_share(two)
    resumed_ms = crew.resume(one)
    crew.await_share(one, two)
    crew.check_lost_at(one, resumed_ms)


def test_heartbeat_process_that_is_stopped_takes_the_belief_of_its_caller_away(
    crew: AnyCrew,
) -> None:
    one, two = crew.start(heartbeat="process"), crew.start()
    crew.await_share(one, two)
    (child,) = one.children
    os.kill(child, signal.SIGSTOP)
    # The caller's loop goes on all the time, and stops to act by its own clock.
    crew.await_share(two)
    os.kill(child, signal.SIGCONT)
    crew.await_share(one, two)


@members_alone
def test_killed_caller_takes_its_heartbeat_process_along_and_leaves(crew: AnyCrew) -> None:
    # A session that would outlast the test: only a leave hands the work over in time.
    one, two = crew.start(heartbeat="process", session_timeout_ms=60_000), crew.start()
    crew.await_share(one, two)
    (child,) = one.children
    one.kill()
    crew.await_share(two)
    eventually(lambda: not Path(f"/proc/{child}").exists())
