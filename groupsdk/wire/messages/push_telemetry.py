"""Declare PushTelemetry: send metrics of a client (KIP-714)."""

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from groupsdk.wire.schema import (
    NO_UUID,
    Api,
    ApiKey,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
)


API = Api(ApiKey.PUSH_TELEMETRY, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class PushTelemetryResponse(Response):
    """Answer a push."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class PushTelemetryRequest(Request[PushTelemetryResponse]):
    """Push metrics, compressed and in the format of OpenTelemetry.

    `terminating` marks the last push of a client that closes.
    """

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = PushTelemetryResponse

    client_instance_id: UUID = NO_UUID
    subscription_id: Int32 = 0
    terminating: bool = False
    compression_type: Int8 = 0
    metrics: bytes = field(default=b"", repr=False)
