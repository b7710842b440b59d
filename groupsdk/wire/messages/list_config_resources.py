"""The ListConfigResources API: list the resources that have a configuration (KIP-1142)."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    Api,
    ApiKey,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    since,
)


API = Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, first_flexible=0)


@dataclass(frozen=True, slots=True)
class ConfigResource(Struct):
    """One resource; only client metrics (16) in version 0."""

    resource_name: str = ""
    resource_type: Annotated[Int8, since(1), IGNORABLE] = 16


@dataclass(frozen=True, slots=True)
class ListConfigResourcesResponse(Response):
    """The resources that have a configuration."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: tuple[ConfigResource, ...] = ()


@dataclass(frozen=True, slots=True)
class ListConfigResourcesRequest(Request[ListConfigResourcesResponse]):
    """List resources of some types; () for all types."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = ListConfigResourcesResponse

    resource_types: Annotated[tuple[Int8, ...], since(1)] = ()
