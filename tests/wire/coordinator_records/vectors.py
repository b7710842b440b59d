"""Records as Kafka 4.1.0 writes them."""

from uuid import UUID

from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataValue, MemberMetadata
from groupsdk.wire.coordinator_records.offset_commit import (
    LegacyOffsetCommitValue,
    OffsetCommitValue,
)
from groupsdk.wire.coordinator_records.transaction_log import PartitionsSchema, TransactionLogValue


TOPIC_ID = UUID(int=(1 << 64) + 2)
SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")
ASSIGNMENT = bytes.fromhex("000000000001000174000000020000000000000002ffffffff")

MEMBER = MemberMetadata("m", None, "c", "/127.0.0.1", 300_000, 45_000, SUBSCRIPTION, ASSIGNMENT)
GROUP = GroupMetadataValue("consumer", 1, "range", "m", 1000, (MEMBER,))
EMPTY_GROUP = GroupMetadataValue("", 0, None, None, 1000)

GROUP_KEY = "0002000167"
GROUP_VALUES = {
    0: (
        "00000008636f6e73756d657200000001000572616e676500016d0000000100016d000163000a2f3132372e302e"
        "302e310000afc80000000d000000000001000174ffffffff000000190000000000010001740000000200000000"
        "00000002ffffffff"
    ),
    1: (
        "00010008636f6e73756d657200000001000572616e676500016d0000000100016d000163000a2f3132372e302e"
        "302e31000493e00000afc80000000d000000000001000174ffffffff0000001900000000000100017400000002"
        "0000000000000002ffffffff"
    ),
    2: (
        "00020008636f6e73756d657200000001000572616e676500016d00000000000003e80000000100016d00016300"
        "0a2f3132372e302e302e31000493e00000afc80000000d000000000001000174ffffffff000000190000000000"
        "01000174000000020000000000000002ffffffff"
    ),
    3: (
        "00030008636f6e73756d657200000001000572616e676500016d00000000000003e80000000100016dffff0001"
        "63000a2f3132372e302e302e31000493e00000afc80000000d000000000001000174ffffffff00000019000000"
        "000001000174000000020000000000000002ffffffff"
    ),
    4: (
        "000409636f6e73756d6572000000010672616e6765026d00000000000003e802026d0002630b2f3132372e302e"
        "302e31000493e00000afc80e000000000001000174ffffffff1a00000000000100017400000002000000000000"
        "0002ffffffff0000"
    ),
}
EMPTY_GROUP_VALUE = "0003000000000000ffffffff00000000000003e800000000"

OFFSET_KEY = "000100016700017400000002"
LEGACY_OFFSET_KEY = "000000016700017400000002"
LEGACY_OFFSET = LegacyOffsetCommitValue(5, "m", 1000)
OFFSET = OffsetCommitValue(5, 3, "m", 1000)
OFFSET_VALUES = (
    (0, OFFSET, "0000000000000000000500016d00000000000003e8"),
    (
        1,
        OffsetCommitValue(5, 3, "m", 1000, 2000),
        "0001000000000000000500016d00000000000003e800000000000007d0",
    ),
    (2, OFFSET, "0002000000000000000500016d00000000000003e8"),
    (3, OFFSET, "000300000000000000050000000300016d00000000000003e8"),
    (4, OFFSET, "0004000000000000000500000003026d00000000000003e800"),
    (
        4,
        OffsetCommitValue(5, 3, "m", 1000, topic_id=TOPIC_ID),
        "0004000000000000000500000003026d00000000000003e801001000000000000000010000000000000002",
    ),
)

TRANSACTION_KEY = "0000000178"
TRANSACTION_PARTITIONS = (PartitionsSchema("t", (0, 2)),)
TRANSACTION_VALUES = (
    (
        0,
        TransactionLogValue(
            producer_id=5,
            producer_epoch=1,
            transaction_timeout_ms=60_000,
            transaction_status=1,
            transaction_partitions=TRANSACTION_PARTITIONS,
            transaction_last_update_timestamp_ms=1000,
            transaction_start_timestamp_ms=900,
        ),
        (
            "0000000000000000000500010000ea60010000000100017400000002000000000000000200000000000003e8"
            "0000000000000384"
        ),
    ),
    (
        1,
        TransactionLogValue(
            producer_id=5,
            producer_epoch=1,
            transaction_timeout_ms=60_000,
            transaction_status=1,
            transaction_partitions=TRANSACTION_PARTITIONS,
            transaction_last_update_timestamp_ms=1000,
            transaction_start_timestamp_ms=900,
            client_transaction_version=2,
        ),
        (
            "0001000000000000000500010000ea60010202740300000000000000020000000000000003e8000000000000"
            "03840102020002"
        ),
    ),
    (
        1,
        TransactionLogValue(
            producer_id=5,
            producer_epoch=1,
            transaction_timeout_ms=60_000,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=1000,
            transaction_start_timestamp_ms=900,
            client_transaction_version=2,
        ),
        "0001000000000000000500010000ea60000000000000000003e800000000000003840102020002",
    ),
)
