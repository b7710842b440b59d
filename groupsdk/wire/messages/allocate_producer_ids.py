"""Declare AllocateProducerIds: reserve a block of producer ids (KIP-730)."""

from dataclasses import dataclass
from typing import ClassVar

from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
)


API = Api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsResponse(Response):
    """Hand out the block that starts at `producer_id_start`."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsRequest(Request[AllocateProducerIdsResponse]):
    """Reserve producer ids; sent by brokers only."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = AllocateProducerIdsResponse

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
