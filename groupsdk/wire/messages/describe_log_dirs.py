"""The DescribeLogDirs API: list the replicas in the data directories."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    Api,
    ApiKey,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    nullable,
    since,
)


API = Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, first_flexible=2)


@dataclass(frozen=True, slots=True)
class DescribeLogDirsPartition(Struct):
    """The size of one replica and how far it lags behind.

    `partition_size` is in bytes. `offset_lag` is how many records a replica that is being moved is behind; `is_future_key`
    marks the copy in the directory that the replica is moving to.
    """

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


@dataclass(frozen=True, slots=True)
class DescribeLogDirsTopic(Struct):
    """The replicas of one topic."""

    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeLogDirsResult(Struct):
    """One data directory; -1 for sizes that are not known.

    `total_bytes` and `usable_bytes` are those of the volume, -1 if unknown (KIP-827). `is_cordoned`: the directory gets no
    new replicas (KIP-1066).
    """

    error_code: Int16 = 0
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: Annotated[Int64, since(4), IGNORABLE] = -1
    usable_bytes: Annotated[Int64, since(4), IGNORABLE] = -1
    is_cordoned: Annotated[bool, since(5), IGNORABLE] = False


@dataclass(frozen=True, slots=True)
class DescribeLogDirsResponse(Response):
    """The data directories of the broker."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(3), IGNORABLE] = 0
    results: tuple[DescribeLogDirsResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribableLogDirTopic(Struct):
    """Partitions of one topic."""

    topic: str = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    """List the replicas of some topics in the data directories; `topics` None for all."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DescribeLogDirsResponse

    topics: Annotated[tuple[DescribableLogDirTopic, ...] | None, nullable()] = ()
