"""What records of the newer protocols tell of the names of topics."""

from groupsdk.history.explain.timeline.modern_protocols import (
    TopicHint,
    hints_in_topic_list,
    topic_hints,
)
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    TopicMetadata,
)
from groupsdk.wire.coordinator_records.offsets_log import write
from tests.history.explain.modern_log import TOPIC, TOPIC_ID, epoch, gone, member, target


MEMBER, TARGET, EPOCH = 5, 7, 3


def test_members_tell_names_and_targets_tell_ids() -> None:
    pairs = [
        (MEMBER, *member("a", topics=("t", "u"))),
        (TARGET, *target("a", 0, 4, 2)),
        (TARGET, *target("b", 0, 4)),
        (MEMBER, *member("b", topics=("t",))),
        (EPOCH, *epoch(3)),
        *((MEMBER, *pair) for pair in gone("a")),
        (MEMBER, b"\0\5\0", b"\xff"),
    ]
    found = [told for pair in pairs for told in topic_hints(*pair)]
    assert list(dict.fromkeys(found)) == [
        TopicHint("t", None, -1, False),
        TopicHint("u", None, -1, False),
        TopicHint(None, TOPIC_ID, 4, False),
    ]
    assert len(found) == 5


def test_a_pattern_tells_that_there_may_be_other_names() -> None:
    value = ConsumerGroupMemberMetadataValue(None, None, "c", "/h", (), "t.*", 1, None, None)
    pair = write(ConsumerGroupMemberMetadataKey("g", "m"), value)
    assert list(topic_hints(MEMBER, *pair)) == [TopicHint(None, None, -1, True)]


def test_old_records_tell_the_names_of_topics() -> None:
    value = ConsumerGroupPartitionMetadataValue((TopicMetadata(TOPIC, "orders", 3),))
    pair = write(ConsumerGroupPartitionMetadataKey("g"), value)
    assert list(hints_in_topic_list(*pair)) == [TopicHint("orders", TOPIC_ID, -1, False)]
