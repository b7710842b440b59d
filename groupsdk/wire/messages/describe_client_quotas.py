"""The DescribeClientQuotas API: list the quotas of users, clients and addresses (KIP-546)."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Float64,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
)


EXACT, DEFAULT, ANY = 0, 1, 2
"""How a filter's component matches: one name, the default entity, any name."""

API = Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, first_flexible=1)


@dataclass(frozen=True, slots=True)
class EntityData(Struct):
    """One part of an entity: type and name; None is the default entity."""

    entity_type: str = ""
    entity_name: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class ValueData(Struct):
    """One quota of an entity.

    `key` is such as "producer_byte_rate" and "consumer_byte_rate" (bytes per second), "request_percentage" (of one
    thread), "controller_mutation_rate" and "connection_creation_rate" (per second).
    """

    key: str = ""
    value: Float64 = 0.0


@dataclass(frozen=True, slots=True)
class EntryData(Struct):
    """The quotas of one entity."""

    entity: tuple[EntityData, ...] = ()
    values: tuple[ValueData, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeClientQuotasResponse(Response):
    """The quotas by entity; None if there is an error."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    entries: Annotated[tuple[EntryData, ...] | None, nullable()] = ()


@dataclass(frozen=True, slots=True)
class ComponentData(Struct):
    """A filter on the names of one entity type; `match_type` is `EXACT`, `DEFAULT` or `ANY`, and only `EXACT` has a `match`."""

    entity_type: str = ""
    match_type: Int8 = 0
    match: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse]):
    """List the quotas of entities that match all components and, with `strict`, have no other types."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DescribeClientQuotasResponse

    components: tuple[ComponentData, ...] = ()
    strict: bool = False
