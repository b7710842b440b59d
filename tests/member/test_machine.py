"""Test the member as a whole: finding, losing, heartbeating, leaving, closing."""

import logging

import pytest

from groupsdk.error_code import ErrorCode as E
from groupsdk.errors import (
    AuthenticationError,
    DisconnectedError,
    GroupAuthorizationError,
    UnsupportedVersionError,
)
from groupsdk.member.actions import (
    AssignGroup,
    CompleteJoin,
    Disconnect,
    FindCoordinator,
    PrepareJoin,
    Send,
    Stop,
)
from groupsdk.member.events import (
    CallFailed,
    CloseRequested,
    CredentialsChanged,
    Disconnected,
    JoinDelivered,
    LeaveRequested,
    LookupDelayed,
    RejoinRequested,
    RequestRefused,
    TimerFired,
)
from groupsdk.member.state import MemberState
from groupsdk.types import NO_GENERATION, Generation, GroupMembershipOperation
from tests.member.driving import (
    MEMBER_ID,
    NODE,
    PROTOCOL_NAME,
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


GENERATION = Generation(1, MEMBER_ID, PROTOCOL_NAME)
LEAVE, REMAIN, DEFAULT = (
    GroupMembershipOperation.LEAVE_GROUP,
    GroupMembershipOperation.REMAIN_IN_GROUP,
    GroupMembershipOperation.DEFAULT,
)


def _close(driver: Driver, operation: GroupMembershipOperation, timeout_ms: int = 30_000) -> None:
    driver.handle(CloseRequested(operation, timeout_ms, "done"))


# Finding and losing the coordinator.


def test_nothing_happens_before_the_caller_polls(driver: Driver) -> None:
    driver.handle(RejoinRequested("early"))
    driver.handle(TimerFired())
    driver.advance(1_000_000)
    assert driver.log == []
    assert driver.view.state is MemberState.UNJOINED


def test_the_reason_of_a_rejoin_asked_for_before_the_first_join_is_sent_with_it(
    driver: Driver,
) -> None:
    driver.handle(RejoinRequested("early"))
    assert driver.start_join().reason == "early"


def test_the_first_poll_looks_for_the_coordinator_and_then_asks_the_caller(driver: Driver) -> None:
    driver.poll()
    assert driver.looking
    assert driver.view.call is None
    driver.found()
    assert driver.view.coordinator == NODE
    assert driver.call(PrepareJoin).generation == NO_GENERATION


def test_trouble_tells_why_there_is_no_coordinator(driver: Driver) -> None:
    driver.poll()
    driver.handle(LookupDelayed(DisconnectedError("refused")))
    assert driver.view.trouble == "refused"
    driver.found()
    assert driver.view.trouble is None


def away(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """What was logged of an outage, and at which level."""
    words = ("no group coordinator for", "answers again")
    return [
        (each.levelname, each.getMessage().partition(": ")[2])
        for each in caplog.records
        if any(word in each.getMessage() for word in words)
    ]


def wait_polling(driver: Driver, seconds: int) -> None:
    for _ in range(seconds):
        driver.poll()
        driver.advance(1_000)


def test_a_coordinator_that_cannot_be_found_is_warned_of_soon_and_then_at_intervals(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    driver.poll()
    driver.handle(LookupDelayed(DisconnectedError("broker-1:9092: connection refused")))
    wait_polling(driver, 4)
    assert away(caplog) == []
    wait_polling(driver, 61)
    why = "broker-1:9092: connection refused; still trying; check bootstrap.servers (broker-1:9092)"
    assert away(caplog) == [
        ("WARNING", f"no group coordinator for {seconds} s: {why}") for seconds in (5, 35, 65)
    ]
    caplog.clear()
    driver.start_join()
    driver.answer(joined())
    assert away(caplog) == [("INFO", "the group coordinator answers again, after 65 s")]
    wait_polling(driver, 60)
    assert len(away(caplog)) == 1


def test_a_coordinator_that_is_named_but_out_of_reach_is_warned_of_too(
    member: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(40):
        member.disconnect(DisconnectedError("wrong-name:9092: no address"))
        member.advance(1_000)
        member.found()
    warned = [text for level, text in away(caplog) if level == "WARNING"]
    assert len(warned) == 2
    assert "wrong-name:9092: no address; still trying" in warned[0]
    assert "bootstrap" not in warned[0], "that was right, or nothing would have been named"


def test_a_parked_join_is_no_outage(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    driver.poll()
    wait_polling(driver, 3)
    driver.start_join()
    wait_polling(driver, 50)
    driver.disconnect()
    wait_polling(driver, 3)
    assert away(caplog) == [], "the coordinator was there until just now"
    wait_polling(driver, 5)
    assert len(away(caplog)) == 1


def test_member_that_left_is_not_warned_of_a_missing_coordinator(
    member: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    member.handle(LeaveRequested("enough"))
    member.disconnect()
    member.advance(100_000)
    assert away(caplog) == []


def test_a_plan_that_no_broker_takes_is_named_until_it_gets_through(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    for count in (1, 2, 3):
        driver.poll()
        if driver.looking:
            driver.found()
        driver.advance(2_000)
        driver.lead(generation=count)
        assert (driver.view.trouble is None) == (count == 1), "a join in between shows nothing"
        driver.assign({MEMBER_ID: bytes(2_000)})
        driver.disconnect()
        assert "SYNC_GROUP with a plan of 2000 bytes was lost" in str(driver.view.trouble)
        driver.advance(2_000)
    driver.found()
    assert str(driver.view.trouble).endswith("was lost 3 times in a row")
    warned = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warned) == 1
    assert "SYNC_GROUP with a plan of 2000 bytes was lost 3 times" in warned[0].getMessage()
    driver.advance(2_000)
    driver.lead(generation=4)
    driver.assign({MEMBER_ID: b"small"})
    driver.answer(synced())
    assert driver.view.trouble is None


def test_an_outage_of_an_hour_takes_few_lines_and_names_the_true_trouble(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    """The coordinator is named, a request for it is due, and its address refuses every connection."""
    caplog.set_level(logging.INFO)
    driver.join()
    caplog.clear()
    driver.disconnect()
    rounds = 0
    for _ in range(3_600):
        if driver.looking:
            rounds += 1
            driver.found()
            driver.handle(Disconnected(DisconnectedError("n:1 cannot be reached"), connected=False))
            assert driver.view.trouble == "n:1 cannot be reached"
        driver.poll()
        driver.advance(1_000)
    assert rounds > 2_000
    assert "was lost" not in caplog.text
    lines = [each.getMessage() for each in caplog.records if each.levelno == logging.INFO]
    assert len(lines) <= 30
    assert sum("n:1 cannot be reached" in line for line in lines) >= 10
    assert "n:1 cannot be reached (2048 times by now)" in caplog.text


def test_other_credentials_are_used_at_once_and_the_refusal_of_the_old_is_forgotten(
    driver: Driver,
) -> None:
    driver.poll()
    for _ in range(8):
        driver.lookup_failed(AuthenticationError("refused"))
        driver.raise_failure()
        driver.poll()
        driver.advance(30_000)
        assert driver.looking
    driver.lookup_failed(AuthenticationError("refused"))
    driver.advance(1_000)
    assert not driver.looking
    driver.handle(CredentialsChanged("user", "secret"))
    assert driver.view.failure is None
    assert driver.looking


def test_an_unhelpful_refusal_names_a_large_size(driver: Driver) -> None:
    driver.poll()
    driver.found()
    driver.prepare(bytes(600_000))
    driver.answer(join_refused(E.UNKNOWN_SERVER_ERROR))
    assert "JOIN_GROUP of group 'g' with metadata of 600000 bytes (brokers commonly allow" in str(
        driver.failure()
    )
    driver.raise_failure()
    driver.advance(2_000)
    driver.lead()
    driver.assign({MEMBER_ID: bytes(600_001)})
    driver.answer(synced(error=E.UNKNOWN_SERVER_ERROR))
    assert "with a plan of 600001 bytes" in str(driver.failure())


def test_a_refused_small_plan_names_the_large_metadata_of_the_group(driver: Driver) -> None:
    others = tuple(f"m-{number}-{'x' * 10_000}" for number in range(60))
    driver.start_join()
    driver.answer(joined(leader=MEMBER_ID, members=(MEMBER_ID, *others)))
    driver.assign({MEMBER_ID: b"x"})
    driver.answer(synced(error=E.UNKNOWN_SERVER_ERROR))
    size = sum(len(each) for each in (MEMBER_ID, *others))
    assert (
        f"SYNC_GROUP of group 'g' with a plan of 1 bytes and all members' metadata of {size} bytes"
        " (brokers commonly allow"
    ) in str(driver.failure())


def test_a_refusal_of_something_small_tells_no_size(driver: Driver) -> None:
    driver.refuse_join(E.UNKNOWN_SERVER_ERROR)
    assert "bytes" not in str(driver.failure())


def test_a_failed_lookup_is_repeated_only_once_the_caller_knows(driver: Driver) -> None:
    driver.poll()
    driver.lookup_failed(GroupAuthorizationError(30))
    driver.advance(50_000)
    assert len(driver.actions(FindCoordinator)) == 1
    driver.raise_failure()
    driver.poll()
    assert len(driver.actions(FindCoordinator)) == 2


def test_a_lookup_that_ends_well_takes_back_the_error_of_the_one_before(member: Driver) -> None:
    member.disconnect()
    member.lookup_failed(AuthenticationError("expired"))
    assert isinstance(member.failure(), AuthenticationError)
    member.advance(1_500)
    member.found()
    assert member.view.failure is None
    assert member.view.trouble is None


def test_a_disconnect_costs_a_lookup_and_no_membership(member: Driver) -> None:
    member.disconnect()
    assert len(member.actions(Disconnect)) == 1
    assert member.looking
    assert member.active
    member.found()
    assert member.pending(HeartbeatRequest), "a heartbeat tells whether it is still a member"
    assert member.view.generation == GENERATION


def test_a_disconnect_that_repeating_does_not_mend_is_told(member: Driver) -> None:
    member.disconnect(AuthenticationError("token expired"))
    assert member.view.failure is not None
    assert member.looking, "it may still be saved"


def test_a_disconnect_is_no_news_while_there_is_no_coordinator(member: Driver) -> None:
    member.disconnect()
    before = member.view
    assert member.disconnect() == []
    assert member.view == before


def test_a_coordinator_that_disowns_every_heartbeat_is_not_asked_without_a_pause(
    member: Driver,
) -> None:
    member.advance(3_000)
    for _ in range(100):
        if member.pending(HeartbeatRequest):
            member.answer(beaten(E.NOT_COORDINATOR))
        if member.looking:
            member.found()
    assert len(member.sent(HeartbeatRequest)) <= 3


# Heartbeat, session.


@pytest.mark.usefixtures("steady_heartbeats")
def test_heartbeats_go_out_on_time_one_at_a_time(member: Driver) -> None:
    start_ms = member.now_ms
    for _ in range(4):
        member.hear()
    member.advance(9_000)  # no answer to this one
    times = [at_ms - start_ms for at_ms in member.sent_at(HeartbeatRequest)]
    assert times == [3_000, 6_000, 9_000, 12_000, 15_000]


def test_a_silent_coordinator_is_given_up_after_the_session_timeout(member: Driver) -> None:
    member.advance(9_999)
    assert not member.looks_up()
    member.advance(1)
    assert member.looking
    assert member.view.generation == GENERATION, "it may just have moved"
    assert member.view.trouble == "no heartbeat answered for 10000 ms"


@pytest.mark.usefixtures("steady_heartbeats")
def test_a_heartbeat_without_an_answer_is_given_up_after_the_request_timeout() -> None:
    driver = Driver(request_timeout_ms=2_000)
    driver.join()
    driver.advance(4_999)
    assert not driver.looks_up()
    driver.advance(1)
    assert driver.looking
    assert driver.view.trouble == "no answer to HEARTBEAT within 2000 ms"


def test_a_leaders_sync_without_an_answer_is_given_up_after_the_request_timeout() -> None:
    driver = Driver(rebalance_timeout_ms=300_000, request_timeout_ms=2_000)
    driver.lead()
    driver.assign({MEMBER_ID: b"mine"})
    driver.advance(1_999)
    assert not driver.looks_up()
    driver.advance(1)
    assert driver.looking
    assert "no answer to SYNC_GROUP within 2000 ms" in str(driver.view.trouble)
    driver.found()
    driver.advance(1_000)
    driver.prepare()
    assert driver.sent(JoinGroupRequest)[-1].member_id == MEMBER_ID


@pytest.mark.usefixtures("steady_heartbeats")
def test_a_member_stops_believing_by_its_own_clock(member: Driver) -> None:
    assert member.view.believes_at(member.now_ms + 9_999)
    assert not member.view.believes_at(member.now_ms + 10_000)
    member.advance(3_000)
    member.advance(500)
    member.answer(beaten())
    assert member.view.valid_until_ms == member.now_ms - 500 + 10_000, "from when it was sent"


def test_an_answer_that_waited_while_the_process_slept_proves_nothing(member: Driver) -> None:
    member.advance(3_000)
    member.now_ms += 20_000  # nothing runs, not even timers
    member.answer(beaten())
    assert not member.active
    member.answer(beaten())
    member.answer(synced())
    assert member.active


def test_heartbeats_of_a_leader_that_has_not_synced_do_not_prove_it_for_ever() -> None:
    """Found by the simulation: it is expelled for that, though its heartbeats are answered without an error."""
    driver = Driver(rebalance_timeout_ms=7_000, max_poll_interval_ms=60_000)
    driver.lead()
    driver.assign({})
    driver.complete()
    driver.handle(RejoinRequested("more"))
    driver.prepare()
    started_ms = driver.now_ms
    driver.answer(joined(2, leader=MEMBER_ID, members=(MEMBER_ID, "m-9")))
    for _ in range(2):
        driver.hear()
    assert driver.view.valid_until_ms == started_ms + 7_000


def test_heartbeats_that_tell_of_a_rebalance_prove_it_only_for_the_rebalance_timeout() -> None:
    driver = Driver(rebalance_timeout_ms=7_000, max_poll_interval_ms=60_000)
    driver.join()
    start_ms = driver.now_ms
    for _ in range(2):
        driver.hear(E.REBALANCE_IN_PROGRESS)
    assert driver.view.valid_until_ms == start_ms + 7_000
    driver.advance(3_000)
    assert not driver.view.believes_at(driver.now_ms)


@pytest.mark.usefixtures("steady_heartbeats")
def test_a_rebalance_timeout_shorter_than_the_interval_quickens_the_heartbeat() -> None:
    driver = Driver(rebalance_timeout_ms=2_000, max_poll_interval_ms=60_000)
    driver.join()
    for _ in range(20):
        driver.advance(1_000)
        assert driver.active
        driver.answer(beaten())
    assert len(driver.sent(HeartbeatRequest)) == 20


def test_every_answered_heartbeat_counts_whatever_its_error(member: Driver) -> None:
    for error in (0, E.UNKNOWN_SERVER_ERROR, E.REBALANCE_IN_PROGRESS):
        member.hear(error)
    assert member.metrics["heartbeat-total"] == 3


def test_no_heartbeat_before_joining_or_while_a_request_is_parked(driver: Driver) -> None:
    driver.start_join()
    driver.advance(20_000)
    assert not driver.sent(HeartbeatRequest)
    driver.answer(joined())
    driver.advance(20_000)
    assert not driver.sent(HeartbeatRequest)
    assert driver.pending(SyncGroupRequest)


def test_a_sync_parked_beyond_the_session_does_not_cost_the_coordinator(driver: Driver) -> None:
    driver.start_sync()
    driver.advance(15_000)
    driver.answer(synced(error=E.REBALANCE_IN_PROGRESS))
    assert driver.view.coordinator == NODE
    driver.call(PrepareJoin)


def test_an_expelled_member_joins_again_with_nothing_of_the_old_generation(
    member: Driver,
) -> None:
    member.hear(E.UNKNOWN_MEMBER_ID)
    assert member.view.generation == NO_GENERATION
    assert not member.view.believes_at(member.now_ms)
    member.prepare()
    request = member.sent(JoinGroupRequest)[-1]
    assert (request.member_id, request.reason) == (
        "",
        "UNKNOWN_MEMBER_ID in answer to HEARTBEAT",
    )


def test_a_heartbeat_that_cannot_be_sent_is_told(member: Driver) -> None:
    member.advance(3_000)
    send = member.outstanding.pop()
    member.handle(RequestRefused(send.request_id, UnsupportedVersionError("too old")))
    assert member.view.failure is not None
    member.advance(3_000)
    assert member.pending(HeartbeatRequest)


# The caller stays away.


def test_a_member_whose_caller_stays_away_leaves(member: Driver) -> None:
    for _ in range(19):
        member.hear()
    member.advance(2_999)
    assert member.view.generation == GENERATION
    member.advance(1)
    assert member.view.generation == NO_GENERATION
    (request,) = member.sent(LeaveGroupRequest)
    assert request.members[0].member_id == MEMBER_ID
    assert request.members[0].reason == "the caller has not polled for 60000 ms"
    member.answer(left())
    member.advance(600_000)
    assert len(member.sent(JoinGroupRequest)) == 1, "until the caller is back"
    member.join(2)
    assert member.active


def test_a_static_member_whose_caller_stays_away_is_out_without_telling() -> None:
    driver = Driver(group_instance_id="i")
    driver.join()
    for _ in range(20):
        driver.advance(3_000)
        if driver.pending(HeartbeatRequest):
            driver.answer(beaten())
    assert driver.view.generation == NO_GENERATION
    assert driver.sent(LeaveGroupRequest) == []


def test_a_caller_that_stays_away_before_joining_costs_nothing(driver: Driver) -> None:
    driver.poll()
    driver.advance(60_000)
    assert driver.view.state is MemberState.UNJOINED
    driver.found()
    assert driver.view.call is None
    driver.poll()
    driver.call(PrepareJoin)


def test_the_caller_may_be_away_while_the_member_lives(member: Driver) -> None:
    for _ in range(100):
        for _ in range(4):
            member.hear()
        member.poll()
    assert member.active


# Leaving.


@pytest.mark.parametrize("instance_id", [None, "i"])
def test_leaving_tells_the_group_whether_static_or_not(instance_id: str | None) -> None:
    driver = Driver(group_instance_id=instance_id)
    driver.join()
    driver.handle(LeaveRequested("enough"))
    assert driver.view.generation == NO_GENERATION
    assert driver.pending(LeaveGroupRequest)
    assert driver.view.events[-1].outcome == "completed"
    driver.advance(30_000)
    assert len(driver.sent(JoinGroupRequest)) == 1


@pytest.mark.parametrize("start", [Driver.start_join, Driver.start_sync])
def test_leaving_under_a_parked_request_goes_over_a_new_connection(
    driver: Driver, start: object
) -> None:
    driver.refuse_join(E.MEMBER_ID_REQUIRED, MEMBER_ID)
    if start is Driver.start_sync:
        driver.answer(joined())
    driver.handle(LeaveRequested("enough"))
    kinds = [type(action) for _, action in driver.log if isinstance(action, Disconnect | Send)]
    assert kinds[-2:] == [Disconnect, Send]
    assert driver.pending(LeaveGroupRequest)
    assert not driver.pending(JoinGroupRequest)
    assert not driver.pending(SyncGroupRequest)


def test_a_rebalance_that_ends_in_leaving_is_recorded_as_left(driver: Driver) -> None:
    driver.start_sync()
    driver.handle(LeaveRequested("enough"))
    (event,) = driver.view.events
    assert event.outcome == "left"
    assert driver.metrics["failed-rebalance-total"] == 1


def test_joining_again_while_the_leave_has_no_answer_yet(member: Driver) -> None:
    """Both go over one connection, in order."""
    member.handle(LeaveRequested("enough"))
    member.start_join()
    assert [type(send.request) for send in member.outstanding] == [
        LeaveGroupRequest,
        JoinGroupRequest,
    ]
    member.answer(left(E.UNKNOWN_MEMBER_ID))
    member.answer(joined(2, "m-2"))
    member.complete()
    assert member.active


def test_a_leave_that_went_down_with_its_connection_has_no_deadline(member: Driver) -> None:
    member.handle(LeaveRequested("one"))
    member.refuse_join(E.MEMBER_ID_REQUIRED, "m-2")
    member.handle(LeaveRequested("two"))  # drops the connection with the first leave on it
    member.answer(left())
    member.join(2, "m-3")
    lookups = len(member.actions(FindCoordinator))
    for _ in range(30):
        member.advance(3_000)
        member.poll()
        member.answer(beaten())
    assert len(member.actions(FindCoordinator)) == lookups


@pytest.mark.parametrize("start", [None, Driver.poll])
def test_leaving_without_being_a_member_is_harmless(driver: Driver, start: object) -> None:
    if start is Driver.poll:
        driver.poll()
        driver.found()
    driver.handle(LeaveRequested("enough"))
    driver.handle(LeaveRequested("enough"))
    assert driver.sent(LeaveGroupRequest) == []
    driver.join()


# Closing.


@pytest.mark.parametrize(
    ("operation", "instance_id", "leaves"),
    [
        (DEFAULT, None, True),
        (DEFAULT, "i", False),
        (LEAVE, None, True),
        (LEAVE, "i", True),
        (REMAIN, None, False),
        (REMAIN, "i", False),
    ],
)
def test_close_leaves_or_remains_by_operation_and_instance_id(
    operation: GroupMembershipOperation, instance_id: str | None, leaves: bool
) -> None:
    driver = Driver(group_instance_id=instance_id)
    driver.join()
    _close(driver, operation)
    assert bool(driver.sent(LeaveGroupRequest)) == leaves
    assert driver.stopped != leaves
    if leaves:
        driver.answer(left())
    assert driver.stopped
    assert driver.view.stopped
    assert driver.view.generation == NO_GENERATION


@pytest.mark.parametrize("timeout_ms", [0, 100, 60_000, 600_000])
def test_closing_ends_in_time_and_does_not_spin_when_the_leave_has_no_answer(
    member: Driver, timeout_ms: int
) -> None:
    start_ms = member.now_ms
    _close(member, DEFAULT, timeout_ms)
    member.advance(700_000)
    assert member.actions(Stop) == [start_ms + min(timeout_ms, 40_000)]


def test_closing_ends_when_the_connection_breaks(member: Driver) -> None:
    _close(member, DEFAULT)
    member.disconnect()
    assert member.stopped


def test_closing_without_a_coordinator_ends_at_once(member: Driver) -> None:
    member.disconnect()
    _close(member, DEFAULT)
    assert member.stopped


def test_closing_twice_does_not_prolong_it(member: Driver) -> None:
    _close(member, DEFAULT, 1_000)
    _close(member, DEFAULT, 50_000)
    member.advance(1_000)
    assert member.stopped
    assert len(member.sent(LeaveGroupRequest)) == 1


def test_nothing_happens_after_the_end(member: Driver) -> None:
    _close(member, REMAIN)
    log = list(member.log)
    member.poll()
    member.handle(RejoinRequested("late"))
    member.handle(TimerFired())
    assert member.log == log


def test_a_polling_caller_does_not_bring_a_closing_member_back(member: Driver) -> None:
    _close(member, DEFAULT)
    member.poll()
    assert member.view.call is None


# What the caller is told.


def test_a_fatal_error_stops_all_attempts(member: Driver) -> None:
    member.hear(E.FENCED_INSTANCE_ID)
    before = len(member.log)
    for _ in range(100):
        member.poll()
        member.raise_failure()
        member.handle(RejoinRequested("please"))
        member.advance(1_000)
    assert not [a for _, a in member.log[before:] if isinstance(a, Send | FindCoordinator)]


def test_an_error_of_a_heartbeat_stops_no_heartbeat(member: Driver) -> None:
    for _ in range(2):
        member.hear(E.GROUP_AUTHORIZATION_FAILED)
        member.raise_failure()
        assert member.view.generation == GENERATION
    member.hear()
    assert member.active


def test_after_a_refused_join_the_member_waits_for_its_caller_without_heartbeats(
    member: Driver,
) -> None:
    """As in Kafka's client: what keeps it alive is the next join, which the caller's next call sends."""
    member.handle(RejoinRequested("test"))
    member.refuse_join(E.GROUP_MAX_SIZE_REACHED)
    member.advance(9_000)
    assert member.view.state is MemberState.PREPARING_REBALANCE
    assert member.sent(HeartbeatRequest) == []
    assert len(member.sent(JoinGroupRequest)) == 2
    member.raise_failure()
    member.poll()
    assert not member.call(PrepareJoin).run_callback
    member.prepare()
    assert member.sent(JoinGroupRequest)[-1].member_id == MEMBER_ID


def test_after_a_refused_sync_the_member_heartbeats_on(driver: Driver) -> None:
    driver.start_sync()
    driver.answer(synced(error=E.GROUP_AUTHORIZATION_FAILED))
    driver.advance(3_000)
    assert driver.pending(HeartbeatRequest)


def test_logs_name_group_member_and_generation_and_no_level_is_higher_than_deserved(
    member: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    member.hear(E.REBALANCE_IN_PROGRESS)
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert all(m.startswith("group=g member=m-1 generation=1: ") for m in caplog.messages)
    caplog.clear()
    member.advance(3_000)
    member.prepare()
    member.answer(join_refused(E.GROUP_MAX_SIZE_REACHED))
    assert "WARNING" in {record.levelname for record in caplog.records}
    assert any("rebalance failed after" in message for message in caplog.messages)


# Calls.


def test_one_call_at_a_time_and_each_id_is_new(driver: Driver) -> None:
    driver.lead()
    first = driver.call(AssignGroup).call_id
    driver.handle(RejoinRequested("test"))
    driver.poll()
    assert driver.call(AssignGroup).call_id == first
    driver.assign({MEMBER_ID: b"all"})
    driver.answer(synced(b"all"))
    second = driver.call(CompleteJoin).call_id
    driver.handle(JoinDelivered(first))
    driver.handle(CallFailed(first, "ValueError"))
    assert driver.call(CompleteJoin).call_id == second > first
