"""The UnregisterBroker API: remove a broker that is gone from the cluster (KIP-631)."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Int16,
    Int32,
    Request,
    Response,
    nullable,
)


API = Api(ApiKey.UNREGISTER_BROKER, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class UnregisterBrokerResponse(Response):
    """Whether the broker was removed."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRequest(Request[UnregisterBrokerResponse]):
    """Remove a broker by its id."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = UnregisterBrokerResponse

    broker_id: Int32 = 0
