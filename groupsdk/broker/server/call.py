"""A request in flight: decoding, handling and encoding it, authorization, and calls to coordinators."""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from groupsdk.broker.server.apis import APIS, LOADED_WITH
from groupsdk.error_code import ErrorCode


if TYPE_CHECKING:
    from groupsdk.broker.catalogue import Topic
    from groupsdk.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
    from groupsdk.broker.server.contract import Responder, ServingNode
    from groupsdk.broker.server.pace import Steps
    from groupsdk.wire.compiler import CodecSteps
    from groupsdk.wire.schema import Request, Response


Handler = Callable[["Call", Any], "Response | Steps | None"]
"""Handles a request: returns the response, the steps to it, or None and calls `Call.answer` or
`Call.answer_nothing` later.
"""


MayWait = Callable[["ServingNode", Any], bool]
_NONE: Final[Mapping[int, MayWait]] = {}
_KIND: Final = struct.Struct(">hh").pack


class Route:
    """How one version of an API is decoded, handled and encoded; `route` caches one for each.

    Attributes:
        decode: decodes a request from its bytes and the position after the header.
        encode: encodes a response, without its header.
        kind: API and version, as a request header begins.
        flexible: whether the request header has tagged fields.
        flexible_answer: whether the response header has tagged fields.
        may_wait: whether a request waits for those of other clients, as its kind comes from many clients at once; None:
            none does.
    """

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
        "kind",
        "may_wait",
        "version",
    )

    def __init__(self, api_key: int, version: int) -> None:
        # load messages only once the broker is ready: that takes as long as the rest of its start
        from groupsdk.wire.api import request_class
        from groupsdk.wire.compiler import encoder, lenient_decoder
        from groupsdk.wire.schema import ApiKey

        message: type[Request[Any]] = request_class(api_key)
        served = APIS[api_key]
        self.api_key = api_key
        self.version = version
        self.kind = _KIND(api_key, version)
        self.decode = lenient_decoder(message, version)
        self.encode = encoder(message.response_class, version)
        self.flexible = message.api.is_flexible(version)
        self.flexible_answer = self.flexible and api_key != ApiKey.API_VERSIONS
        module = import_module(f"groupsdk.broker.server.handlers.{served.module}")
        self.handle: Handler = getattr(module, served.function)
        self.may_wait: MayWait | None = getattr(module, "MAY_WAIT", _NONE).get(api_key)
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

    def encode_in_steps(self, response: "Response") -> "CodecSteps[list[bytes]]":
        """Encode a very large response in steps, without its header, into pieces."""
        if self._encode_in_steps is None:
            from groupsdk.wire.compiler import encoder_in_steps

            self._encode_in_steps = encoder_in_steps(self._message.response_class, self.version)
        steps: CodecSteps[list[bytes]] = self._encode_in_steps(response)
        return steps


_routes: dict[tuple[int, int], Route] = {}


def route(api_key: int, version: int) -> Route | None:
    """Return the route for a version of an API; None if it is not served."""
    found = _routes.get((api_key, version))
    if found is None and is_served(api_key, version):
        found = _routes[api_key, version] = Route(api_key, version)
    return found


def is_served(api_key: int, version: int) -> bool:
    served = APIS.get(api_key)
    return served is not None and served.min_version <= version <= served.max_version


def loaded_route(api_key: int, version: int) -> Route | None:
    """Return a route that was made before; None if it was not, or is not served."""
    return _routes.get((api_key, version))


def load_route(api_key: int, version: int) -> None:
    """Make a route, and import what its handler imports on first use; may be called on any thread."""
    for name in LOADED_WITH.get(api_key, ()):
        import_module(name)
    route(api_key, version)


class Call:
    """One request in flight; answered exactly once, by `answer`, or never, by `answer_nothing`.

    It may outlive its connection: a response to a closed connection is dropped. Not thread-safe: used on the loop's
    thread.
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
        connection: "Responder",
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
        """Whether the response is large although the request is small, and must be encoded in steps."""

    @property
    def node(self) -> "ServingNode":
        """The node that received the request."""
        return self.connection.node

    @property
    def api_key(self) -> int:
        return self.route.api_key

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
        """The client's address in Java's format, with its slash."""
        return self.connection.client_host

    def answer(self, response: "Response") -> None:
        """Send the response; a second one is dropped."""
        if not self.done:
            self.done = True
            self.connection.answered(self, response)

    def go_on_with(self, request: Any, steps: "Steps") -> None:
        """Run the remaining steps of a request and answer it; if a step raises, answer with an error."""
        self.connection.go_on_with(self, request, steps)

    def answer_nothing(self) -> None:
        """Finish without a response (Produce with acks=0)."""
        if not self.done:
            self.done = True
            self.connection.go_on()

    def silence(self) -> None:
        """Suppress the response: the client never gets one, and the connection handles no further requests."""
        self.done = True

    @property
    def lost(self) -> bool:
        """Whether the client's connection is closed."""
        return self.connection.closed


def allowed(call: Call, operation: str, resource: str, name: str) -> bool:
    """Return whether the client is authorized for an operation ("read", "describe_configs") on a resource ("group").

    Every operation is allowed without an authorizer. The cluster's name is "kafka-cluster".
    """
    authorizer = call.node.cluster.authorizer
    if authorizer is None:
        return True
    return authorizer.allows(call.principal, call.connection.peer, operation, resource, name)


def cluster_allowed(call: Call, operation: str) -> bool:
    """Return whether the client is authorized for an operation on the cluster."""
    return allowed(call, operation, "cluster", "kafka-cluster")


def operations(call: Call, resource: str, name: str, *, asked: bool) -> int:
    """Return the operations that the client is authorized for, as the bit set of KIP-430; NOT_ASKED if excluded."""
    if not asked:
        from groupsdk.wire.schema import NOT_ASKED

        return NOT_ASKED
    from groupsdk.broker.authorizer import OPERATIONS_OF, operation_bit

    return sum(
        operation_bit(operation)
        for operation in OPERATIONS_OF[resource]
        if allowed(call, operation, resource, name)
    )


MAX_FILTERS: Final = 1_000
"""The most states and types in a client's filter; every coordinator evaluates them all."""


def ask(
    call: Call,
    runtime: "CoordinatorRuntime | ErrorCode",
    request: "Request[Any]",
    answer: "Callable[[Response], None]",
    is_large: bool = False,
) -> None:
    """Submit a request to a coordinator, if there is one, and pass on its response or the error."""
    if not isinstance(runtime, ErrorCode):
        connection = call.connection
        runtime.submit(
            request,
            answer,
            call.route.version,
            call.client_id,
            connection.client_host,
            connection.principal,
            is_large,
        )
        return
    from groupsdk.broker.server.error_responses import refuse

    response = refuse(request, runtime, call.route.version)
    assert response is not None, "every request of a coordinator has a place for an error"
    answer(response)


def gather(
    call: Call,
    parts: "Sequence[tuple[CoordinatorRuntime | ErrorCode, Request[Any]]]",
    combine: "Callable[[list[Any]], Response | None]",
    *,
    is_large: bool = False,
) -> "Response | None":
    """Submit requests to several coordinators, and answer with their responses combined; at once if there are none.

    Args:
        combine: makes the response; None: it answers later.
        is_large: whether the coordinators are to handle them in steps, if they can.
    """
    if not parts:
        return combine([])
    answers: list[Response | None] = [None] * len(parts)
    missing = len(parts)

    def take(index: int, answer: "Response") -> None:
        nonlocal missing
        answers[index] = answer
        missing -= 1
        if missing == 0:
            response = combine(answers)
            if response is not None:
                call.answer(response)

    for index, (runtime, request) in enumerate(parts):
        ask(call, runtime, request, partial(take, index), is_large=is_large)
    return None


class LeaderHints:
    """Collects the leaders named in one response, for its list of endpoints (KIP-951)."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._named: set[int] = set()

    def leader(self, topic: "Topic", partition: int) -> tuple[int, int]:
        """Return the leader of a partition and its leader epoch, and add the leader to the endpoints."""
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
