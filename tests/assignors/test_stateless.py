"""Test what assignors without a memory have in common."""

from assignors.base import StatelessAssignor
from groupsdk.assignment import Assignment, RebalanceProtocol


def test_nothing_is_told_and_nothing_is_noted() -> None:
    assignor = StatelessAssignor()

    assignor.on_assignment(Assignment({"t": [1]}), 3)

    assert assignor.subscription_user_data(["t"]) is None
    assert assignor.version == 0
    assert assignor.supported_protocols == frozenset({RebalanceProtocol.EAGER})
