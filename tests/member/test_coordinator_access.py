from random import Random

from groupsdk.errors import AuthenticationError, DisconnectedError
from groupsdk.member.actions import Action, Disconnect, FindCoordinator, StopLooking
from groupsdk.member.coordinator_access import WARN_AFTER_MS, CoordinatorAccess, Outage
from groupsdk.member.member import Member
from groupsdk.settings.config import MemberConfig
from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.schema import ApiKey
from tests.member.driving import NODE, SETTINGS


def access() -> tuple[CoordinatorAccess, Member]:
    member = Member(MemberConfig.of(SETTINGS), Random(0))
    return CoordinatorAccess(member), member


def test_a_lookup_begins_when_it_is_wanted_and_ends_when_it_is_not() -> None:
    each, _ = access()

    def due(*, wanted: bool) -> list[Action]:
        return [
            action
            for at_ms, step in each.deadlines(wanted=wanted)
            if at_ms <= 0
            for action in step()
        ]

    assert due(wanted=True) == [FindCoordinator()]
    assert due(wanted=True) == []
    assert due(wanted=False) == [StopLooking()]
    assert each.deadlines(wanted=False) == []


def test_a_loss_drops_the_connection_and_says_why_until_an_answer_comes() -> None:
    each, member = access()
    each.found(NODE)
    member.send(HeartbeatRequest(group_id="g"), ApiKey.HEARTBEAT, 1_000)
    actions, (flight,) = each.lost(DisconnectedError("cut off"))
    assert flight.api is ApiKey.HEARTBEAT
    assert actions == [Disconnect()]
    assert "cut off" in str(member.trouble)
    assert member.coordinator is None
    each.found(NODE)
    each.answered(ApiKey.HEARTBEAT)
    each.reached()
    assert not member.trouble
    assert each.lost(DisconnectedError("x"))[1] == ()


def test_refused_credentials_reach_the_caller_and_are_forgotten_once_a_lookup_ends_well() -> None:
    each, member = access()
    each.delayed(DisconnectedError("refused"))
    assert member.trouble == "refused"
    each.failed(AuthenticationError("wrong password"))
    failures = [member.failure]
    each.found(NODE)
    failures.append(member.failure)
    assert [failure is None for failure in failures] == [False, True]


def test_only_a_connection_that_lasted_ends_an_outage() -> None:
    """A coordinator that is named and never reached is away, however long each attempt takes."""
    for connected, held_ms, ends in (
        (False, 1_001, False),
        (True, 1_000, False),
        (True, 1_001, True),
    ):
        outage = Outage(1_000)
        outage.begin(0)
        outage.found(10_000)
        outage.lost(10_000 + held_ms, connected=connected)
        assert outage.begun is not ends
        assert outage.warn_at_ms == (None if ends else WARN_AFTER_MS)
