"""The FindCoordinator API: find the coordinator of a group or transactional id."""

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
    between,
    nullable,
    since,
    until,
)


API = Api(ApiKey.FIND_COORDINATOR, 0, 6, first_flexible=3)


@dataclass(frozen=True, slots=True)
class Coordinator(Struct):
    """The coordinator of one key, or the error."""

    key: Annotated[str, since(4)] = ""
    node_id: Annotated[Int32, since(4)] = 0
    host: Annotated[str, since(4)] = ""
    port: Annotated[Int32, since(4)] = 0
    error_code: Annotated[Int16, since(4)] = 0
    error_message: Annotated[str | None, since(4), nullable(4), IGNORABLE] = ""


@dataclass(frozen=True, slots=True)
class FindCoordinatorResponse(Response):
    """The coordinators: a single one up to version 3, a list from version 4 on."""

    api: ClassVar[Api] = API

    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Annotated[Int16, until(3)] = 0
    error_message: Annotated[str | None, between(1, 3), nullable(1), IGNORABLE] = ""
    node_id: Annotated[Int32, until(3)] = 0
    host: Annotated[str, until(3)] = ""
    port: Annotated[Int32, until(3)] = 0
    coordinators: Annotated[tuple[Coordinator, ...], since(4)] = ()


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    """Find the coordinator of a group, transactional id or share group.

    `key` up to version 3, `coordinator_keys` from version 4 on (KIP-699).
    `key_type` is 0 for a group, 1 for a transactional id, 2 for a partition of a share group ("group:topic id:partition").
    """

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = FindCoordinatorResponse

    key: Annotated[str, until(3)] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[tuple[str, ...], since(4)] = ()
