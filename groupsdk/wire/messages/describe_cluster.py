"""The DescribeCluster API: list the brokers."""

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
    since,
)


NOT_ASKED = -0x80000000
"""What stands for authorized operations that were not asked for."""

API = Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, first_flexible=0)


@dataclass(frozen=True, slots=True)
class DescribeClusterBroker(Struct):
    """The address of a broker."""

    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, nullable()] = None
    is_fenced: Annotated[bool, since(2)] = False


@dataclass(frozen=True, slots=True)
class DescribeClusterResponse(Response):
    """The cluster's id, controller and brokers.

    `endpoint_type` is 1 for brokers, 2 for controllers (KIP-919).
    """

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = None
    endpoint_type: Annotated[Int8, since(1)] = 1
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = NOT_ASKED


@dataclass(frozen=True, slots=True)
class DescribeClusterRequest(Request[DescribeClusterResponse]):
    """List the brokers or, with `endpoint_type` 2, the controllers (KIP-919)."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DescribeClusterResponse

    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[Int8, since(1)] = 1
    include_fenced_brokers: Annotated[bool, since(2)] = False
