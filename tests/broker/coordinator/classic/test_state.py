from itertools import product

import pytest

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.group_status import TRANSITIONS, GroupState, GroupTrigger
from tests.support.cases import each_case


# Kafka's table, the other way round: where each state may be entered from.
ENTERED_FROM = {
    "Empty": {"PreparingRebalance"},
    "PreparingRebalance": {"Stable", "CompletingRebalance", "Empty"},
    "CompletingRebalance": {"PreparingRebalance"},
    "Stable": {"CompletingRebalance"},
    "Dead": {"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"},
}


# While a log is loaded, which has no rebalances, one record follows the other.
LOADING = {("Empty", "Stable"), ("Stable", "Empty"), ("Stable", "Stable"), ("Empty", "Empty")}


def test_classic_group_transitions_are_kafkas() -> None:
    moves = {(before.value, after.value) for (before, _), after in TRANSITIONS.items()}

    assert moves - LOADING == {
        (before, after) for after, sources in ENTERED_FROM.items() for before in sources
    }
    assert moves >= LOADING


@each_case(("before", "trigger"), [*product(GroupState, GroupTrigger)])
def test_a_group_keeps_to_it(before: GroupState, trigger: GroupTrigger) -> None:
    group = ClassicGroup("g", 1)
    group.state = before
    after = TRANSITIONS.get((before, trigger))

    if after is None:
        with pytest.raises(RuntimeError, match=f"from {before.value} when {trigger.value}"):
            group.move(trigger, 5)
        assert group.state is before
    else:
        group.move(trigger, 5)
        assert (group.state, group.previous_state, group.state_timestamp_ms) == (after, before, 5)
