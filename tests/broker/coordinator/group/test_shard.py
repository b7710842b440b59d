import pytest

from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.coordinator.runtime.contract import (
    NOTHING,
    CoordinatorShard,
    RequestContext,
    Result,
)
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.connection import ApiVersionsRequest
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    LeaveGroupRequest,
    MemberIdentity,
)
from tests.broker.clients import commit_request
from tests.broker.coordinator.group.driving import (
    GROUP,
    PRODUCER,
    QUICK,
    SESSION_MS,
    Driver,
    protocols,
)


OK = ErrorCode.NONE
COMMIT = commit_request(GROUP, 5)


def test_group_coordinator_shard_is_a_coordinator_shard() -> None:
    shard: CoordinatorShard = GroupCoordinatorShard(QUICK, lambda: "id")

    assert shard.deadline_ms is None
    assert shard.loaded(1_000) is NOTHING
    assert shard.deadline_ms == 1_000 + QUICK.offsets_retention_check_interval_ms


def test_a_request_to_somebody_else_is_a_fault_of_the_caller() -> None:
    with pytest.raises(TypeError, match="ApiVersionsRequest"):
        GroupCoordinatorShard(QUICK, lambda: "id").handle(
            ApiVersionsRequest(), RequestContext(1, 0), 0
        )


class TestLoading:
    def test_members_keep_their_generation_and_get_a_session_anew(self, driver: Driver) -> None:
        leader, follower = driver.stable(2)
        driver.pass_ms(SESSION_MS - 1)

        again = driver.restarted()
        again.pass_ms(SESSION_MS - 1)

        assert again.heartbeat(leader, 1) is again.heartbeat(follower, 1) is OK
        assert again.synced(again.sync(follower, 1)).assignment == follower.encode()
        again.pass_ms(SESSION_MS + 100)
        assert again.state == "Empty"

    def test_a_generation_that_was_not_written_is_forgotten(self, driver: Driver) -> None:
        leader, follower = driver.stable(2)
        tokens = [driver.join(leader), driver.join(follower)]
        assert driver.joined(tokens[0]).generation_id == 2

        again = driver.restarted()

        assert again.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION
        assert again.heartbeat(leader, 1) is OK

    def test_one_that_offers_more_than_the_log_has_rebalances(self) -> None:
        offer = protocols("even", "odd")
        driver = Driver(QUICK)
        _, follower = driver.stable(2, protocols=offer)

        again = driver.restarted()

        assert again.waits(again.join(follower, protocols=protocols("even", "odd")))

    def test_a_group_over_the_limit_rebalances(self, driver: Driver) -> None:
        driver.stable(3)
        driver.config = GroupConfig(group_initial_rebalance_delay_ms=0, group_max_size=2)

        assert driver.restarted().state == "PreparingRebalance"

    def test_open_transactions_stay_open(self, driver: Driver) -> None:
        driver.commit_in_transaction({0: 5})

        again = driver.restarted()

        assert again.fetch(0, require_stable=True) == [(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)]
        again.marker(committed=True)
        assert again.fetch(0) == [(5, OK)]
        assert driver.restarted().restarted().fetch(0) == [(-1, OK)]


class TestAppending:
    def test_handled_commit_changes_state_only_when_its_record_is_replayed(
        self, driver: Driver
    ) -> None:
        result = driver.shard.handle(COMMIT, RequestContext(1, 9), driver.now_ms)
        assert driver.shard.offsets(GROUP) == {}
        assert driver.shard.group_ids == ()
        for record in result.records:
            driver.shard.replay(record, result.producer)

        assert driver.shard.offsets(GROUP)["t", 0].offset == 5

    def test_a_failure_of_another_result_is_not_taken_for_the_last_one(
        self, driver: Driver
    ) -> None:
        (member_id,) = driver.stable(1)
        leaving = LeaveGroupRequest(GROUP, members=(MemberIdentity(member_id),))
        result = driver.shard.handle(leaving, RequestContext(1, 5), driver.now_ms)

        assert driver.shard.append_failed(Result(), ErrorCode.REQUEST_TIMED_OUT, 0) is NOTHING
        again = driver.shard.append_failed(result, ErrorCode.REQUEST_TIMED_OUT, 0)
        assert [each.token for each in again.replies] == [1]
        assert driver.shard.append_failed(result, ErrorCode.REQUEST_TIMED_OUT, 0) is NOTHING

    def test_replies_that_promise_nothing_are_given_again(self, driver: Driver) -> None:
        leader, follower = driver.stable(2)
        waiting = driver.join(follower, protocols=protocols("even", metadata=b"new"))
        driver.fail_next = ErrorCode.REQUEST_TIMED_OUT

        # both go, so that the group is empty: that cannot be written, but the join is answered
        told = driver.leave(leader, follower)

        assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
        assert driver.joined(waiting).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert driver.state == "Empty"


class TestUnloading:
    def test_all_that_waits_is_answered_and_nothing_is_due_any_more(self, driver: Driver) -> None:
        tokens = [driver.join(version=3) for _ in range(2)]
        driver.pass_ms(0)
        _, follower = (driver.joined(each).member_id for each in tokens)
        sync = driver.sync(follower, 1)
        driver.take_id(group_id="other")
        join = driver.join(version=3, group_id="third")

        driver.deal_with(driver.shard.unload(ErrorCode.NOT_COORDINATOR, driver.now_ms))

        assert driver.synced(sync).error_code == ErrorCode.NOT_COORDINATOR
        assert driver.joined(join).error_code == ErrorCode.NOT_COORDINATOR
        driver.pass_ms(10_000_000)
        assert driver.shard.deadline_ms is None
        group = driver.view
        assert len(group.members) == 2
        assert driver.heartbeat(follower, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    def test_twice_is_once(self, driver: Driver) -> None:
        driver.stable()
        driver.shard.unload(ErrorCode.NOT_COORDINATOR, driver.now_ms)

        assert driver.shard.unload(ErrorCode.NOT_COORDINATOR, driver.now_ms) is NOTHING


class TestTopicsDeleted:
    def test_their_offsets_go_pending_ones_included(self, driver: Driver) -> None:
        driver.commit({0: 1, 1: 2})
        driver.commit({0: 3}, topic="u")
        driver.commit({0: 4}, group_id="other")
        driver.commit_in_transaction({2: 5}, group_id="third")

        (result,) = driver.shard.topics_deleted(("t", "no-such-topic"), driver.now_ms)
        driver.deal_with(result)

        assert len(driver.log[-1].records) == 4
        assert {
            place for each in driver.shard.group_ids for place in driver.shard.offsets(each)
        } == {("u", 0)}
        driver.marker(committed=True, producer=PRODUCER)
        assert driver.shard.offsets("third") == {}

    def test_others_are_left_alone(self, driver: Driver) -> None:
        driver.commit({0: 1})

        assert list(driver.shard.topics_deleted(("u",), driver.now_ms)) == [NOTHING]

    def test_those_of_very_many_groups_are_removed_in_several_batches(self, driver: Driver) -> None:
        for group_id in ("a", "b", "c"):
            driver.commit(dict.fromkeys(range(1_500), 1), group_id=group_id)
        before = len(driver.log)

        for result in driver.shard.topics_deleted(("t",), driver.now_ms):
            driver.deal_with(result)

        assert [len(each.records) for each in driver.log[before:]] == [2_000, 2_000, 500]
        assert not any(driver.shard.offsets(each) for each in driver.shard.group_ids)


def test_a_heartbeat_costs_no_filing(driver: Driver) -> None:
    (member,) = driver.stable()
    buckets = driver.shard._registry.sessions
    filed = [len(bucket) for bucket in buckets._buckets.values()]

    for _ in range(100):
        driver.ask(HeartbeatRequest(GROUP, 1, member))
        driver.now_ms += 1

    assert [len(bucket) for bucket in buckets._buckets.values()] == filed
