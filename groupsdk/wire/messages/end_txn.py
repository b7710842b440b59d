"""The EndTxn API: commit or abort a transaction."""

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
    since,
)


API = Api(ApiKey.END_TXN, 0, 5, first_flexible=3)


@dataclass(frozen=True, slots=True)
class EndTxnResponse(Response):
    """The result; from version 5 on with the producer's next epoch (KIP-890)."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, since(5), IGNORABLE] = -1
    producer_epoch: Annotated[Int16, since(5), IGNORABLE] = -1


@dataclass(frozen=True, slots=True)
class EndTxnRequest(Request[EndTxnResponse]):
    """Commit a transaction, or abort it if `committed` is false."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = EndTxnResponse

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: bool = False
