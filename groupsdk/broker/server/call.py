"""A request in flight: decoding, handling and encoding it, authorization, and calls to coordinators."""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from importlib import import_module
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, cast

from groupsdk.broker.server.apis import APIS
from groupsdk.error_code import ErrorCode


if TYPE_CHECKING:
    from groupsdk.broker.catalogue import Topic
    from groupsdk.broker.runtime.coordinator_runtime import CoordinatorRuntime
    from groupsdk.broker.server.connection import Connection
    from groupsdk.broker.server.node import Node
    from groupsdk.wire.compiler import CodecSteps
    from groupsdk.wire.schema import Request, Response


Steps = Generator[None, None, "Response | None"]
"""Work on a request in steps of some milliseconds, between which others have their turn; returns the answer."""
_PAUSE_AFTER: Final = 512
"""How many elements of a request are worked on at once: some milliseconds' work."""
CHANGE_COSTS: Final = 64
"""Storing a change in the catalogue, or in a directory, costs as much as so many simple elements."""
Handler = Callable[["Call", Any], "Response | Steps | None"]
"""Answers a request: by its result, in steps, or with None by `Call.answer` later (or `answer_nothing`)."""


class Pace:
    """Decides after which elements of a request its handler pauses, so that other requests can run."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def due(self, weight: int = 1) -> bool:
        """Count an element. Return whether to pause before it.

        Args:
            weight: how many simple elements it costs as much as.
        """
        self._done += weight
        if self._done <= _PAUSE_AFTER:
            return False
        self._done = weight
        return True


def at_once(answer: "Response | Steps | None") -> "Response | None":
    """Run all steps of a handler without pauses and return the response, for callers without a loop."""
    if not isinstance(answer, GeneratorType):
        return cast("Response | None", answer)
    while True:
        try:
            next(answer)
        except StopIteration as done:
            return cast("Response | None", done.value)


class Route:
    """How one version of an API is decoded, handled and encoded; created on first use."""

    __slots__ = (
        "_decode_in_steps",
        "_encode_in_steps",
        "_message",
        "api_key",
        "decode",
        "encode",
        "flexible",
        "flexible_answer",
        "handle",
        "version",
    )

    def __init__(self, api_key: int, version: int) -> None:
        # a broker is ready before messages are loaded: that takes as long as all the rest of it
        from groupsdk.wire.api import request_class
        from groupsdk.wire.compiler import encoder, lenient_decoder
        from groupsdk.wire.schema import ApiKey

        message: type[Request[Any]] = request_class(api_key)
        served = APIS[api_key]
        self.api_key = api_key
        self.version = version
        self.decode = lenient_decoder(message, version)
        self.encode = encoder(message.response_class, version)
        self.flexible = message.api.is_flexible(version)
        self.flexible_answer = self.flexible and api_key != ApiKey.API_VERSIONS
        module = import_module(f"groupsdk.broker.server.handlers.{served.module}")
        self.handle: Handler = getattr(module, served.function)
        self._message = message
        self._decode_in_steps: Any = None
        self._encode_in_steps: Any = None

    def decode_in_steps(self, payload: bytes, start: int) -> "CodecSteps[Any]":
        """Decode a very large request in steps, so that other requests can run."""
        if self._decode_in_steps is None:
            from groupsdk.wire.compiler import lenient_decoder_in_steps

            self._decode_in_steps = lenient_decoder_in_steps(self._message, self.version)
        steps: CodecSteps[Any] = self._decode_in_steps(payload, start)
        return steps

    def encode_in_steps(self, response: "Response") -> "CodecSteps[bytes]":
        """Encode the response to a very large request in steps."""
        if self._encode_in_steps is None:
            from groupsdk.wire.compiler import encoder_in_steps

            self._encode_in_steps = encoder_in_steps(self._message.response_class, self.version)
        steps: CodecSteps[bytes] = self._encode_in_steps(response)
        return steps


_routes: dict[tuple[int, int], Route] = {}


def route(api_key: int, version: int) -> Route | None:
    """Return the route for a version of an API; None if it is not served."""
    found = _routes.get((api_key, version))
    if found is None:
        served = APIS.get(api_key)
        if served is None or not served.min_version <= version <= served.max_version:
            return None
        found = _routes[api_key, version] = Route(api_key, version)
    return found


class Call:
    """One request in flight; answered exactly once, by `answer`, or never, by `answer_nothing`.

    It outlives its connection harmlessly: an answer to a connection that is gone is dropped.
    """

    __slots__ = (
        "client_id",
        "connection",
        "correlation_id",
        "done",
        "large",
        "request_bytes",
        "route",
    )

    def __init__(
        self,
        connection: "Connection",
        route: Route,
        correlation_id: int,
        client_id: str,
        request_bytes: int,
    ) -> None:
        self.connection = connection
        self.route = route
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request_bytes = request_bytes
        self.done = False
        self.large = False
        """Whether the answer to a small request is large, and is to be encoded in steps."""

    @property
    def node(self) -> "Node":
        """The node that received the request."""
        return self.connection.node

    @property
    def version(self) -> int:
        """The API version of the request."""
        return self.route.version

    @property
    def principal(self) -> str:
        """The principal of the client, as `User:name`."""
        return self.connection.principal

    @property
    def client_host(self) -> str:
        """The client's address, as Java prints it."""
        return self.connection.client_host

    def answer(self, response: "Response") -> None:
        """Send the response; a second one is dropped."""
        if not self.done:
            self.done = True
            self.connection.answered(self, response)

    def go_on_with(self, request: Any, steps: Steps) -> None:
        """Run the remaining steps of a request and answer it; if a step fails, answer with an error."""
        self.connection.go_on_with(self, request, steps)

    def answer_nothing(self) -> None:
        """Finish without a response (Produce with acks=0)."""
        if not self.done:
            self.done = True
            self.connection.go_on()

    def silence(self) -> None:
        """Suppress the response: the request counts as never answered."""
        self.done = True

    @property
    def lost(self) -> bool:
        """Return whether the caller no longer waits."""
        return self.connection.closed


def allowed(call: Call, operation: str, resource: str, name: str) -> bool:
    """Return whether the client is allowed an operation on a resource.

    Args:
        call: the request; its connection knows who asks.
        operation: "read", "write", "create", "delete", "alter", "describe", "cluster_action",
            "describe_configs", "alter_configs" or "idempotent_write".
        resource: "topic", "group", "cluster" or "transactional_id".
        name: of the resource; "kafka-cluster" for the cluster.
    """
    authorizer = call.node.cluster.authorizer
    if authorizer is None:
        return True
    return authorizer.allows(call.principal, call.connection.peer, operation, resource, name)


def cluster_allowed(call: Call, operation: str) -> bool:
    """Return whether the client is allowed an operation on the cluster."""
    return allowed(call, operation, "cluster", "kafka-cluster")


def operations(call: Call, resource: str, name: str, *, asked: bool) -> int:
    """Return the operations allowed to the client, as a bit set; NOT_ASKED if the request did not ask for them."""
    if not asked:
        from groupsdk.wire.messages.metadata import NOT_ASKED

        return NOT_ASKED
    from groupsdk.broker.authorizer import OPERATIONS_OF, operation_bit

    return sum(
        operation_bit(operation)
        for operation in OPERATIONS_OF[resource]
        if allowed(call, operation, resource, name)
    )


MAX_FILTERS: Final = 1_000
"""How many states and types a client may ask for: every coordinator looks at them all."""


def ask(
    call: Call,
    runtime: "CoordinatorRuntime | ErrorCode",
    request: "Request[Any]",
    answer: "Callable[[Response], None]",
) -> None:
    """Send a request to its coordinator and answer the call with the response, or with an error if there is none.

    Args:
        call: says who asks, and in which version.
        runtime: the coordinator, or the error.
        request: the client's, or a part of it.
        answer: takes the answer; `call.answer` where it is the client's.
    """
    if not isinstance(runtime, ErrorCode):
        connection = call.connection
        runtime.submit(
            request,
            answer,
            call.route.version,
            call.client_id,
            connection.client_host,
            connection.principal,
        )
        return
    from groupsdk.broker.server.error_responses import refuse

    response = refuse(request, runtime, call.route.version)
    assert response is not None, "every request of a coordinator has a place for an error"
    answer(response)


def gather(
    call: Call,
    parts: "Sequence[tuple[CoordinatorRuntime | ErrorCode, Request[Any]]]",
    combine: "Callable[[list[Any]], Response]",
) -> "Response | None":
    """Send all partial requests, and answer the call with their combined responses, in order.

    Returns:
        None, or the answer where there is nothing to ask.
    """
    if not parts:
        return combine([])
    answers: list[Response | None] = [None] * len(parts)
    missing = len(parts)

    def take(index: int, response: "Response") -> None:
        nonlocal missing
        answers[index] = response
        missing -= 1
        if missing == 0:
            call.answer(combine(answers))

    for index, (runtime, request) in enumerate(parts):
        ask(call, runtime, request, partial(take, index))
    return None


class LeaderHints:
    """Collects the leaders named in one response."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._named: set[int] = set()

    def leader(self, topic: "Topic", partition: int) -> tuple[int, int]:
        """Return the leader of a partition and its epoch, and remember the leader."""
        state = topic.partitions[partition]
        self._named.add(state.leader)
        return state.leader, state.leader_epoch

    def endpoints(self) -> list[tuple[int, str, int, str | None]]:
        """Return (node id, host, port, rack) of the named leaders that are running."""
        if not self._named:
            return []
        listener = self._call.connection.listener_name
        cluster = self._call.node.cluster
        rack = cluster.config.broker_rack or None
        return [
            (node.node_id, *node.endpoint(listener), rack)
            for node in cluster.running_nodes
            if node.node_id in self._named
        ]
