"""Tests that consumer groups and their members go through the transitions of their tables, and no others."""

import pytest

from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.member import MEMBER_TRANSITIONS, MemberState
from groupsdk.broker.coordinator.group_status import CONSUMER_TRANSITIONS, ConsumerGroupState
from tests.broker.coordinator.consumer.test_random_groups import play


def test_random_groups_go_through_every_transition_of_the_tables_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replay = ConsumerGroup.replay
    seen: set[tuple[ConsumerGroupState, ConsumerGroupState]] = set()
    members: set[tuple[MemberState, MemberState]] = set()

    def watched(group: ConsumerGroup, *record: object) -> None:
        before, states = group.state, {key: each.state for key, each in group.members.items()}
        replay(group, *record)  # type: ignore[arg-type]
        seen.add((before, group.state))
        members.update(
            (states[key], each.state) for key, each in group.members.items() if key in states
        )

    monkeypatch.setattr(ConsumerGroup, "replay", watched)
    for seed in range(150):
        play(seed)
    changes = {(state, following) for (state, _), following in CONSUMER_TRANSITIONS.items()}
    assert {(before, after) for before, after in seen if before is not after} == changes
    steps = {(state, following) for (state, _), following in MEMBER_TRANSITIONS.items()}
    known = {each for each in steps if MemberState.UNKNOWN not in each}
    assert members == known
