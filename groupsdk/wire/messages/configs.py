"""Messages that read and change configurations."""

from dataclasses import field
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


ALTER_CONFIGS = Api(ApiKey.ALTER_CONFIGS, 0, 2, first_flexible=2)


@dataclass(frozen=True, slots=True)
class AlterConfigsResourceResponse(Struct):
    """The result for one resource."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    resource_type: Int8 = 0
    resource_name: str = ""


@dataclass(frozen=True, slots=True)
class AlterConfigsResponse(Response):
    """The results of the change, resource by resource."""

    api: ClassVar[Api] = ALTER_CONFIGS

    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterableConfig(Struct):
    """One value to set; kept out of the repr, as it may be a secret."""

    name: str = ""
    value: Annotated[str | None, nullable()] = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class AlterConfigsResource(Struct):
    """All values of one resource: other keys are reset to their default."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest(Request[AlterConfigsResponse]):
    """Replace whole configurations, or with `validate_only` only check them."""

    api: ClassVar[Api] = ALTER_CONFIGS
    response_class: ClassVar[type[Response]] = AlterConfigsResponse

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False


INCREMENTAL_ALTER_CONFIGS = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, first_flexible=1)


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigsResponse(Response):
    """The results of the change, resource by resource."""

    api: ClassVar[Api] = INCREMENTAL_ALTER_CONFIGS

    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class IncrementalAlterableConfig(Struct):
    """One change of a value, which is kept out of the repr, as it may be a secret.

    `config_operation` is 0 to set, 1 to delete, 2 to append to a list and 3 to take out of one.
    """

    name: str = ""
    config_operation: Int8 = 0
    value: Annotated[str | None, nullable()] = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigsResource(Struct):
    """The changes of one resource; keys that are not named stay as they are."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[IncrementalAlterableConfig, ...] = ()


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    """Change configurations, or with `validate_only` only check the changes."""

    api: ClassVar[Api] = INCREMENTAL_ALTER_CONFIGS
    response_class: ClassVar[type[Response]] = IncrementalAlterConfigsResponse

    resources: tuple[IncrementalAlterConfigsResource, ...] = ()
    validate_only: bool = False
