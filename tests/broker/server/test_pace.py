"""Tests when a handler pauses, and that its steps can be run without pauses."""

from groupsdk.broker.server.pace import CHANGE_COSTS, Pace, Steps, at_once
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
