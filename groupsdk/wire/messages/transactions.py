"""Messages of transactional producers, WriteTxnMarkers between brokers, and lists of transactions and producers (KIP-664)."""

from typing import Annotated, ClassVar
from uuid import UUID

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    NO_UUID,
    Api,
    ApiKey,
    Int8,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    nullable,
    since,
    until,
)


INIT_PRODUCER_ID = Api(ApiKey.INIT_PRODUCER_ID, 0, 5, first_flexible=2)


@dataclass(frozen=True, slots=True)
class InitProducerIdResponse(Response):
    """The producer id and epoch."""

    api: ClassVar[Api] = INIT_PRODUCER_ID

    throttle_time_ms: Annotated[Int32, IGNORABLE] = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest(Request[InitProducerIdResponse]):
    """Get a producer id; without a `transactional_id` for an idempotent producer.

    With one, the transaction that an earlier producer left open is aborted and that producer is fenced.
    A producer that goes on after an error names the id and epoch that it has (KIP-360).
    """

    api: ClassVar[Api] = INIT_PRODUCER_ID
    response_class: ClassVar[type[Response]] = InitProducerIdResponse

    transactional_id: Annotated[str | None, nullable()] = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1


ADD_PARTITIONS_TO_TXN = Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, first_flexible=3)


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxnPartitionResult(Struct):
    """The result of adding one partition to the transaction."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxnTopicResult(Struct):
    """The results for one topic."""

    name: str = ""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxnResult(Struct):
    """The results for one transaction."""

    transactional_id: Annotated[str, since(4)] = ""
    topic_results: Annotated[tuple[AddPartitionsToTxnTopicResult, ...], since(4)] = ()


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxnResponse(Response):
    """The results for one transaction up to version 3, for several from version 4 on."""

    api: ClassVar[Api] = ADD_PARTITIONS_TO_TXN

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4), IGNORABLE] = 0
    results_by_transaction: Annotated[tuple[AddPartitionsToTxnResult, ...], since(4)] = ()
    results_by_topic_v3_and_below: Annotated[
        tuple[AddPartitionsToTxnTopicResult, ...], until(3)
    ] = ()


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name: str = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxnTransaction(Struct):
    """The partitions to add to one transaction.

    `verify_only` asks whether they are part of it already, and takes none in.
    """

    transactional_id: Annotated[str, since(4)] = ""
    producer_id: Annotated[Int64, since(4)] = 0
    producer_epoch: Annotated[Int16, since(4)] = 0
    verify_only: Annotated[bool, since(4)] = False
    topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], since(4)] = ()


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse]):
    """Add partitions to a transaction, before records are written to them.

    A producer sends the fields of version 3; a broker asks for several transactions at once from version
    4 on (KIP-890).
    """

    api: ClassVar[Api] = ADD_PARTITIONS_TO_TXN
    response_class: ClassVar[type[Response]] = AddPartitionsToTxnResponse

    transactions: Annotated[tuple[AddPartitionsToTxnTransaction, ...], since(4)] = ()
    v3_and_below_transactional_id: Annotated[str, until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, until(3)] = 0
    v3_and_below_topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], until(3)] = ()


ADD_OFFSETS_TO_TXN = Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, first_flexible=3)


@dataclass(frozen=True, slots=True)
class AddOffsetsToTxnResponse(Response):
    """The result of adding the group's offsets to the transaction."""

    api: ClassVar[Api] = ADD_OFFSETS_TO_TXN

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse]):
    """Add the partition that stores a group's offsets to a transaction."""

    api: ClassVar[Api] = ADD_OFFSETS_TO_TXN
    response_class: ClassVar[type[Response]] = AddOffsetsToTxnResponse

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""


TXN_OFFSET_COMMIT = Api(ApiKey.TXN_OFFSET_COMMIT, 0, 6, first_flexible=3, last_by_name=5)


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitResponsePartition(Struct):
    """The result of committing the offset of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitResponseTopic(Struct):
    """The results for one topic: by name up to version 5, by id from version 6 on."""

    name: Annotated[str, until(5), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(6), IGNORABLE] = NO_UUID
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitResponse(Response):
    """The results; an error of the group is repeated for every partition."""

    api: ClassVar[Api] = TXN_OFFSET_COMMIT

    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitRequestPartition(Struct):
    """The offset of one partition."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(2), IGNORABLE] = -1
    committed_metadata: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitRequestTopic(Struct):
    """The offsets of one topic: by name up to version 5, by id from version 6 on."""

    name: Annotated[str, until(5), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(6), IGNORABLE] = NO_UUID
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse]):
    """Commit offsets that take effect when the transaction commits.

    The member's identity lets a group refuse one that it no longer has (KIP-447).
    """

    api: ClassVar[Api] = TXN_OFFSET_COMMIT
    response_class: ClassVar[type[Response]] = TxnOffsetCommitResponse

    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Annotated[Int32, since(3)] = -1
    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3), nullable(3)] = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


END_TXN = Api(ApiKey.END_TXN, 0, 5, first_flexible=3)


@dataclass(frozen=True, slots=True)
class EndTxnResponse(Response):
    """The result; from version 5 on with the producer's next epoch (KIP-890)."""

    api: ClassVar[Api] = END_TXN

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, since(5), IGNORABLE] = -1
    producer_epoch: Annotated[Int16, since(5), IGNORABLE] = -1


@dataclass(frozen=True, slots=True)
class EndTxnRequest(Request[EndTxnResponse]):
    """Commit a transaction, or abort it if `committed` is false."""

    api: ClassVar[Api] = END_TXN
    response_class: ClassVar[type[Response]] = EndTxnResponse

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: bool = False


WRITE_TXN_MARKERS = Api(ApiKey.WRITE_TXN_MARKERS, 1, 2, first_flexible=1)


@dataclass(frozen=True, slots=True)
class WritableTxnMarkerPartitionResult(Struct):
    """The result of writing the marker to one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class WritableTxnMarkerTopicResult(Struct):
    """The results for one topic."""

    name: str = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class WritableTxnMarkerResult(Struct):
    """The results for one producer."""

    producer_id: Int64 = 0
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteTxnMarkersResponse(Response):
    """The results, producer by producer."""

    api: ClassVar[Api] = WRITE_TXN_MARKERS

    markers: tuple[WritableTxnMarkerResult, ...] = ()


@dataclass(frozen=True, slots=True)
class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class WritableTxnMarker(Struct):
    """The marker of one producer; `transaction_result` is true for a commit.

    `transaction_version` is 2 if the producer epoch was bumped for this marker (KIP-890), otherwise 0 or 1.
    """

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: bool = False
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, since(2), IGNORABLE] = 0


@dataclass(frozen=True, slots=True)
class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse]):
    """Write the markers that end transactions; sent by transaction coordinators only."""

    api: ClassVar[Api] = WRITE_TXN_MARKERS
    response_class: ClassVar[type[Response]] = WriteTxnMarkersResponse

    markers: tuple[WritableTxnMarker, ...] = ()


DESCRIBE_TRANSACTIONS = Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class TopicData(Struct):
    """The partitions of one topic that are part of a transaction."""

    topic: str = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionState(Struct):
    """One transactional id; `transaction_start_time_ms` is -1 if no transaction is open."""

    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: tuple[TopicData, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeTransactionsResponse(Response):
    """The described transactions."""

    api: ClassVar[Api] = DESCRIBE_TRANSACTIONS

    throttle_time_ms: Int32 = 0
    transaction_states: tuple[TransactionState, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    """Describe transactions by their transactional ids."""

    api: ClassVar[Api] = DESCRIBE_TRANSACTIONS
    response_class: ClassVar[type[Response]] = DescribeTransactionsResponse

    transactional_ids: tuple[str, ...] = ()


LIST_TRANSACTIONS = Api(ApiKey.LIST_TRANSACTIONS, 0, 2, first_flexible=0)


@dataclass(frozen=True, slots=True)
class TransactionListing(Struct):
    """One transactional id, with its producer and state."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


@dataclass(frozen=True, slots=True)
class ListTransactionsResponse(Response):
    """The transactions, and the filter's states that the broker does not know."""

    api: ClassVar[Api] = LIST_TRANSACTIONS

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionListing, ...] = ()


@dataclass(frozen=True, slots=True)
class ListTransactionsRequest(Request[ListTransactionsResponse]):
    """List transactions; an empty filter matches all.

    `duration_filter` is in ms: only those that are open for longer, -1 for all (KIP-994). The pattern is a
    regular expression (KIP-1152).
    """

    api: ClassVar[Api] = LIST_TRANSACTIONS
    response_class: ClassVar[type[Response]] = ListTransactionsResponse

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[Int64, ...] = ()
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[str | None, since(2), nullable(2)] = None


DESCRIBE_PRODUCERS = Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class ProducerState(Struct):
    """One producer; -1 for values that it does not have.

    The epoch has 32 bits here, unlike everywhere else.
    `last_sequence` is -1 if there is none. `last_timestamp` is in milliseconds since 1970. `current_txn_start_offset` is the
    offset at which the open transaction begins, -1 for none.
    """

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@dataclass(frozen=True, slots=True)
class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = None
    active_producers: tuple[ProducerState, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicResponse(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: tuple[PartitionResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeProducersResponse(Response):
    """The active producers of partitions."""

    api: ClassVar[Api] = DESCRIBE_PRODUCERS

    throttle_time_ms: Int32 = 0
    topics: tuple[TopicResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicRequest(Struct):
    """Partitions of one topic."""

    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeProducersRequest(Request[DescribeProducersResponse]):
    """List the producers of partitions."""

    api: ClassVar[Api] = DESCRIBE_PRODUCERS
    response_class: ClassVar[type[Response]] = DescribeProducersResponse

    topics: tuple[TopicRequest, ...] = ()
