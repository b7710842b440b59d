"""Test members of very many topics: their records are encoded in steps, between which others change the group."""

from collections.abc import Generator
from typing import Any, Final

import pytest
from pytest_mock import MockerFixture
from typing_extensions import override

from groupsdk.broker.coordinator.consumer import conversion
from groupsdk.broker.coordinator.consumer.group import (
    AssignmentRecord,
    ConsumerGroup,
    TargetRecord,
)
from groupsdk.broker.coordinator.consumer.topics import names_set
from groupsdk.broker.coordinator.runtime.contract import (
    UNPREPARED,
    EncodedRecords,
    RequestContext,
    Result,
    finished,
)
from groupsdk.errors import EncodeError
from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolDecoder,
    ConsumerProtocolEncoder,
    ConsumerProtocolSubscription,
)
from groupsdk.wire.messages.groups import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.clients import join_request
from tests.broker.coordinator.consumer.rig import Rig, Topics, heartbeat_request


_NAMES: Final = tuple(f"t-{n}" for n in range(600))
_METADATA: Final = ConsumerProtocolEncoder().subscription(
    ConsumerProtocolSubscription([f"topic-{n}" for n in range(1_500)]), 3
)


class Large:
    """A request whose records are being encoded."""

    def __init__(self, rig: Rig, member_id: str, epoch: int = 0, **fields: Any) -> None:
        self.rig = rig
        self.request = heartbeat_request(member_id, epoch, **fields)
        self.result = self.decide()
        self.steps: Generator[None, None, Result | None]
        self.steps = rig.shard.encode_in_steps(self.request, self.result)

    def decide(self) -> Result:
        return self.rig.shard.handle(self.request, RequestContext(0, 1), self.rig.now_ms)

    def finish(self) -> Any:
        """Does what the runtime does after the last step, and returns the answer."""
        self.rig.do(finished(self.steps) or self.decide())
        return self.rig.answers.pop(0)


def rig_of(*names: str) -> Rig:
    return Rig(Topics(**dict.fromkeys(names, 1)))


def test_records_that_were_encoded_in_steps_are_those_of_the_decision() -> None:
    rig = rig_of(*_NAMES)
    large = Large(rig, "m", subscribed_topic_names=_NAMES)
    assert large.result.is_large
    expected = [pair for record in large.result.records for pair in record.encoded()]
    made = finished(large.steps)
    assert made is not None
    (records,) = made.records
    assert isinstance(records, EncodedRecords)
    assert records.pairs == expected
    rig.do(made)
    assert len(rig.group.members["m"].assigned) == 600


def test_a_small_heartbeat_is_not_encoded_in_steps() -> None:
    assert not Large(rig_of("t"), "m", subscribed_topic_names=("t",)).result.is_large


def test_a_heartbeat_of_a_large_member_without_records_is_answered_at_once() -> None:
    rig = rig_of(*_NAMES)
    epoch = Large(rig, "m", subscribed_topic_names=_NAMES).finish().member_epoch
    again = Large(rig, "m", epoch, subscribed_topic_names=_NAMES)
    assert (again.result.records, again.result.is_large) == ((), False)


class Name(str):
    """A topic's name that counts how often names are compared."""

    __slots__ = ()
    compared = 0

    @override
    def __lt__(self, other: str) -> bool:
        Name.compared += 1
        return super().__lt__(other)


def test_names_are_in_order_and_one_set_before_a_large_subscription_is_decided_on() -> None:
    rig = rig_of()
    names = tuple(Name(f"other-{n}") for n in range(12_000))
    Name.compared = 0
    for _ in rig.shard.prepare("g", names):
        assert Name.compared < 60_000  # at once it takes 150,000
        Name.compared = 0
    assert Name.compared == 0
    Large(rig, "m", subscribed_topic_names=names).finish()
    assert Name.compared == 0
    assert rig.group.members["m"].topic_names is names_set(names[::-1])


def test_after_a_change_of_any_topic_a_large_member_s_heartbeat_looks_them_up_in_steps() -> None:
    rig = rig_of(*_NAMES)
    epoch = Large(rig, "m", subscribed_topic_names=_NAMES).finish().member_epoch
    rig.topics.create("other", 1)
    request, context = heartbeat_request("m", epoch), RequestContext(0, 1)
    assert rig.shard.handle(request, context, rig.now_ms) is UNPREPARED
    assert len(list(rig.shard.prepare_in_steps(request))) > 600 // 256
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(Topics, "topic")
        rig.do(rig.shard.handle_prepared(request, context, rig.now_ms))
    assert (rig.answers.pop(0).error_code, rig.ask(request).error_code) == (0, 0)  # type: ignore[attr-defined]
    # and not where another change came in between: it is never put off twice
    rig.topics.create("another", 1)
    rig.do(rig.shard.handle_prepared(request, context, rig.now_ms))
    assert rig.answers.pop(0).error_code == 0  # type: ignore[attr-defined]


def test_after_a_change_of_any_topic_large_members_expire_and_leave_in_steps(
    mocker: MockerFixture,
) -> None:
    rig = rig_of(*_NAMES)
    joined = {
        each: Large(rig, each, subscribed_topic_names=_NAMES[start:]).finish().member_epoch
        for start, each in enumerate("abc")
    }
    rig.topics.create("other", 1)
    asked = mocker.spy(Topics, "topic")
    rig.now_ms += 60_000
    most = steps = 0
    while len(rig.group.members) > 1:
        asked.reset_mock()
        steps += 1
        rig.do(rig.shard.advance(rig.now_ms))
        most = max(most, asked.call_count)
    assert 0 < most <= 256
    assert steps < 20
    group = rig.group
    assert group.epoch == joined["c"] + 2
    epoch = Large(rig, "d", subscribed_topic_names=_NAMES).finish().member_epoch
    rig.topics.create("another", 1)
    (left,) = group.members.keys() - {"d"}
    leaves, context = heartbeat_request(left, -1), RequestContext(0, 1)
    assert rig.shard.handle(leaves, context, rig.now_ms) is UNPREPARED
    assert len(list(rig.shard.prepare_in_steps(leaves))) > 600 // 256
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(Topics, "topic")
        rig.do(rig.shard.handle_prepared(leaves, context, rig.now_ms))
    assert list(group.members) == ["d"]
    assert group.epoch == epoch + 1


def test_a_session_renewed_while_its_topics_are_looked_up_goes_on() -> None:
    rig = rig_of(*_NAMES)
    epochs = [
        Large(rig, each, subscribed_topic_names=_NAMES).finish().member_epoch for each in "ab"
    ]
    rig.topics.create("other", 1)
    rig.now_ms += 60_000
    rig.do(rig.shard.advance(rig.now_ms))
    large = Large(rig, "b", epochs[1])
    finished(rig.shard.prepare_in_steps(large.request))
    rig.do(rig.shard.handle_prepared(large.request, RequestContext(0, 1), rig.now_ms))
    rig.settle()
    assert rig.group.members.keys() == {"b"}


def test_records_of_a_large_member_are_encoded_in_steps_and_replayed_as_they_are_read() -> None:
    rig = rig_of(*_NAMES)
    groups = [ConsumerGroup("g"), ConsumerGroup("g")]
    records: Any = Large(rig, "m", subscribed_topic_names=_NAMES).result.records
    assert {AssignmentRecord, TargetRecord} < {type(each) for each in records}
    for record in records:
        (expected,) = record.encoded()
        assert finished(record.encoded_in_steps()) == expected
        (read,) = rig.shard.decode([expected])
        for group, each in zip(groups, (record, read), strict=True):
            group.replay(each)
    assert groups[0].snapshot() == groups[1].snapshot()


def test_a_decision_is_taken_again_where_its_group_has_changed_meanwhile() -> None:
    rig = rig_of(*_NAMES)
    Large(rig, "m", subscribed_topic_names=_NAMES).finish()
    large = Large(rig, "n", subscribed_topic_names=_NAMES)
    next(large.steps)
    other = Large(rig, "o", subscribed_topic_names=_NAMES[:1])
    assert other.finish().member_epoch == 3
    # two joined: its epoch comes after that of the other
    assert large.finish().member_epoch == 4
    assert rig.group.members.keys() == {"m", "n", "o"}


def test_two_large_members_of_a_new_group_do_not_undo_each_other() -> None:
    rig = rig_of(*_NAMES)
    joins = [Large(rig, each, subscribed_topic_names=_NAMES) for each in "mn"]
    assert [each.finish().member_epoch for each in joins] == [2, 3]


def test_an_upgrade_is_decided_again_where_the_classic_group_has_changed_meanwhile() -> None:
    rig = rig_of("t")
    first = rig.ask(join_request("g", metadata=_METADATA), 9)
    rig.send(join_request("g", first.member_id, metadata=_METADATA), 9)
    rig.settle()
    assert rig.shard.is_long_conversion("g")
    large = Large(rig, "new", subscribed_topic_names=("t",))
    assert large.result.is_large
    given = ConsumerProtocolEncoder().assignment(ConsumerProtocolAssignment({"t": (0,)}), 3)
    assignments = (SyncGroupRequestAssignment(first.member_id, given),)
    sync = SyncGroupRequest("g", 1, first.member_id, None, "consumer", "range", assignments)
    rig.send(sync, 5)
    assert large.finish().error_code == 0
    assert [*rig.group.members[first.member_id].assigned.values()] == [{0: 1}]


@pytest.mark.parametrize("changed", [False, True])
def test_a_large_upgrade_is_drafted_in_steps_and_again_where_the_group_has_changed(
    changed: bool, mocker: MockerFixture
) -> None:
    rig = rig_of("t")
    member_id = rig.ask(join_request("g", metadata=_METADATA), 9).member_id
    rig.send(join_request("g", member_id, metadata=_METADATA), 9)
    rig.settle()
    given = ConsumerProtocolEncoder().assignment(ConsumerProtocolAssignment({"t": (0,)}), 3)
    assignments = (SyncGroupRequestAssignment(member_id, given),)
    sync = SyncGroupRequest("g", 1, member_id, None, "consumer", "range", assignments)
    drafted = mocker.spy(conversion, "upgrade_records")
    if not changed:
        rig.send(sync, 5)
    assert len(list(rig.shard.prepare("g", ("t",)))) > 5
    assert drafted.call_count == 1
    if changed:
        rig.send(sync, 5)
    assert Large(rig, "new", subscribed_topic_names=("t",)).finish().error_code == 0
    assert drafted.call_count == 1 + changed
    assert [*rig.group.members[member_id].assigned.values()] == [{0: 1}]


def test_a_record_that_cannot_be_encoded_is_refused_when_it_is_appended() -> None:
    rig = rig_of(*_NAMES)
    large = Large(rig, "m", subscribed_topic_names=_NAMES, rack_id="r" * 40_000)
    made = finished(large.steps)
    assert made is not None
    assert made.records == large.result.records
    with pytest.raises(EncodeError):
        rig.do(made)


def test_a_large_upgrade_and_its_members_joins_decode_no_subscription_at_once() -> None:
    rig = rig_of("topic-1", "t")
    member_id = rig.ask(join_request("g", metadata=_METADATA), 9).member_id
    rig.send(join_request("g", member_id, metadata=_METADATA), 9)
    rig.settle()
    names = [0]
    read = ConsumerProtocolDecoder._read_topics

    def counted(decoder: Any, data: bytes, at: int, count: int, topics: list[str]) -> int:
        names[0] += count
        return read(decoder, data, at, count, topics)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConsumerProtocolDecoder, "_read_topics", counted)
        finished(rig.shard.prepare("g", ("t",)))
        assert names == [1_500]
        Large(rig, "new", subscribed_topic_names=("t",)).finish()
        finished(rig.shard.prepare_join("g", _METADATA))
        rig.ask(join_request("g", member_id, metadata=_METADATA), 9)
        assert names == [1_500]
        other = ConsumerProtocolEncoder().subscription(
            ConsumerProtocolSubscription([f"other-{n}" for n in range(10_000)]), 3
        )
        steps = list(rig.shard.prepare_join("g", other))
        assert (names, len(steps) > 10_000 // 4_096) == ([11_500], True)
        rig.ask(join_request("g", member_id, metadata=other), 9)
        assert names == [11_500]


def test_a_large_subscription_that_cannot_be_decoded_is_refused_as_a_small_one() -> None:
    rig = rig_of("t")
    Large(rig, "m", subscribed_topic_names=("t",)).finish()
    broken = _METADATA[:9_000]
    finished(rig.shard.prepare_join("g", broken))
    codes = [
        rig.ask(join_request("g", metadata=each), 3).error_code for each in (broken, broken[:20])
    ]
    assert codes == [-1, -1]
