"""The AddPartitionsToTxn API: add partitions to a transaction."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    Api,
    ApiKey,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    since,
    until,
)


API = Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, first_flexible=3)


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

    api: ClassVar[Api] = API

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

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = AddPartitionsToTxnResponse

    transactions: Annotated[tuple[AddPartitionsToTxnTransaction, ...], since(4)] = ()
    v3_and_below_transactional_id: Annotated[str, until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, until(3)] = 0
    v3_and_below_topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], until(3)] = ()
