"""The AlterClientQuotas API: set the quotas of users, clients and addresses (KIP-546)."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Float64,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
)


API = Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, first_flexible=1)


@dataclass(frozen=True, slots=True)
class EntityData(Struct):
    """One part of an entity: type and name; None is the default entity."""

    entity_type: str = ""
    entity_name: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class EntryResponse(Struct):
    """The result for one entity."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    entity: tuple[EntityData, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterClientQuotasResponse(Response):
    """The results, entity by entity."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    entries: tuple[EntryResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class OpData(Struct):
    """One quota to set or remove.

    `key` is such as "producer_byte_rate" (bytes per second), "consumer_byte_rate", "request_percentage" or
    "controller_mutation_rate". `value` is ignored with `remove`.
    """

    key: str = ""
    value: Float64 = 0.0
    remove: bool = False


@dataclass(frozen=True, slots=True)
class EntryRequest(Struct):
    """The changes of one entity's quotas."""

    entity: tuple[EntityData, ...] = ()
    ops: tuple[OpData, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterClientQuotasRequest(Request[AlterClientQuotasResponse]):
    """Change quotas, or with `validate_only` only check the changes."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = AlterClientQuotasResponse

    entries: tuple[EntryRequest, ...] = ()
    validate_only: bool = False
