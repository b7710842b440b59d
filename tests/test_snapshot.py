"""Test what a snapshot says about a member."""

import sys
from typing import Any

import pytest

from groupsdk.errors import NoGenerationError
from groupsdk.member.actions import Node
from groupsdk.member.state import MemberState
from groupsdk.member.view import NOT_STARTED
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import NO_GENERATION, Generation
from tests.drivers.views import GENERATION, view
from tests.drivers.virtual import config


def test_a_member_that_was_not_started() -> None:
    snapshot = MemberSnapshot.of(config(group_instance_id="static"), NOT_STARTED, 0)
    assert snapshot == MemberSnapshot(
        group_id="group",
        group_instance_id="static",
        generation=NO_GENERATION,
        state=MemberState.UNJOINED,
        stable=False,
        is_leader=False,
        assignment_epoch=0,
        rejoin_pending=True,
        coordinator=None,
        trouble=None,
    )
    assert snapshot.member_id == ""


def test_a_stable_member() -> None:
    shown = view(is_leader=True, assignment_epoch=4, trouble="slow")
    assert MemberSnapshot.of(config(), shown, 0) == MemberSnapshot(
        group_id="group",
        group_instance_id=None,
        generation=GENERATION,
        state=MemberState.STABLE,
        stable=True,
        is_leader=True,
        assignment_epoch=4,
        rejoin_pending=False,
        coordinator=str(Node(1, "broker", 9092)),
        trouble="slow",
        holds=True,
    )


@pytest.mark.parametrize(
    ("changes", "now_ms", "stable"),
    [
        ({}, 9_999, True),
        ({}, 10_000, False),  # the session
        ({"valid_until_ms": 30_000}, 19_999, True),
        ({"valid_until_ms": 30_000}, 20_000, False),  # the poll deadline
        ({"valid_until_ms": None}, 0, False),
        ({"state": MemberState.PREPARING_REBALANCE}, 0, False),
        ({"state": MemberState.COMPLETING_REBALANCE}, 0, False),
        ({"joining": True}, 0, True),  # until the group says otherwise, the work is its own
    ],
)
def test_stable_means_that_it_may_act(changes: dict[str, Any], now_ms: int, stable: bool) -> None:
    snapshot = MemberSnapshot.of(config(), view(**changes), now_ms)
    assert snapshot.stable is stable
    assert snapshot.rejoin_pending is bool(changes.get("joining"))
    assert snapshot.member_id == "member-1"


def test_without_a_coordinator() -> None:
    assert MemberSnapshot.of(config(), view(coordinator=None), 0).coordinator is None


def _fencing(
    generation: Generation, instance_id: str | None = None, group_id: str = "group"
) -> bytes:
    settings = config(group_instance_id=instance_id, group_id=group_id)
    return MemberSnapshot.of(settings, view(generation=generation), 0).to_confluent()


def test_the_metadata_is_what_librdkafka_writes() -> None:
    number = (7).to_bytes(4, sys.byteorder)
    joined = Generation(7, "member-1", "range")
    assert _fencing(joined) == b"CGMDv2:" + number + b"group\0member-1\0\1"
    assert _fencing(joined, "pod-0") == b"CGMDv2:" + number + b"group\0member-1\0\0pod-0\0"


@pytest.mark.parametrize("reset", [NO_GENERATION, Generation(-1, "member-1", None)])
def test_without_a_generation_there_is_no_metadata(reset: Generation) -> None:
    with pytest.raises(NoGenerationError, match="in no generation"):
        _fencing(reset)


def test_the_metadata_cannot_carry_every_name() -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        _fencing(Generation(1, "member-1", "range"), group_id="gruppe-\xe4")


@pytest.mark.parametrize(
    ("changes", "now_ms", "holds"),
    [
        ({"state": MemberState.PREPARING_REBALANCE}, 9_999, True),
        ({"state": MemberState.PREPARING_REBALANCE}, 10_000, False),
        ({"valid_until_ms": None}, 0, False),
    ],
)
def test_rebalancing_member_holds_by_its_state(changes: Any, now_ms: int, holds: bool) -> None:
    snapshot = MemberSnapshot.of(config(), view(**changes), now_ms)
    assert (snapshot.holds, snapshot.stable) == (holds, False)
