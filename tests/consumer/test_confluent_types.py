"""Test the way between confluent-kafka's values and ours."""

from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition as NativePartition
from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.consumer.confluent_types import (
    check_with_offset,
    native,
    offsets_of,
    plain,
    plain_one,
    with_times,
)
from groupsdk.types import OffsetAndMetadata
from tests.consumer.rig import Record, partitions


T0 = partitions("t-0")[0]


def test_partitions_of_both_kinds_do() -> None:
    assert plain([NativePartition("t", 0), T0]) == [T0, T0]


def test_offsets_come_back_as_confluents() -> None:
    given = native(T0, OffsetAndMetadata(5, 2, "note"))
    assert (given.topic, given.partition, given.offset) == ("t", 0, 5)
    assert (given.leader_epoch, given.metadata) == (2, "note")
    assert native(T0, OffsetAndMetadata(5)).leader_epoch is None
    assert native(T0, None).offset == OFFSET_INVALID


def test_after_a_record_comes_the_next_offset() -> None:
    record: Any = Record(T0, 4)
    assert offsets_of(record, None) == {T0: OffsetAndMetadata(5)}


def test_offsets_are_taken_as_they_are() -> None:
    given = [NativePartition("t", 1, 7, "note", 3), NativePartition("t", 2, 0)]
    assert offsets_of(None, given) == {
        TopicPartition("t", 1): OffsetAndMetadata(7, 3, "note"),
        TopicPartition("t", 2): OffsetAndMetadata(0),
    }


class Broken(Record):
    @override
    def error(self) -> Any:
        return "no record"


def test_value_that_is_not_an_offset_is_refused() -> None:
    record: Any = Record(T0, 4)
    broken: Any = Broken(T0, 4)
    with pytest.raises(ValueError, match="a message or offsets"):
        offsets_of(record, [])
    with pytest.raises(ValueError, match="a message or offsets"):
        offsets_of(None, None)
    with pytest.raises(ValueError, match="is an error, not a record"):
        offsets_of(broken, None)
    with pytest.raises(ValueError, match="t-1: -1001 is not an offset"):
        offsets_of(None, [NativePartition("t", 1)])


def test_offsets_of_other_clients_are_refused_by_name() -> None:
    mapping: Any = {T0: 3}
    with pytest.raises(TypeError, match="message must be a record, not"):
        offsets_of(mapping, None)
    with pytest.raises(TypeError, match="offsets must be a list of confluent_kafka"):
        offsets_of(None, mapping)
    mapping = {NativePartition("t", 0): 3}
    with pytest.raises(TypeError, match="offsets must be a list of confluent_kafka"):
        offsets_of(None, mapping)


@pytest.mark.parametrize(
    ("call", "given", "told"),
    [
        (plain, ["t"], r"partitions must be a list of TopicPartition\(.*\); it has 't'"),
        (plain, "t", r"partitions must be a list of TopicPartition\(.*\); it has 't'"),
        (plain, T0, r"list of TopicPartition\(.*\), not TopicPartition\(topic='t'"),
        (plain, [("t", 0)], r"it has \('t', 0\)"),
        (plain, None, "not None"),
        (plain_one, "t", r"partition must be a TopicPartition\(topic, partition\), not 't'"),
        (check_with_offset, "x", r"confluent_kafka.TopicPartition\(.*, offset\), not 'x'"),
        (check_with_offset, T0, r"confluent_kafka.TopicPartition\(.*, offset\), not TopicPart"),
        (with_times, 5, r"TopicPartition\(topic, partition, time_ms\), not 5"),
        (with_times, [T0], r"TopicPartition\(topic, partition, time_ms\); it has TopicPart"),
    ],
)
def test_argument_that_is_not_a_partition_is_refused_with_what_is_due(
    call: Any, given: object, told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        call(given)
