"""The APIs that the broker serves: their versions, and the handler that is imported on first use."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class ServedApi(NamedTuple):
    """The served versions of an API, and the location of its handler.

    The versions are listed here as well as in the declarations of the messages, so that answering ApiVersions does not
    import fifty modules.
    """

    name: str
    """Kafka's name of the API."""
    min_version: int
    max_version: int
    module: str
    """The module of the handler, in `groupsdk.broker.server.handlers`."""
    function: str
    """The handler in that module."""
    advertised_from: int | None = None
    """The oldest version that ApiVersions shows, if lower than the oldest served; None: the oldest served."""
    max_version_4_3: int | None = None
    """The newest version in Kafka 4.3, if 4.4 has later ones, which are served with group.consumer.release=4.4;
    None: the same.
    """


APIS: Final[dict[int, ServedApi]] = {
    # librdkafka before 2.6 turns compression off where version 0 is not shown (KAFKA-18659)
    0: ServedApi("Produce", 3, 13, "produce", "produce", 0),
    1: ServedApi("Fetch", 4, 18, "fetch", "fetch"),
    2: ServedApi("ListOffsets", 1, 11, "list_offsets", "list_offsets"),
    3: ServedApi("Metadata", 0, 13, "metadata", "metadata"),
    8: ServedApi("OffsetCommit", 2, 10, "offsets", "offset_commit"),
    9: ServedApi("OffsetFetch", 1, 10, "offsets", "offset_fetch"),
    10: ServedApi("FindCoordinator", 0, 6, "cluster", "find_coordinator"),
    11: ServedApi("JoinGroup", 0, 9, "groups", "group_request"),
    12: ServedApi("Heartbeat", 0, 4, "groups", "heartbeat"),
    13: ServedApi("LeaveGroup", 0, 5, "groups", "group_request"),
    14: ServedApi("SyncGroup", 0, 5, "groups", "group_request"),
    15: ServedApi("DescribeGroups", 0, 6, "groups", "describe_groups"),
    16: ServedApi("ListGroups", 0, 5, "groups", "list_groups"),
    17: ServedApi("SaslHandshake", 0, 1, "handshake", "sasl_handshake"),
    18: ServedApi("ApiVersions", 0, 4, "handshake", "api_versions"),
    19: ServedApi("CreateTopics", 2, 7, "topics", "create_topics"),
    20: ServedApi("DeleteTopics", 1, 6, "topics", "delete_topics"),
    21: ServedApi("DeleteRecords", 0, 2, "topics", "delete_records"),
    22: ServedApi("InitProducerId", 0, 5, "transactions", "init_producer_id"),
    23: ServedApi("OffsetForLeaderEpoch", 2, 4, "list_offsets", "offset_for_leader_epoch"),
    24: ServedApi("AddPartitionsToTxn", 0, 5, "transactions", "add_partitions_to_txn"),
    25: ServedApi("AddOffsetsToTxn", 0, 4, "transactions", "transaction_request"),
    26: ServedApi("EndTxn", 0, 5, "transactions", "transaction_request"),
    27: ServedApi("WriteTxnMarkers", 1, 2, "transactions", "write_txn_markers"),
    28: ServedApi("TxnOffsetCommit", 0, 6, "offsets", "txn_offset_commit", max_version_4_3=5),
    29: ServedApi("DescribeAcls", 1, 3, "acls", "describe_acls"),
    30: ServedApi("CreateAcls", 1, 3, "acls", "create_acls"),
    31: ServedApi("DeleteAcls", 1, 3, "acls", "delete_acls"),
    32: ServedApi("DescribeConfigs", 1, 4, "configs", "describe_configs"),
    33: ServedApi("AlterConfigs", 0, 2, "configs", "alter_configs"),
    35: ServedApi("DescribeLogDirs", 1, 5, "cluster", "describe_log_dirs"),
    36: ServedApi("SaslAuthenticate", 0, 2, "handshake", "sasl_authenticate"),
    37: ServedApi("CreatePartitions", 0, 3, "topics", "create_partitions"),
    42: ServedApi("DeleteGroups", 0, 2, "groups", "delete_groups"),
    44: ServedApi("IncrementalAlterConfigs", 0, 1, "configs", "incremental_alter_configs"),
    47: ServedApi("OffsetDelete", 0, 0, "offsets", "offset_delete"),
    48: ServedApi("DescribeClientQuotas", 0, 1, "scram_users", "describe_client_quotas"),
    50: ServedApi("DescribeUserScramCredentials", 0, 0, "scram_users", "describe_credentials"),
    51: ServedApi("AlterUserScramCredentials", 0, 0, "scram_users", "alter_credentials"),
    60: ServedApi("DescribeCluster", 0, 2, "cluster", "describe_cluster"),
    61: ServedApi("DescribeProducers", 0, 0, "cluster", "describe_producers"),
    65: ServedApi("DescribeTransactions", 0, 0, "transactions", "describe_transactions"),
    66: ServedApi("ListTransactions", 0, 2, "transactions", "list_transactions"),
    68: ServedApi("ConsumerGroupHeartbeat", 0, 1, "groups", "consumer_group_heartbeat"),
    69: ServedApi("ConsumerGroupDescribe", 0, 1, "groups", "consumer_group_describe"),
    74: ServedApi("ListConfigResources", 0, 1, "configs", "list_config_resources"),
    75: ServedApi("DescribeTopicPartitions", 0, 0, "metadata", "describe_topic_partitions"),
    # refused; librdkafka's share consumers wait in silence where it is not shown
    76: ServedApi("ShareGroupHeartbeat", 1, 1, "groups", "share_group_heartbeat"),
}
"""The served APIs by API key."""

_LOG: Final = "groupsdk.broker.log.partition_log"
_OF_GROUPS: Final = (
    _LOG,
    "groupsdk.broker.coordinators",
    "groupsdk.broker.coordinator.group.shard",
)
LOADED_WITH: Final[Mapping[int, tuple[str, ...]]] = {
    **dict.fromkeys((0, 1, 2, 21, 23, 61), (_LOG,)),
    **dict.fromkeys((8, 9, 10, 11, 12, 13, 14, 15, 28, 42, 47, 68, 69), _OF_GROUPS),
}
"""The modules that handlers import on first use, by API key: those that take long."""


def newest_version(api_key: int, release: str) -> int:
    served = APIS[api_key]
    if served.max_version_4_3 is None or release != "4.3":
        return served.max_version
    return served.max_version_4_3
