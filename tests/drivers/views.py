"""Views of members, as an engine would publish them."""

from dataclasses import replace
from typing import Any

from groupsdk.member.actions import Node
from groupsdk.member.state import MemberState
from groupsdk.member.view import MemberView
from groupsdk.types import Generation


GENERATION = Generation(3, "member-1", "v0")

_STABLE = MemberView(
    state=MemberState.STABLE,
    generation=GENERATION,
    is_leader=False,
    assignment_epoch=1,
    joining=False,
    coordinator=Node(1, "broker", 9092),
    valid_until_ms=10_000,
    poll_until_ms=20_000,
    call=None,
    failure=None,
    trouble=None,
    events=(),
    stopped=False,
)


def view(**changes: Any) -> MemberView:
    """The view of a stable member, valid until 10 s and polled for until 20 s, with changes."""
    return replace(_STABLE, **changes)
