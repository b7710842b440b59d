import pytest

from groupsdk.broker.classic_groups.group import ClassicGroup
from groupsdk.broker.classic_groups.state import TRANSITIONS
from groupsdk.broker.group_status import GroupState


# Kafka's table, the other way round: where each state may be entered from.
ENTERED_FROM = {
    "Empty": {"PreparingRebalance"},
    "PreparingRebalance": {"Stable", "CompletingRebalance", "Empty"},
    "CompletingRebalance": {"PreparingRebalance"},
    "Stable": {"CompletingRebalance"},
    "Dead": {"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"},
}


@pytest.mark.parametrize("state", GroupState)
def test_the_table_is_kafkas(state: GroupState) -> None:
    entered_from = {each.value for each, after in TRANSITIONS.items() if state in after}

    assert entered_from == ENTERED_FROM[state.value]


@pytest.mark.parametrize("after", GroupState)
@pytest.mark.parametrize("before", GroupState)
def test_a_group_keeps_to_it(before: GroupState, after: GroupState) -> None:
    group = ClassicGroup("g", 1)
    group.state = before

    if before.value in ENTERED_FROM[after.value]:
        group.transition_to(after, 5)
        assert (group.state, group.previous_state, group.state_timestamp_ms) == (after, before, 5)
    else:
        with pytest.raises(RuntimeError, match=f"from {before.value} to {after.value}"):
            group.transition_to(after, 5)
        assert group.state is before
