"""Tests the lines of records of the newer protocols: topics by name, and members' states in words."""

from uuid import UUID

import pytest

from groupsdk.admin.log_text import TopicNames, describe_record
from groupsdk.wire.coordinator_records import consumer_group as consumer, share_group as share
from groupsdk.wire.coordinator_records.declaration import CoordinatorKey, CoordinatorValue


ORDERS, GONE = UUID(int=1), UUID(int=2)
MEMBER = consumer.ConsumerGroupMemberMetadataKey("g", "m")
ASSIGNED = consumer.ConsumerGroupCurrentMemberAssignmentKey("g", "m")
OF_ORDERS = (consumer.CurrentTopicPartitions(ORDERS, (0, 1)),)


def line(key: CoordinatorKey, value: CoordinatorValue | None) -> str:
    """Describes a record, where the topic orders is known."""
    return describe_record(key, value, TopicNames({ORDERS: "orders"}))


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (
            consumer.ConsumerGroupMetadataKey("g"),
            consumer.ConsumerGroupMetadataValue(7, 99),
            "g epoch 7",
        ),
        (
            consumer.ConsumerGroupPartitionMetadataKey("g"),
            consumer.ConsumerGroupPartitionMetadataValue(
                (consumer.TopicMetadata(ORDERS, "orders", 4),)
            ),
            "g topics and partitions: orders (4)",
        ),
        (
            MEMBER,
            consumer.ConsumerGroupMemberMetadataValue(
                instance_id="i",
                rack_id="r",
                client_id="c",
                client_host="/127.0.0.1",
                subscribed_topic_names=("orders",),
                subscribed_topic_regex="o.*",
                server_assignor="uniform",
                classic_member_metadata=None,
            ),
            "g member m c at /127.0.0.1, subscribed to orders, /o.*/, instance i, rack r, assignor uniform",
        ),
        (
            MEMBER,
            consumer.ConsumerGroupMemberMetadataValue(
                *(None, None, "c", "/h", ("orders",), None),
                server_assignor=None,
                classic_member_metadata=consumer.ClassicMemberMetadata(
                    45_000, (consumer.ClassicProtocol("range"), consumer.ClassicProtocol("sticky"))
                ),
            ),
            "g member m c at /h, subscribed to orders, of the classic protocol: range, sticky",
        ),
        (MEMBER, None, "g member m deleted"),
        (
            consumer.ConsumerGroupTargetAssignmentMetadataKey("g"),
            consumer.ConsumerGroupTargetAssignmentMetadataValue(7),
            "g target assignment of epoch 7",
        ),
        (
            consumer.ConsumerGroupTargetAssignmentMemberKey("g", "m"),
            consumer.ConsumerGroupTargetAssignmentMemberValue(
                (consumer.TopicPartitions(ORDERS, (0, 1, 2)),)
            ),
            "g member m target [orders(0-2)]",
        ),
        (
            ASSIGNED,
            consumer.ConsumerGroupCurrentMemberAssignmentValue(7, 6, 1, OF_ORDERS, OF_ORDERS[:1]),
            "g member m epoch 7 [orders(0-1)], gives up [orders(0-1)]",
        ),
        (
            ASSIGNED,
            consumer.ConsumerGroupCurrentMemberAssignmentValue(7, 6, 2, OF_ORDERS),
            "g member m epoch 7 [orders(0-1)], waits for partitions of others",
        ),
        (
            consumer.ConsumerGroupRegularExpressionKey("g", "o.*"),
            consumer.ConsumerGroupRegularExpressionValue(("orders",)),
            "g o.* matches orders",
        ),
        (
            share.ShareGroupMemberMetadataKey("s", "m"),
            share.ShareGroupMemberMetadataValue(None, "c", "/h", ("orders",)),
            "s member m c at /h, subscribed to orders",
        ),
        (
            share.ShareGroupCurrentMemberAssignmentKey("s", "m"),
            share.ShareGroupCurrentMemberAssignmentValue(
                3, 2, 0, (consumer.TopicPartitions(ORDERS, (1,)),)
            ),
            "s member m epoch 3 [orders(1)]",
        ),
        (share.ShareGroupMetadataKey("s"), None, "s deleted"),
    ],
)
def test_record_of_a_newer_protocol_is_a_plain_line(
    key: CoordinatorKey, value: CoordinatorValue | None, expected: str
) -> None:
    assert line(key, value) == expected


def test_topic_without_a_known_name_is_shown_by_its_id_and_remembered() -> None:
    names = TopicNames({ORDERS: "orders"})
    value = consumer.ConsumerGroupTargetAssignmentMemberValue(
        (consumer.TopicPartitions(GONE, (0,)),)
    )
    key = consumer.ConsumerGroupTargetAssignmentMemberKey("g", "m")

    assert describe_record(key, value, names) == "g member m target [AAAAAAAAAAAAAAAAAAAAAg(0)]"
    assert names.missing == {GONE}
    names.learn({GONE: "payments"})
    assert describe_record(key, value, names) == "g member m target [payments(0)]"
    assert not names.missing
