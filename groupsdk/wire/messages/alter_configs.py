"""Messages that change configurations: AlterConfigs, IncrementalAlterConfigs."""

from dataclasses import field
from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
)


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
