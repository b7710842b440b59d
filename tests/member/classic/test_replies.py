"""Test what a member does on every error code of every answer."""

from collections.abc import Callable

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.errors import FencedInstanceIdError, GroupSdkError, broker_error
from groupsdk.member.actions import CompleteJoin, FindCoordinator, PrepareJoin, Send, Stop
from groupsdk.member.classic.replies import DEFAULTS, REPLIES, ClassicReaction, reply_to
from groupsdk.member.events import (
    CloseRequested,
    FailureRaised,
    LookupFailed,
    RejoinRequested,
)
from groupsdk.member.membership import Reaction, Reply
from groupsdk.member.state import MemberState
from groupsdk.types import NO_GENERATION, Generation, GroupMembershipOperation
from groupsdk.wire.messages.groups import DescribeGroupsRequest, DescribeGroupsResponse
from groupsdk.wire.schema import ApiKey, Response
from tests.member.driving import (
    MEMBER_ID,
    Driver,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    beaten,
    join_refused,
    joined,
    left,
    synced,
)
from tests.support.cases import each_case


E, R = ErrorCode, ClassicReaction
ERRORS = [code for code in ErrorCode if code is not E.NONE]
UNKNOWN_CODES = [999, -2, 32_767, -32_768]
GENERATION = Generation(1, MEMBER_ID, "even")

_MOVED = {E.COORDINATOR_NOT_AVAILABLE: R.REDISCOVER, E.NOT_COORDINATOR: R.REDISCOVER}

# Kafka's reactions, restated here so that a slip in the table is seen. All other codes: `_other`.
EXPECTED: dict[ApiKey, dict[ErrorCode, ClassicReaction]] = {
    ApiKey.JOIN_GROUP: {
        **_MOVED,
        E.NONE: R.PROCEED,
        E.COORDINATOR_LOAD_IN_PROGRESS: R.REJOIN_LATER,
        E.REBALANCE_IN_PROGRESS: R.REJOIN_NOW,
        E.UNKNOWN_MEMBER_ID: R.RESET_MEMBER,
        E.MEMBER_ID_REQUIRED: R.KEEP_GIVEN_ID,
        E.FENCED_INSTANCE_ID: R.FENCE,
        E.INCONSISTENT_GROUP_PROTOCOL: R.FAIL,
        E.INVALID_SESSION_TIMEOUT: R.FAIL,
        E.INVALID_GROUP_ID: R.FAIL,
        E.GROUP_AUTHORIZATION_FAILED: R.FAIL,
        E.GROUP_MAX_SIZE_REACHED: R.FAIL,
        E.UNSUPPORTED_VERSION: R.FAIL,
        E.ILLEGAL_GENERATION: R.FAIL,
    },
    ApiKey.SYNC_GROUP: {
        **_MOVED,
        E.NONE: R.PROCEED,
        E.COORDINATOR_LOAD_IN_PROGRESS: R.REJOIN_LATER,  # fatal in Kafka's client
        E.REBALANCE_IN_PROGRESS: R.REJOIN_NOW,
        E.UNKNOWN_MEMBER_ID: R.RESET_MEMBER,
        E.ILLEGAL_GENERATION: R.RESET_GENERATION,
        E.FENCED_INSTANCE_ID: R.FENCE,
        E.GROUP_AUTHORIZATION_FAILED: R.FAIL,
        E.INCONSISTENT_GROUP_PROTOCOL: R.FAIL,
    },
    ApiKey.HEARTBEAT: {
        **_MOVED,
        E.NONE: R.PROCEED,
        E.REBALANCE_IN_PROGRESS: R.REBALANCING,
        E.UNKNOWN_MEMBER_ID: R.RESET_MEMBER,
        E.ILLEGAL_GENERATION: R.RESET_GENERATION,
        E.FENCED_INSTANCE_ID: R.FENCE,
        E.GROUP_AUTHORIZATION_FAILED: R.REPORT,  # only repeated in Kafka's client
    },
}


def _other(api: ApiKey, code: ErrorCode) -> ClassicReaction:
    if api is ApiKey.HEARTBEAT:
        return R.RETRY
    # Kafka's client fails on these, too; they pass, so this one repeats.
    return R.REJOIN_LATER if code.retriable else R.FAIL


@each_case("code", list(ErrorCode))
@pytest.mark.parametrize("api", list(EXPECTED), ids=lambda api: api.name)
def test_reply_table_is_kafkas(api: ApiKey, code: ErrorCode) -> None:
    reply = reply_to(api, code)
    assert reply.reaction is EXPECTED[api].get(code, _other(api, code))
    assert reply.note or reply.reaction is R.PROCEED, "say why"


@each_case("api", list(EXPECTED))
@each_case("code", UNKNOWN_CODES)
def test_a_code_that_is_not_known_is_like_an_unexplained_failure(api: ApiKey, code: int) -> None:
    assert reply_to(api, code) == reply_to(api, E.UNKNOWN_SERVER_ERROR)


def test_errors_about_an_older_generation_are_marked() -> None:
    rows = [(api, code, reply) for api, table in REPLIES.items() for code, reply in table.items()]
    marked = {(api, code) for api, code, reply in rows if reply.if_current}
    resets = {R.RESET_MEMBER, R.RESET_GENERATION}
    assert marked == {(api, code) for api, code, reply in rows if reply.reaction in resets} | {
        (ApiKey.HEARTBEAT, E.FENCED_INSTANCE_ID)
    }
    assert not any(reply.if_current for pair in DEFAULTS.values() for reply in pair)


def test_every_reaction_is_used() -> None:
    replies: list[Reply] = [reply for table in REPLIES.values() for reply in table.values()]
    replies += [reply for pair in DEFAULTS.values() for reply in pair]
    assert {reply.reaction for reply in replies} == set(ClassicReaction)


# What the member does.


def _at_join() -> Driver:
    driver = Driver()
    driver.join()
    driver.handle(RejoinRequested("test"))
    driver.start_join()
    return driver


def _at_sync() -> Driver:
    driver = Driver()
    driver.start_sync()
    return driver


def _at_heartbeat() -> Driver:
    driver = Driver()
    driver.join()
    driver.advance(3_000)
    assert driver.pending(HeartbeatRequest)
    return driver


Standing = tuple[Callable[[], Driver], Callable[[int], Response]]
STANDINGS: dict[ApiKey, Standing] = {
    ApiKey.JOIN_GROUP: (_at_join, join_refused),
    ApiKey.SYNC_GROUP: (_at_sync, lambda code: synced(error=code)),
    ApiKey.HEARTBEAT: (_at_heartbeat, beaten),
}


def _check(driver: Driver, api: ApiKey, reaction: Reaction, code: int) -> None:
    """Check what is particular to each reaction."""
    view = driver.view
    failure: GroupSdkError | None = None if view.failure is None else view.failure.error
    tells = reaction in (R.FAIL, R.FENCE, R.REPORT)
    assert (failure is not None) == tells
    if failure is not None:
        assert type(failure) is type(broker_error(code))
        assert api.name in str(failure)
    if reaction in (R.FENCE, R.RESET_MEMBER, R.RESET_GENERATION):
        kept = MEMBER_ID if reaction is R.RESET_GENERATION else ""
        assert view.generation == Generation(-1, kept, None)
        assert view.state is MemberState.UNJOINED
    else:
        assert view.generation == GENERATION
    assert (view.coordinator is None) == (reaction is R.REDISCOVER)
    if reaction in (R.REJOIN_NOW, R.RESET_MEMBER, R.RESET_GENERATION, R.REBALANCING):
        driver.call(PrepareJoin)
    else:
        assert view.call is None
    if reaction is R.REJOIN_LATER:
        driver.advance(200)
        driver.call(PrepareJoin)
    if api is ApiKey.HEARTBEAT and reaction in (R.RETRY, R.REPORT):
        assert view.state is MemberState.STABLE
        driver.advance(3_000)
        assert driver.pending(HeartbeatRequest)


@each_case("code", [*ERRORS, *UNKNOWN_CODES])
@pytest.mark.parametrize("api", list(STANDINGS), ids=lambda api: api.name)
def test_reply_to_every_error_code_is_carried_out(api: ApiKey, code: int) -> None:
    standing, answer = STANDINGS[api]
    driver = standing()
    reaction = reply_to(api, code).reaction
    driver.answer(answer(code))
    if driver.pending(DescribeGroupsRequest):  # what the group uses is told with the error
        driver.answer(DescribeGroupsResponse())
    if reaction is R.KEEP_GIVEN_ID:  # demanded of one that has a member id, and none given
        assert driver.view.failure is not None
        return
    _check(driver, api, reaction, code)


# However often the same is answered.


def _insist(driver: Driver, answer: Callable[[Driver], bool], duration_ms: int) -> None:
    """Let a caller poll for so long, with every answer coming without delay."""
    until_ms = driver.now_ms + duration_ms
    steps = 0
    while driver.now_ms < until_ms and not driver.stopped:
        steps += 1
        assert steps < 20_000
        view = driver.view
        if driver.looking:
            driver.found()
        elif view.failure is not None and not view.failure.error.fatal:
            driver.handle(FailureRaised(view.failure.failure_id))
        elif isinstance(view.call, PrepareJoin):
            driver.prepare()
        elif not answer(driver):
            driver.poll()
            driver.advance(50)


@each_case("code", [*ERRORS, *UNKNOWN_CODES])
@pytest.mark.parametrize("api", list(STANDINGS), ids=lambda api: api.name)
def test_a_coordinator_that_always_answers_the_same_makes_nothing_spin(
    api: ApiKey, code: int
) -> None:
    standing, _ = STANDINGS[api]
    driver = standing()
    expelled = 0

    def reply(driver: Driver) -> bool:
        nonlocal expelled
        if driver.pending(SyncGroupRequest):
            driver.answer(synced(error=code if api is ApiKey.SYNC_GROUP else 0))
            if isinstance(driver.view.call, CompleteJoin):
                driver.deliver()
        elif driver.pending(JoinGroupRequest):
            if api is ApiKey.JOIN_GROUP:
                expelled += 1
                driver.answer(join_refused(code, f"m-{expelled}"))
            else:
                driver.answer(joined())
        elif driver.pending(HeartbeatRequest):
            driver.answer(beaten(code if api is ApiKey.HEARTBEAT else 0))
        else:
            return False
        return True

    _insist(driver, reply, 60_000)
    # An attempt takes at most two answers, and all but a few wait 800 ms or more after the one before.
    assert len(driver.actions(Send)) < 250
    assert len(driver.actions(FindCoordinator)) < 100
    if code == E.FENCED_INSTANCE_ID:
        assert driver.view.failure is not None
        assert isinstance(driver.view.failure.error, FencedInstanceIdError)


@each_case("code", [*ERRORS, *UNKNOWN_CODES])
def test_a_leave_is_over_with_its_answer_whatever_that_is(code: int) -> None:
    driver = Driver()
    driver.join()
    driver.handle(CloseRequested(GroupMembershipOperation.DEFAULT, 30_000, "done"))
    assert driver.pending(LeaveGroupRequest)
    driver.answer(left(code))
    assert driver.actions(Stop)
    assert driver.view.generation == NO_GENERATION
    assert driver.view.failure is None


@each_case("code", [*ERRORS, *UNKNOWN_CODES])
@pytest.mark.parametrize("member", [False, True])
def test_a_failed_lookup_reaches_the_caller_and_is_repeated_with_backoff(
    code: int, member: bool
) -> None:
    driver = Driver()
    if member:
        driver.join()
        driver.disconnect()
    else:
        driver.poll()
    lookups = 0

    until_ms = driver.now_ms + 60_000
    raised = 0
    while driver.now_ms < until_ms:
        if driver.looking:
            driver.looking = False
            lookups += 1
            driver.handle(LookupFailed(broker_error(code, "FindCoordinator of group 'g'")))
        elif driver.view.failure is not None and not driver.view.failure.error.fatal:
            raised += 1
            driver.handle(FailureRaised(driver.view.failure.failure_id))
        else:
            driver.poll()
            driver.advance(50)
    if code == E.FENCED_INSTANCE_ID:  # no coordinator says that to a lookup; fatal all the same
        assert driver.view.failure is not None
        return
    assert 50 < lookups < 90
    assert raised == lookups
