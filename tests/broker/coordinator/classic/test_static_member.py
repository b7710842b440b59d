from typing import Any

import pytest

from groupsdk.broker.settings.table import GroupConfig
from groupsdk.error_code import ErrorCode
from tests.broker.coordinator.group.driving import QUICK, SESSION_MS, Driver, protocols


def stable() -> tuple[Driver, str, str]:
    """A static leader "i", and a dynamic follower."""
    driver = Driver(QUICK)
    tokens = [driver.join(group_instance_id="i"), driver.join(version=3)]
    driver.pass_ms(0)
    leader, follower = (driver.joined(each).member_id for each in tokens)
    driver.sync(follower, 1)
    driver.sync(leader, 1, assignments={leader: b"L", follower: b"F"}, group_instance_id="i")
    return driver, leader, follower


class TestInAStableGroup:
    def test_the_leader_comes_back_without_a_rebalance(self) -> None:
        driver, leader, follower = stable()

        answer = driver.joined(driver.join(group_instance_id="i"))

        assert answer.error_code == ErrorCode.NONE
        assert answer.generation_id == 1
        assert answer.leader == answer.member_id != leader
        assert answer.skip_assignment
        assert {each.member_id for each in answer.members} == {answer.member_id, follower}
        assert driver.synced(driver.sync(answer.member_id, 1)).assignment == b"L"
        assert driver.heartbeat(follower, 1) is ErrorCode.NONE

    def test_its_new_id_is_written(self) -> None:
        driver, leader, _ = stable()
        before = driver.group_values()[-1]

        answer = driver.joined(driver.join(group_instance_id="i"))

        value = driver.group_values()[-1]
        assert before is not None
        assert value is not None
        assert value.leader == answer.member_id
        assert value.generation == before.generation == 1
        assert value.current_state_timestamp >= before.current_state_timestamp
        assert {each.member_id for each in before.members} - {
            each.member_id for each in value.members
        } == {leader}
        assert {each.assignment for each in value.members} == {b"L", b"F"}

    def test_before_version_9_it_is_told_that_another_leads(self) -> None:
        driver, leader, _ = stable()

        answer = driver.joined(driver.join(group_instance_id="i", version=8))

        assert answer.leader == leader
        assert not answer.skip_assignment
        assert answer.members == ()

    def test_changed_metadata_is_no_reason_to_rebalance(self) -> None:
        driver, _, _ = stable()

        token = driver.join(group_instance_id="i", protocols=protocols("even", metadata=b"new"))

        assert driver.joined(token).generation_id == 1
        assert driver.state == "Stable"

    def test_static_member_with_another_protocol_starts_a_rebalance(self, driver: Driver) -> None:
        both = protocols("even", "odd")
        token = driver.join(group_instance_id="i", protocols=both)
        driver.pass_ms(0)
        member = driver.joined(token).member_id
        driver.sync(member, 1)
        assert driver.joined(token).protocol_name == "even"

        again = driver.joined(driver.join(group_instance_id="i", protocols=both[::-1]))

        assert again.generation_id == 2
        assert again.protocol_name == "odd"

    def test_protocols_that_the_others_lack_leave_all_as_it_was(self) -> None:
        driver, leader, _ = stable()

        answer = driver.joined(driver.join(group_instance_id="i", protocols=protocols("odd")))

        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert driver.heartbeat(leader, 1, group_instance_id="i") is ErrorCode.NONE

    def test_the_old_id_is_fenced(self) -> None:
        driver, leader, _ = stable()
        driver.join(group_instance_id="i")

        fenced = ErrorCode.FENCED_INSTANCE_ID
        assert driver.heartbeat(leader, 1, group_instance_id="i") is fenced
        assert driver.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert driver.commit({0: 1}, leader, 1, group_instance_id="i") == [fenced]

    def test_its_session_starts_anew(self) -> None:
        driver, _, follower = stable()
        driver.pass_ms(SESSION_MS - 1)
        driver.heartbeat(follower, 1)

        driver.join(group_instance_id="i")
        driver.pass_ms(SESSION_MS - 1)

        assert driver.heartbeat(follower, 1) is ErrorCode.NONE

    def test_static_member_keeps_its_old_id_where_the_new_one_cannot_be_written(self) -> None:
        driver, leader, _ = stable()
        driver.fail_next = ErrorCode.NOT_LEADER_OR_FOLLOWER
        other = protocols("even", metadata=b"new")

        answer = driver.joined(driver.join(group_instance_id="i", protocols=other))

        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        assert answer.member_id == ""
        assert driver.heartbeat(leader, 1, group_instance_id="i") is ErrorCode.NONE
        group = driver.view
        assert group.leader_id == leader
        assert group.members[leader].protocols == {"even": b"m"}


class TestInARebalance:
    def test_a_parked_join_of_the_old_id_is_fenced(self) -> None:
        driver, leader, follower = stable()
        old = driver.join(leader, group_instance_id="i")
        assert driver.waits(old)

        again = driver.join(group_instance_id="i")
        driver.join(follower)

        answer = driver.joined(old)
        assert (answer.error_code, answer.member_id) == (ErrorCode.FENCED_INSTANCE_ID, leader)
        assert driver.joined(again).generation_id == 2
        assert driver.joined(again).leader == driver.joined(again).member_id

    def test_a_parked_sync_of_the_old_id_is_fenced_and_the_group_rebalances(
        self, driver: Driver
    ) -> None:
        tokens = [driver.join(version=3), driver.join(group_instance_id="i")]
        driver.pass_ms(0)
        leader, old = (driver.joined(each).member_id for each in tokens)
        parked = driver.sync(old, 1, group_instance_id="i")

        again = driver.join(group_instance_id="i")

        assert driver.synced(parked).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert driver.waits(again)
        assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_one_that_never_synced_is_waited_for_under_its_new_id(self, driver: Driver) -> None:
        session: dict[str, Any] = {"session_timeout_ms": 600_000}
        tokens = [driver.join(version=3, **session), driver.join(group_instance_id="i", **session)]
        driver.pass_ms(0)
        driver.sync(driver.joined(tokens[0]).member_id, 1)
        again = driver.joined(driver.join(group_instance_id="i", **session))

        driver.sync(again.member_id, 1, group_instance_id="i")
        driver.pass_ms(120_000)

        assert driver.state == "Stable"

    def test_one_that_came_back_is_waited_for_beyond_its_session(self) -> None:
        driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=2 * SESSION_MS))
        driver.join(group_instance_id="i")
        again = driver.join(group_instance_id="i")

        driver.pass_ms(2 * SESSION_MS)

        assert driver.joined(again).generation_id == 1

    @pytest.mark.parametrize("instance_id", ["i", "j"])
    def test_two_instances_are_two_members(self, instance_id: str) -> None:
        driver, _, _ = stable()
        driver.join(group_instance_id=instance_id)

        group = driver.view
        assert len(group.members) == (2 if instance_id == "i" else 3)
