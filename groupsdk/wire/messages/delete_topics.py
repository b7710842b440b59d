"""The DeleteTopics API: delete topics."""

from typing import Annotated, ClassVar
from uuid import UUID

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    NO_UUID,
    Api,
    ApiKey,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
    since,
    until,
)


API = Api(ApiKey.DELETE_TOPICS, 1, 6, first_flexible=4)


@dataclass(frozen=True, slots=True)
class DeletableTopicResult(Struct):
    """The result for one topic; `name` is None for an unknown id."""

    name: Annotated[str | None, nullable(6)] = ""
    topic_id: Annotated[UUID, since(6), IGNORABLE] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, since(5), nullable(5), IGNORABLE] = None


@dataclass(frozen=True, slots=True)
class DeleteTopicsResponse(Response):
    """The results, topic by topic."""

    api: ClassVar[Api] = API

    throttle_time_ms: Annotated[Int32, IGNORABLE] = 0
    responses: tuple[DeletableTopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteTopicState(Struct):
    """One topic to delete, by name or by id."""

    name: Annotated[str | None, since(6), nullable(6)] = None
    topic_id: Annotated[UUID, since(6)] = NO_UUID


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    """Delete topics: `topic_names` up to version 5, `topics` from version 6 on (KIP-516)."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DeleteTopicsResponse

    topics: Annotated[tuple[DeleteTopicState, ...], since(6)] = ()
    topic_names: Annotated[tuple[str, ...], until(5), IGNORABLE] = ()
    timeout_ms: Int32 = 0
