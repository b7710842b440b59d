"""Test what a member's caller may believe."""

from dataclasses import replace

import pytest

from groupsdk.member.state import MemberState
from groupsdk.member.view import MemberView
from groupsdk.types import Generation


STABLE = MemberView(
    state=MemberState.STABLE,
    generation=Generation(1, "m-1", "even"),
    is_leader=False,
    assignment_epoch=1,
    joining=False,
    coordinator=None,
    valid_until_ms=10_000,
    poll_until_ms=60_000,
    call=None,
    failure=None,
    trouble=None,
    events=(),
    stopped=False,
)


def test_a_stable_member_believes_until_its_session_may_be_over() -> None:
    assert STABLE.believes_at(9_999)
    assert not STABLE.believes_at(10_000)


def test_a_stable_member_believes_until_its_poll_deadline() -> None:
    view = replace(STABLE, valid_until_ms=90_000)
    assert view.believes_at(59_999)
    assert not view.believes_at(60_000)


def test_until_when_it_holds_is_the_nearer_of_session_and_poll_deadline() -> None:
    assert STABLE.held_until_ms == 10_000
    assert replace(STABLE, poll_until_ms=7).held_until_ms == 7
    assert replace(STABLE, valid_until_ms=None).held_until_ms is None


def test_without_a_proof_nothing_is_believed() -> None:
    assert not replace(STABLE, valid_until_ms=None).believes_at(0)


@pytest.mark.parametrize("state", [each for each in MemberState if each is not MemberState.STABLE])
def test_only_a_stable_member_believes(state: MemberState) -> None:
    assert not replace(STABLE, state=state).believes_at(0)


def test_a_wish_to_rejoin_does_not_end_the_membership() -> None:
    assert replace(STABLE, joining=True).believes_at(0)
