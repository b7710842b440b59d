"""The AlterReplicaLogDirs API: move replicas between the data directories of a broker (KIP-113)."""

from typing import ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
)


API = Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, first_flexible=2)


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirPartitionResult(Struct):
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirTopicResult(Struct):
    """The results for one topic."""

    topic_name: str = ""
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirsResponse(Response):
    """The results, partition by partition."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirTopic(Struct):
    """Partitions of one topic."""

    name: str = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDir(Struct):
    """The replicas to move to one directory."""

    path: str = ""
    topics: tuple[AlterReplicaLogDirTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirsRequest(Request[AlterReplicaLogDirsResponse]):
    """Move replicas to other directories."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = AlterReplicaLogDirsResponse

    dirs: tuple[AlterReplicaLogDir, ...] = ()
