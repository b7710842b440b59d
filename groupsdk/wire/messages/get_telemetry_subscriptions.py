"""Declare GetTelemetrySubscriptions: ask which metrics the broker wants (KIP-714)."""

from dataclasses import dataclass
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


API = Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class GetTelemetrySubscriptionsResponse(Response):
    """Tell a client its id, which metrics to push and how often."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: UUID = NO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: tuple[Int8, ...] = ()
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: bool = False
    requested_metrics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GetTelemetrySubscriptionsRequest(Request[GetTelemetrySubscriptionsResponse]):
    """Ask what to push; the zero UUID asks for an id, too."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = GetTelemetrySubscriptionsResponse

    client_instance_id: UUID = NO_UUID
