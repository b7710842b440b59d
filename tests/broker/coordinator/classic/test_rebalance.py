import logging

import pytest

from groupsdk.broker.settings.table import GroupConfig
from groupsdk.error_code import ErrorCode
from tests.broker.coordinator.group.driving import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Driver,
    protocols,
)


NEW = protocols("even", metadata=b"new")


class TestInitialDelay:
    def test_the_first_generation_waits_for_the_delay_though_all_have_joined(self) -> None:
        driver = Driver()
        token = driver.join(driver.take_id())

        driver.pass_ms(DELAY_MS - 1)
        assert driver.waits(token)

        driver.pass_ms(1)
        answer = driver.joined(token)
        assert answer.error_code == ErrorCode.NONE
        assert answer.generation_id == 1
        assert answer.leader == answer.member_id
        assert [each.member_id for each in answer.members] == [answer.member_id]

    def test_initial_delay_is_extended_by_newcomers_up_to_the_rebalance_timeout(self) -> None:
        driver = Driver()
        tokens = [driver.join(version=3, rebalance_timeout_ms=10_000)]
        for _ in range(4):
            driver.pass_ms(2_000)
            tokens.append(driver.join(version=3, rebalance_timeout_ms=10_000))

        # 3 s, then 3 s more for newcomers, of 7 s that remain; then the rest of them: 3 s and 1 s
        driver.pass_ms(1_999)
        assert all(map(driver.waits, tokens))
        driver.pass_ms(1)

        assert {driver.joined(each).generation_id for each in tokens} == {1}

    def test_without_a_delay_ids_that_were_handed_out_are_waited_for_a_moment(self) -> None:
        driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=0, gather_ms=5))
        first, second, third, lost = (driver.take_id() for _ in range(4))
        tokens = [driver.join(first)]
        driver.pass_ms(4)
        tokens.append(driver.join(second))
        driver.pass_ms(5)  # the second came in the first 5 ms, the third in those after that
        tokens.append(driver.join(third))
        driver.pass_ms(5)
        assert all(map(driver.waits, tokens))

        driver.pass_ms(1)

        assert {driver.joined(each).generation_id for each in tokens} == {1}
        late = driver.join(lost)
        assert driver.waits(late)

    def test_without_a_delay_it_begins_when_the_last_id_has_come_back(self) -> None:
        driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=0, gather_ms=5))
        first, second = driver.take_id(), driver.take_id()
        tokens = [driver.join(first), driver.join(second)]
        driver.pass_ms(5)
        assert {driver.joined(each).generation_id for each in tokens} == {1}

    def test_without_a_delay_one_that_is_alone_begins_at_once(self) -> None:
        driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=0, gather_ms=5))
        token = driver.join(driver.take_id())
        driver.pass_ms(0)
        assert driver.joined(token).generation_id == 1

    def test_initial_delay_is_not_extended_without_newcomers(self) -> None:
        driver = Driver()
        first = driver.join(version=3)
        driver.pass_ms(1_000)
        second = driver.join(version=3)

        driver.pass_ms(2_000)
        assert driver.waits(first)
        driver.pass_ms(DELAY_MS)

        assert driver.joined(first).generation_id == driver.joined(second).generation_id == 1

    def test_a_newcomer_of_an_earlier_time_does_not_extend_it(self) -> None:
        driver = Driver()
        tokens = [driver.join(version=3, rebalance_timeout_ms=DELAY_MS) for _ in range(2)]
        driver.pass_ms(DELAY_MS)
        driver.leave(*(driver.joined(each).member_id for each in tokens))
        assert driver.state == "Empty"

        token = driver.join(version=3)
        driver.pass_ms(DELAY_MS)

        assert driver.joined(token).generation_id == 3

    def test_an_expiry_that_leaves_all_joined_ends_it_early(self) -> None:
        driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=20_000))
        driver.take_id()
        token = driver.join(version=3)

        driver.pass_ms(SESSION_MS)

        assert driver.joined(token).generation_id == 1


class TestJoinPhase:
    def test_join_phase_ends_as_soon_as_all_members_have_joined(self, driver: Driver) -> None:
        leader, follower = driver.stable(2)

        again = driver.join(follower, protocols=NEW)
        assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        answer = driver.joined(driver.join(leader))

        assert driver.joined(again).generation_id == answer.generation_id == 2
        assert {each.member_id: each.metadata for each in answer.members} == {
            leader: b"m",
            follower: b"new",
        }
        assert driver.joined(again).members == ()

    def test_the_timeout_leaves_out_dynamic_members_that_have_not_rejoined(
        self, driver: Driver
    ) -> None:
        leader, follower = driver.stable(2, session_timeout_ms=120_000)
        again = driver.join(follower, protocols=NEW)

        driver.pass_ms(REBALANCE_MS - 1)
        assert driver.waits(again)
        driver.pass_ms(1)

        answer = driver.joined(again)
        assert answer.generation_id == 2
        assert answer.leader == follower
        assert driver.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_id_that_was_handed_out_holds_it_up_until_its_session_ends(
        self, driver: Driver
    ) -> None:
        leader, follower = driver.stable(2, session_timeout_ms=30_000)
        driver.take_id(session_timeout_ms=6_000)
        tokens = [driver.join(follower, protocols=NEW), driver.join(leader)]

        driver.pass_ms(5_999)
        assert all(map(driver.waits, tokens))
        driver.pass_ms(101)

        assert {driver.joined(each).generation_id for each in tokens} == {2}

    def test_absent_static_members_stay(self, driver: Driver) -> None:
        static = driver.join(group_instance_id="i", session_timeout_ms=600_000)
        driver.pass_ms(0)
        static_id = driver.joined(static).member_id
        driver.sync(static_id, 1, assignments={static_id: b"all"})
        token = driver.join(driver.take_id())

        driver.pass_ms(REBALANCE_MS)

        answer = driver.joined(token)
        # the leader did not join, so that one of those who did leads
        assert answer.leader == answer.member_id
        assert {each.member_id for each in answer.members} == {static_id, answer.member_id}

    def test_with_static_members_only_and_none_of_them_there_it_waits_on(
        self, driver: Driver
    ) -> None:
        tokens = [
            driver.join(group_instance_id=each, session_timeout_ms=600_000) for each in ("i", "j")
        ]
        driver.pass_ms(0)
        first, second = (driver.joined(each).member_id for each in tokens)
        driver.sync(second, 1)
        driver.sync(first, 1)
        dynamic = driver.take_id()
        token = driver.join(dynamic)
        assert driver.leave(dynamic) == [ErrorCode.NONE]
        assert driver.joined(token).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert driver.joined(token).member_id == ""

        driver.pass_ms(3 * REBALANCE_MS)
        assert driver.state == "PreparingRebalance"

        again = driver.join(second, group_instance_id="j")
        driver.pass_ms(REBALANCE_MS)
        assert driver.joined(again).leader == second

    def test_without_members_the_group_is_empty_and_that_is_written(self, driver: Driver) -> None:
        (member,) = driver.stable(protocol_type="consumer")

        driver.leave(member)

        assert driver.state == "Empty"
        value = driver.group_values()[-1]
        assert value is not None
        assert (value.generation, value.protocol_type, value.protocol, value.leader) == (
            2,
            "consumer",
            None,
            None,
        )
        assert value.members == ()
        assert value.current_state_timestamp == driver.now_ms

    def test_group_becomes_empty_even_if_that_cannot_be_written(
        self, driver: Driver, caplog: pytest.LogCaptureFixture
    ) -> None:
        driver.stable()
        driver.fail_next = ErrorCode.KAFKA_STORAGE_ERROR

        with caplog.at_level(logging.WARNING):
            driver.pass_ms(SESSION_MS + 100)

        assert driver.state == "Empty"
        assert driver.generation == 2
        assert "writing its empty state failed" in caplog.text


class TestSyncPhase:
    def test_a_rebalance_takes_the_assignments_back(self, driver: Driver) -> None:
        (member,) = driver.stable()
        driver.join(member)
        assert driver.describe().members[0].member_assignment == member.encode()

        driver.join(version=3)

        assert driver.state == "PreparingRebalance"
        assert {each.member_assignment for each in driver.describe().members} == {b""}

    def test_member_that_does_not_sync_in_time_is_expelled(self, driver: Driver) -> None:
        leader, follower = (driver.take_id(session_timeout_ms=600_000) for _ in range(2))
        tokens = [driver.join(each, session_timeout_ms=600_000) for each in (leader, follower)]
        driver.pass_ms(0)
        assert {driver.joined(each).generation_id for each in tokens} == {1}
        parked = driver.sync(follower, 1)

        driver.pass_ms(REBALANCE_MS - 1)
        assert driver.waits(parked)
        driver.pass_ms(1)

        assert driver.synced(parked).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert driver.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert driver.joined(driver.join(follower)).leader == follower

    def test_sync_deadline_holds_in_a_stable_group(self, driver: Driver) -> None:
        leader, follower = (driver.take_id(session_timeout_ms=600_000) for _ in range(2))
        for each in (leader, follower):
            driver.join(each, session_timeout_ms=600_000)
        driver.pass_ms(0)
        driver.sync(leader, 1)
        assert driver.state == "Stable"

        driver.pass_ms(REBALANCE_MS)

        assert driver.state == "PreparingRebalance"
        assert driver.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_its_timer_ends_with_the_last_sync(self, driver: Driver) -> None:
        leader, follower = driver.stable(2, session_timeout_ms=600_000)

        driver.pass_ms(REBALANCE_MS)

        assert driver.state == "Stable"
        assert driver.heartbeat(follower, 1) is driver.heartbeat(leader, 1) is ErrorCode.NONE


class TestSessions:
    def test_a_silent_member_is_expelled_at_its_session_timeout_or_10_ms_later(
        self, driver: Driver
    ) -> None:
        (member,) = driver.stable()

        driver.pass_ms(SESSION_MS - 1)
        assert driver.heartbeat(member, 1) is ErrorCode.NONE
        driver.pass_ms(SESSION_MS - 1)
        assert driver.state == "Stable"
        driver.pass_ms(11)

        assert driver.state == "Empty"

    def test_the_others_rebalance(self, driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
        leader, follower = driver.stable(2)
        driver.pass_ms(SESSION_MS // 2)
        driver.heartbeat(follower, 1)

        with caplog.at_level(logging.INFO):
            driver.pass_ms(SESSION_MS // 2 + 100)

        assert driver.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        assert driver.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert f"group={GROUP} member={leader} generation=1: expelled" in caplog.text
        assert f"the session of {leader} timed out" in caplog.text

    def test_one_whose_join_is_answered_by_the_end_of_another_is_not_expelled_with_it(
        self, driver: Driver
    ) -> None:
        leader, follower = driver.stable(2)
        driver.heartbeat(leader, 1)
        again = driver.join(follower, protocols=NEW)

        # both sessions are due at once; the first to end completes the rebalance
        driver.pass_ms(SESSION_MS + 100)

        assert driver.joined(again).generation_id == 2
        assert driver.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert driver.heartbeat(follower, 2) is ErrorCode.NONE

    def test_a_member_that_waits_is_not_expelled(self, driver: Driver) -> None:
        leader, follower = driver.stable(2)
        again = driver.join(follower, protocols=NEW)

        for _ in range(6):
            driver.pass_ms(SESSION_MS // 2)
            assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        assert driver.waits(again)
        driver.join(leader)

        assert driver.joined(again).generation_id == 2
        driver.pass_ms(SESSION_MS - 1)
        assert driver.heartbeat(follower, 2) is ErrorCode.NONE

    def test_a_new_member_may_wait_five_minutes(self) -> None:
        driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=600_000))
        token = driver.join(version=3)

        driver.pass_ms(299_999)
        assert driver.waits(token)
        driver.pass_ms(101)

        answer = driver.joined(token)
        assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")

    def test_a_wait_for_the_leader_ends_with_the_leaders_session(self, driver: Driver) -> None:
        tokens = [driver.join(version=3) for _ in range(2)]
        driver.pass_ms(0)
        leader, follower = (driver.joined(each).member_id for each in tokens)
        parked = driver.sync(follower, 1)

        driver.pass_ms(SESSION_MS + 100)

        assert driver.synced(parked).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert driver.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
