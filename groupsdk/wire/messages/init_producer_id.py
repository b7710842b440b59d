"""The InitProducerId API: get a producer id, and fence earlier producers."""

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
    nullable,
    since,
)


API = Api(ApiKey.INIT_PRODUCER_ID, 0, 5, first_flexible=2)


@dataclass(frozen=True, slots=True)
class InitProducerIdResponse(Response):
    """The producer id and epoch."""

    api: ClassVar[Api] = API

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

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = InitProducerIdResponse

    transactional_id: Annotated[str | None, nullable()] = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1
