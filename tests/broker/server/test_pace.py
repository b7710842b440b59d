"""Tests when a handler pauses, and that its steps can be run without pauses."""

import pytest

from groupsdk.broker.server.pace import CHANGE_COSTS, Pace, Steps, at_once, counted
from groupsdk.wire.schema import Response


def test_a_handler_pauses_after_512_elements_or_a_few_changes() -> None:
    pace = Pace()
    assert [n for n in range(1_100) if pace.due()] == [512, 1_024]
    changes = Pace()
    assert [n for n in range(20) if changes.due(CHANGE_COSTS)] == [8, 16]


def test_steps_are_run_without_pauses() -> None:
    answer = Response()

    def steps() -> Steps:
        yield
        yield
        return answer

    assert at_once(steps()) is answer
    assert at_once(answer) is answer
    assert at_once(None) is None


def test_many_elements_are_counted_in_steps() -> None:
    steps = counted(n % 1_500 for n in range(2_500))
    next(steps)
    next(steps)
    with pytest.raises(StopIteration) as ended:
        next(steps)
    counts = ended.value.value
    assert list(counts) == list(range(1_500))
    assert (counts[999], counts[1_000]) == (2, 1)
