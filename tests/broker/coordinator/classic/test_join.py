import logging
from typing import Any

import pytest

from groupsdk.broker.settings.table import GroupConfig
from groupsdk.error_code import ErrorCode
from tests.broker.coordinator.group.driving import GROUP, Driver, protocols


class TestChecks:
    def test_join_without_a_group_id_is_refused(self) -> None:
        driver = Driver()

        answer = driver.joined(driver.join("me", group_id=""))

        assert (answer.error_code, answer.member_id) == (ErrorCode.INVALID_GROUP_ID, "me")
        assert driver.log == []

    @pytest.mark.parametrize("timeout_ms", [-1, 0, 5_999, 1_800_001])
    def test_a_session_timeout_has_bounds(self, timeout_ms: int) -> None:
        driver = Driver()

        answer = driver.joined(driver.join("me", session_timeout_ms=timeout_ms))

        assert (answer.error_code, answer.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "me")

    @pytest.mark.parametrize("timeout_ms", [6_000, 1_800_000])
    def test_the_bounds_themselves_are_good(self, timeout_ms: int) -> None:
        assert Driver().take_id(session_timeout_ms=timeout_ms)

    @pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
    def test_an_error_has_no_generation(self, version: int, name: str | None) -> None:
        driver = Driver()

        answer = driver.joined(driver.join("nobody", version=version))

        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert answer.generation_id == -1
        assert answer.protocol_name == name
        assert answer.leader == ""

    def test_a_client_whose_id_leaves_no_room_for_a_member_id_is_refused(self) -> None:
        driver = Driver()

        answer = driver.joined(driver.join(group_instance_id="é" * 16_366))

        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    def test_a_pending_id_with_an_instance_id_is_refused(self) -> None:
        driver = Driver()
        member = driver.take_id()

        answer = driver.joined(driver.join(member, group_instance_id="i"))

        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


class TestSizes:
    SMALL = GroupConfig(group_initial_rebalance_delay_ms=0, max_record_bytes=2_000)

    def refused(self, driver: Driver, member: str, size: int, **fields: Any) -> bool:
        token = driver.join(member, protocols=protocols("p", metadata=b"m" * size), **fields)
        if driver.waits(token):
            return False
        return driver.joined(token).error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    def test_a_member_that_no_record_can_hold_is_refused_at_the_join(self) -> None:
        driver = Driver(self.SMALL)
        assert self.refused(driver, "", 2_000)
        assert self.refused(driver, "", 2_000, group_instance_id="i")
        first = driver.take_id()
        assert self.refused(driver, first, 2_000)
        assert not self.refused(driver, first, 1_500)
        driver.pass_ms(0)
        assert driver.state == "CompletingRebalance"

    def test_metadata_of_all_members_together_beyond_the_limit_is_refused(self) -> None:
        driver = Driver(self.SMALL)
        first = driver.take_id()
        assert not self.refused(driver, first, 1_000)
        driver.pass_ms(0)
        driver.sync(first, 1, protocol_name="p")
        assert driver.state == "Stable"
        second = driver.take_id(protocols=protocols("p"))
        assert self.refused(driver, second, 900)
        assert driver.state == "Stable"
        assert not self.refused(driver, second, 100)
        # who is in it may offer other metadata, in place of what it had
        assert self.refused(driver, first, 1_900)
        assert not self.refused(driver, first, 1_700)


class TestMemberIds:
    def test_they_are_made_of_the_clients_or_the_instances(self, driver: Driver) -> None:
        token = driver.join(group_instance_id="i")
        driver.pass_ms(0)

        assert driver.joined(token).member_id == "i-id1"
        assert driver.take_id() == "c-id2"

    def test_from_version_4_a_new_member_has_to_come_back_with_its_id(self, driver: Driver) -> None:
        member = driver.take_id(version=4)
        assert driver.shard.status(GROUP) is not None
        assert driver.state == "Empty"

        driver.join(member)

        assert driver.state == "PreparingRebalance"

    def test_an_id_that_does_not_come_back_is_forgotten(self, driver: Driver) -> None:
        member = driver.take_id(session_timeout_ms=6_000)
        driver.pass_ms(6_100)

        answer = driver.joined(driver.join(member))

        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_before_version_4_it_joins_at_once(self, driver: Driver) -> None:
        token = driver.join(version=0, rebalance_timeout_ms=-1)
        driver.pass_ms(0)

        (member,) = driver.view.members.values()
        assert member.member_id == driver.joined(token).member_id
        assert member.rebalance_timeout_ms == member.session_timeout_ms

    def test_a_rebalance_timeout_of_zero_is_one(self, driver: Driver) -> None:
        driver.join(version=3, rebalance_timeout_ms=0)

        (member,) = driver.view.members.values()
        assert member.rebalance_timeout_ms == 0


class TestNewGroups:
    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({}, ErrorCode.MEMBER_ID_REQUIRED),
            ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"version": 3}, ErrorCode.NONE),
        ],
    )
    def test_they_are_written_as_empty_whatever_the_answer(
        self, driver: Driver, fields: dict[str, Any], error: ErrorCode
    ) -> None:
        token = driver.join(**fields)
        driver.pass_ms(0)

        assert driver.joined(token).error_code == error
        (value,) = driver.group_values()
        assert value is not None
        assert value.protocol_type == ""
        assert (value.generation, value.protocol, value.leader) == (0, None, None)
        assert value.current_state_timestamp == driver.now_ms
        assert value.members == ()

    @pytest.mark.parametrize("fields", [{}, {"version": 3}, {"group_instance_id": "i"}])
    def test_join_whose_record_cannot_be_written_leaves_no_group(
        self, fields: dict[str, Any]
    ) -> None:
        driver = Driver()
        driver.fail_next = ErrorCode.NOT_ENOUGH_REPLICAS

        answer = driver.joined(driver.join(**fields))

        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert driver.shard.group_ids == ()
        driver.pass_ms(1_000_000)
        assert driver.log == []

    def test_an_id_alone_makes_no_group(self) -> None:
        driver = Driver()
        driver.join("nobody")

        assert driver.shard.group_ids == ()


class TestKnownMembers:
    def test_a_join_sent_again_takes_the_place_of_the_first(self, driver: Driver) -> None:
        _, follower = driver.stable(2)
        offer = protocols("even", metadata=b"new")
        first = driver.join(follower, protocols=offer)
        second = driver.join(follower, protocols=offer)

        assert driver.joined(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert driver.waits(second)

    def test_the_leader_gets_the_members_again_while_it_has_not_assigned(
        self, driver: Driver
    ) -> None:
        member = driver.take_id()
        driver.join(member)
        driver.pass_ms(0)

        answer = driver.joined(driver.join(member))

        assert answer.generation_id == 1
        assert [each.member_id for each in answer.members] == [member]

    def test_the_order_of_protocols_is_a_change(self, driver: Driver) -> None:
        _, follower = driver.stable(2, protocols=protocols("even", "odd"))

        same = driver.join(follower, protocols=protocols("even", "odd"))
        other = driver.join(follower, protocols=protocols("odd", "even"))

        assert driver.joined(same).generation_id == 1
        assert driver.waits(other)

    def test_a_name_offered_twice_counts_once(self, driver: Driver) -> None:
        twice = protocols("even", "odd", "even")
        tokens = [driver.join(version=3, protocols=twice) for _ in range(2)]
        driver.pass_ms(0)

        assert {driver.joined(each).protocol_name for each in tokens} == {"even"}

    def test_of_a_name_offered_twice_the_first_counts(self, driver: Driver) -> None:
        driver.join(
            version=3, protocols=(*protocols("even", "odd"), *protocols("even", metadata=b"2"))
        )

        (member,) = driver.view.members.values()
        assert list(member.protocols.items()) == [("even", b"m"), ("odd", b"m")]

    def test_the_log_has_the_clients_reason(
        self, driver: Driver, caplog: pytest.LogCaptureFixture
    ) -> None:
        (member,) = driver.stable()

        with caplog.at_level(logging.INFO):
            driver.join(member, reason="why")

        assert f"in state Stable: the leader {member} rejoins (why)" in caplog.text


class TestGroupMaxSize:
    def full(self) -> tuple[Driver, list[str]]:
        driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=0, group_max_size=2))
        return driver, driver.stable(2)

    def test_a_full_group_takes_nobody(self) -> None:
        driver, _ = self.full()

        answer = driver.joined(driver.join())

        assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        assert driver.state == "Stable"

    def test_its_members_may_rejoin(self) -> None:
        driver, (leader, follower) = self.full()
        again = driver.join(leader)
        driver.join(follower)

        assert driver.joined(again).generation_id == 2

    def test_an_id_that_is_turned_away_does_not_hold_up_the_others(self) -> None:
        driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=0, group_max_size=2))
        (leader,) = driver.stable()
        second, third = driver.take_id(), driver.take_id()
        tokens = [driver.join(second), driver.join(leader)]
        assert all(map(driver.waits, tokens))

        assert driver.joined(driver.join(third)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED

        assert {driver.joined(each).generation_id for each in tokens} == {2}

    def test_in_a_rebalance_the_last_to_rejoin_go(self) -> None:
        driver, members = self.full()
        smaller = Driver(GroupConfig(group_initial_rebalance_delay_ms=0, group_max_size=1))
        for record in smaller.shard.decode(driver.records):
            smaller.shard.replay(record)
        smaller.deal_with(smaller.shard.loaded(smaller.now_ms))
        assert smaller.state == "PreparingRebalance"

        stays = smaller.join(members[1])
        goes = smaller.join(members[0])

        assert smaller.joined(goes).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert smaller.joined(stays).leader == members[1]
