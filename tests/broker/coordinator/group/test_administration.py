import pytest

from groupsdk.broker.coordinator.runtime.contract import RequestContext
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.group_admin import (
    DeleteGroupsRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.broker.coordinator.group.driving import GROUP, QUICK, Driver, protocols, subscription


OK = ErrorCode.NONE


class TestDescribe:
    def test_a_stable_group_shows_all(self, driver: Driver) -> None:
        (member,) = driver.stable()

        group = driver.describe()

        assert (group.group_state, group.protocol_type, group.protocol_data) == (
            "Stable",
            "work",
            "even",
        )
        (shown,) = group.members
        assert (shown.member_id, shown.client_id, shown.client_host) == (member, "c", "/127.0.0.1")
        assert (shown.member_metadata, shown.member_assignment) == (b"m", member.encode())

    def test_any_other_keeps_metadata_and_protocol_to_itself(self, driver: Driver) -> None:
        (leader,) = driver.stable()
        driver.join(version=3)

        group = driver.describe()

        assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
        assert [each.member_metadata for each in group.members] == [b"", b""]
        # as stored: the assignment is taken back when the next generation begins to sync
        assert {each.member_assignment for each in group.members} == {leader.encode(), b""}

    @pytest.mark.parametrize(("version", "error"), [(5, OK), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
    def test_one_that_is_not_there_is_dead(self, version: int, error: ErrorCode) -> None:
        group = Driver().describe(version, "no-such-group")

        assert (group.group_state, group.error_code) == ("Dead", error)
        assert group.error_message == ("Group no-such-group not found." if error else None)


class TestList:
    def driver(self) -> Driver:
        driver = Driver(QUICK)
        driver.stable(protocol_type="consumer")
        driver.commit({0: 1}, group_id="simple")
        return driver

    @pytest.mark.parametrize(
        ("states", "types", "found"),
        [
            ((), (), {GROUP, "simple"}),
            (("stable",), (), {GROUP}),
            (("EMPTY", "nonsense"), (), {"simple"}),
            ((), ("Classic",), {GROUP, "simple"}),
            ((), ("consumer",), set()),
            ((), ("nonsense",), set()),
            (("Empty",), ("classic", "share"), {"simple"}),
        ],
    )
    def test_list_groups_filters_by_state_and_type(
        self, states: tuple[str, ...], types: tuple[str, ...], found: set[str]
    ) -> None:
        answer = self.driver().ask(ListGroupsRequest(states, types))

        assert {each.group_id for each in answer.groups} == found

    def test_list_groups_shows_type_state_and_protocol(self) -> None:
        answer = self.driver().ask(ListGroupsRequest())

        assert {
            (e.group_id, e.protocol_type, e.group_state, e.group_type) for e in answer.groups
        } == {
            (GROUP, "consumer", "Stable", "classic"),
            ("simple", "", "Empty", "classic"),
        }

    @pytest.mark.parametrize("version", range(6))
    def test_list_groups_answers_in_every_version(self, version: int) -> None:
        assert len(self.driver().ask(ListGroupsRequest(), version).groups) == 2


class TestDelete:
    def test_delete_group_deletes_its_offsets_and_pending_ones(self) -> None:
        driver = Driver()
        driver.commit({0: 1, 1: 2})
        driver.commit_in_transaction({1: 3, 2: 4})
        written = len(driver.records)

        assert driver.delete() is OK

        assert driver.shard.group_ids == ()
        tombstones = driver.records[written:]
        assert len(tombstones) == 4
        assert len(set(tombstones)) == 4
        assert [each.value for each in tombstones] == [None] * 4
        driver.marker(committed=True)
        assert driver.fetch(0, 1, 2, require_stable=True) == [(-1, OK)] * 3

    def test_each_group_is_answered_once(self) -> None:
        driver = Driver()
        driver.commit({0: 1})

        answer = driver.ask(DeleteGroupsRequest((GROUP, "no-such-group", GROUP)))

        assert [(each.group_id, each.error_code) for each in answer.results] == [
            (GROUP, OK),
            ("no-such-group", ErrorCode.GROUP_ID_NOT_FOUND),
        ]

    def test_delete_group_that_cannot_be_written_deletes_nothing(self) -> None:
        driver = Driver()
        driver.commit({0: 1})
        driver.fail_next = ErrorCode.NOT_LEADER_OR_FOLLOWER

        assert driver.delete() is ErrorCode.NOT_COORDINATOR

        assert driver.fetch(0) == [(1, OK)]

    @pytest.mark.parametrize("is_committed_meanwhile", [False, True])
    def test_a_group_of_very_many_offsets_is_deleted_in_steps(
        self, *, is_committed_meanwhile: bool
    ) -> None:
        driver = Driver()
        driver.commit(dict.fromkeys(range(2_000), 1))
        written = len(driver.records)
        context = RequestContext(7_000, 2)
        driver.versions[context.token] = context.api_version
        steps = driver.shard.handle_in_steps(DeleteGroupsRequest((GROUP,)), context, driver.now_ms)
        for _ in range(-(-2_000 // 256)):
            next(steps)
        assert len(driver.records) == written
        if is_committed_meanwhile:
            driver.commit({2_000: 1})
        with pytest.raises(StopIteration) as ended:
            next(steps)
        written = len(driver.records)
        driver.deal_with(ended.value.value)
        gone = driver.records[written:]
        assert len(set(gone)) == len(gone) == 2_001 + is_committed_meanwhile
        assert driver.shard.group_ids == ()
        assert driver.fetch(0, 1_999, 2_000) == [(-1, OK)] * 3
        assert driver.restarted().shard.group_ids == ()

    def test_member_id_given_out_by_a_deleted_group_is_unknown(self) -> None:
        driver = Driver()
        member = driver.take_id()
        assert driver.delete() is OK

        assert driver.joined(driver.join(member)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        driver.pass_ms(100_000)


class TestDeleteOffsets:
    def delete(self, driver: Driver, topic: str, *indexes: int) -> list[ErrorCode] | ErrorCode:
        partitions = tuple(map(OffsetDeleteRequestPartition, indexes))
        request = OffsetDeleteRequest(GROUP, (OffsetDeleteRequestTopic(topic, partitions),))
        answer = driver.ask(request)
        if answer.error_code:
            return ErrorCode.of(answer.error_code)
        (found,) = answer.topics
        return [ErrorCode.of(each.error_code) for each in found.partitions]

    def consumers(self) -> Driver:
        driver = Driver(QUICK)
        offer = protocols("range", metadata=subscription("t"))
        (member,) = driver.stable(protocol_type="consumer", protocols=offer)
        driver.commit({0: 1}, member, 1)
        driver.commit({0: 2}, member, 1, topic="u")
        return driver

    def test_topics_that_are_read_keep_theirs(self) -> None:
        driver = self.consumers()

        assert self.delete(driver, "t", 0) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
        assert self.delete(driver, "u", 0, 1) == [OK, OK]

        assert driver.fetch(0) == [(1, OK)]
        assert driver.fetch(0, topic="u") == [(-1, OK)]
        assert driver.records[-1].value is None

    def test_consumers_whose_topics_are_not_known_read_all(self, driver: Driver) -> None:
        (member,) = driver.stable(protocol_type="consumer")
        driver.commit({0: 1}, member, 1)

        assert self.delete(driver, "t", 0) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]

    def test_others_have_to_be_empty(self, driver: Driver) -> None:
        (member,) = driver.stable()
        driver.commit({0: 1}, member, 1)
        assert self.delete(driver, "t", 0) is ErrorCode.NON_EMPTY_GROUP

        driver.leave(member)

        assert self.delete(driver, "t", 0, 5) == [OK, OK]
        assert driver.fetch(0) == [(-1, OK)]

    def test_pending_offsets_go_too(self) -> None:
        driver = Driver()
        driver.commit_in_transaction({0: 1})

        assert self.delete(driver, "t", 0) == [OK]

        driver.marker(committed=True)
        assert driver.fetch(0) == [(-1, OK)]

    def test_delete_offsets_that_cannot_be_written_keeps_them(self) -> None:
        driver = Driver()
        driver.commit({0: 1})
        driver.fail_next = ErrorCode.NOT_ENOUGH_REPLICAS

        assert self.delete(driver, "t", 0) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert driver.fetch(0) == [(1, OK)]

    def test_offset_delete_without_a_group_id_is_refused(self) -> None:
        answer = Driver().ask(OffsetDeleteRequest(""))

        assert answer.error_code == ErrorCode.INVALID_GROUP_ID
