"""Messages that list transactions and producers (KIP-664)."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    nullable,
    since,
)


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
