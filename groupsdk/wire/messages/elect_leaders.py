"""The ElectLeaders API: elect preferred or unclean leaders of partitions (KIP-183, KIP-460)."""

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


PREFERRED, UNCLEAN = 0, 1
"""Which election: the preferred replica is to lead, or any live one where none that is in sync is left."""

API = Api(ApiKey.ELECT_LEADERS, 0, 2, first_flexible=2)


@dataclass(frozen=True, slots=True)
class PartitionResult(Struct):
    """The result of the election of one partition."""

    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class ReplicaElectionResult(Struct):
    """The partitions of a topic."""

    topic: str = ""
    partition_result: tuple[PartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ElectLeadersResponse(Response):
    """The results; elections of all partitions leave out those that needed none."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(1)] = 0
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class ElectLeadersRequest(Request[ElectLeadersResponse]):
    """Elect the leaders of `topic_partitions`, None for all partitions; `election_type` is `PREFERRED` or `UNCLEAN`."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = ElectLeadersResponse

    election_type: Annotated[Int8, since(1)] = 0
    topic_partitions: Annotated[tuple[TopicPartitions, ...] | None, nullable()] = ()
    timeout_ms: Int32 = 60_000
