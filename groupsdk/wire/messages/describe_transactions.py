"""The DescribeTransactions API: describe transactions (KIP-664)."""

from typing import ClassVar

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
)


API = Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, first_flexible=0)


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

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    transaction_states: tuple[TransactionState, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    """Describe transactions by their transactional ids."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DescribeTransactionsResponse

    transactional_ids: tuple[str, ...] = ()
