"""Messages that read configurations: DescribeConfigs, ListConfigResources."""

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
    nullable,
    since,
)


DESCRIBE_CONFIGS = Api(ApiKey.DESCRIBE_CONFIGS, 1, 4, first_flexible=4)


@dataclass(frozen=True, slots=True)
class DescribeConfigsSynonym(Struct):
    """One source of a value; the first of the list is in effect."""

    name: str = ""
    value: Annotated[str | None, nullable()] = ""
    source: Int8 = 0


@dataclass(frozen=True, slots=True)
class DescribeConfigsResourceResult(Struct):
    """One configuration value; `value` is None if it is sensitive.

    `config_source` and `DescribeConfigsSynonym.source`: 1 the topic, 2 dynamic for a broker, 3 dynamic for all brokers,
    4 the properties file, 5 the default, 6 dynamic for a logger, 7 client metrics, 8 the group (Java's
    `DescribeConfigsResponse.ConfigSource`). `config_type`: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class,
    9 password. `read_only` values cannot be altered at run time. `synonyms` and `documentation` are there if requested.
    """

    name: str = ""
    value: Annotated[str | None, nullable()] = ""
    read_only: bool = False
    config_source: Annotated[Int8, IGNORABLE] = -1
    is_sensitive: bool = False
    synonyms: Annotated[tuple[DescribeConfigsSynonym, ...], IGNORABLE] = ()
    config_type: Annotated[Int8, since(3), IGNORABLE] = 0
    documentation: Annotated[str | None, since(3), nullable(3), IGNORABLE] = ""


@dataclass(frozen=True, slots=True)
class DescribeConfigsResult(Struct):
    """The values of one resource."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeConfigsResponse(Response):
    """The configurations, resource by resource."""

    api: ClassVar[Api] = DESCRIBE_CONFIGS

    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeConfigsResource(Struct):
    """One resource, with the keys to read; `configuration_keys` None for all."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: Annotated[tuple[str, ...] | None, nullable()] = ()


@dataclass(frozen=True, slots=True)
class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    """Read the configurations of topics, brokers and groups."""

    api: ClassVar[Api] = DESCRIBE_CONFIGS
    response_class: ClassVar[type[Response]] = DescribeConfigsResponse

    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: bool = False
    include_documentation: Annotated[bool, since(3)] = False


LIST_CONFIG_RESOURCES = Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, first_flexible=0)


@dataclass(frozen=True, slots=True)
class ConfigResource(Struct):
    """One resource; only client metrics (16) in version 0."""

    resource_name: str = ""
    resource_type: Annotated[Int8, since(1), IGNORABLE] = 16


@dataclass(frozen=True, slots=True)
class ListConfigResourcesResponse(Response):
    """The resources that have a configuration."""

    api: ClassVar[Api] = LIST_CONFIG_RESOURCES

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: tuple[ConfigResource, ...] = ()


@dataclass(frozen=True, slots=True)
class ListConfigResourcesRequest(Request[ListConfigResourcesResponse]):
    """List resources of some types; () for all types."""

    api: ClassVar[Api] = LIST_CONFIG_RESOURCES
    response_class: ClassVar[type[Response]] = ListConfigResourcesResponse

    resource_types: Annotated[tuple[Int8, ...], since(1)] = ()
