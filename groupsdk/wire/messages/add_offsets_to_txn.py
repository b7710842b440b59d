"""The AddOffsetsToTxn API: add the offsets of a group to a transaction."""

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
)


API = Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, first_flexible=3)


@dataclass(frozen=True, slots=True)
class AddOffsetsToTxnResponse(Response):
    """The result of adding the group's offsets to the transaction."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse]):
    """Add the partition that stores a group's offsets to a transaction."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = AddOffsetsToTxnResponse

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""
