"""Script faults: an error response, a delay, no response, a broken connection."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from groupsdk.broker.server.apis import APIS
from groupsdk.errors import ConfigError


if TYPE_CHECKING:
    from groupsdk.broker.server.call import Call
    from groupsdk.error_code import ErrorCode


_KEYS: Final = {served.name.lower(): key for key, served in APIS.items()}
Match = Callable[[Any], bool]


class Fault:
    """One scripted fault, and how many more requests it applies to; None for no limit."""

    __slots__ = ("_act", "_left", "_match", "hits", "key", "node_id")

    def __init__(
        self,
        key: int,
        act: Callable[["Call", Any], None],
        times: int | None,
        node_id: int | None,
        match: Match | None,
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.hits = 0
        """How many requests it has been applied to."""
        self._act = act
        self._left = times
        self._match = match

    @property
    def done(self) -> bool:
        """Whether it applies to no further requests."""
        return self._left == 0

    def remove(self) -> None:
        """Remove the fault; it applies to no further requests."""
        self._left = 0

    def takes(self, call: "Call", request: Any) -> bool:
        """Return whether a request triggers the fault, and count it."""
        if self._left == 0 or (self.node_id is not None and self.node_id != call.node.node_id):
            return False
        if self._match is not None and not self._match(request):
            return False
        if self._left is not None:
            self._left -= 1
        self.hits += 1
        return True

    def act(self, call: "Call", request: Any) -> None:
        self._act(call, request)


class Faults:
    """The scripted faults of a broker, by API; may be set from any thread.

    The first fault that applies to a request is used. `answer`, `delay`, `drop` and `disconnect` return the fault, which
    counts its requests and can be removed; it stays until it has applied to its number of requests. They raise
    ConfigError if there is no such API, or `times` is below 1. Their common arguments:

    - `api`: Kafka's name of the API.
    - `times`: how many requests it applies to, 1 or more; None for no limit.
    - `node`: the id of the node that it is limited to; None for all nodes.
    - `match`: returns whether it applies to a decoded request, on the broker's thread; None: it applies to all.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: tuple[Fault, ...] = ()
        self.any = False
        """Whether there may be a fault to apply."""

    def answer(
        self,
        api: str,
        error: "ErrorCode | int",
        *,
        times: int | None = 1,
        node: int | None = None,
        match: Match | None = None,
    ) -> Fault:
        """Respond with an error instead of handling the request; see `Faults`.

        A response without a field for the error breaks the connection instead.
        """
        from groupsdk.broker.server.error_responses import refuse

        def act(call: "Call", request: Any) -> None:
            response = refuse(request, int(error), call.version)
            if response is None:
                call.connection.abort()
            else:
                call.answer(response)

        return self._add(api, act, times, node, match)

    def delay(
        self,
        api: str,
        delay_ms: int,
        *,
        times: int | None = 1,
        node: int | None = None,
        match: Match | None = None,
    ) -> Fault:
        """Handle the request after milliseconds of the broker's clock; later ones of the connection wait; see `Faults`."""

        def act(call: "Call", request: Any) -> None:
            scheduler = call.node.cluster.scheduler
            scheduler.after(
                delay_ms, lambda: None if call.lost else call.connection.run(call, request)
            )

        return self._add(api, act, times, node, match)

    def drop(
        self,
        api: str,
        *,
        times: int | None = 1,
        node: int | None = None,
        match: Match | None = None,
        handle: bool = False,
    ) -> Fault:
        """Never respond, and leave the connection open; `handle` the request nevertheless, or not; see `Faults`."""

        def act(call: "Call", request: Any) -> None:
            if handle:
                call.silence()
                call.connection.run(call, request)

        return self._add(api, act, times, node, match)

    def disconnect(
        self,
        api: str,
        *,
        times: int | None = 1,
        node: int | None = None,
        match: Match | None = None,
        handle: bool = False,
    ) -> Fault:
        """Break the connection instead of responding; `handle` the request before, or not; see `Faults`."""

        def act(call: "Call", request: Any) -> None:
            if handle:
                call.silence()
                call.connection.run(call, request)
            call.connection.abort()

        return self._add(api, act, times, node, match)

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._faults = ()
            self.any = False

    def intercept(self, call: "Call", request: Any) -> bool:
        """Apply the first fault that matches a request. Return whether there was one; the request is not handled then."""
        for fault in self._faults:
            if fault.key == call.api_key and fault.takes(call, request):
                if fault.done:
                    self._drop_done()
                fault.act(call, request)
                return True
        return False

    def _add(
        self,
        api: str,
        act: Callable[["Call", Any], None],
        times: int | None,
        node: int | None,
        match: Match | None,
    ) -> Fault:
        key = _KEYS.get(api.lower().replace("_", ""))
        if key is None:
            raise ConfigError(
                f"{api!r} is not the name of an API that the broker serves, such as 'JoinGroup'"
            )
        if times is not None and times < 1:
            raise ConfigError(f"times must be at least 1, or None for always, not {times}")
        fault = Fault(key, act, times, node, match)
        with self._lock:
            self._faults = (*self._faults, fault)
            self.any = True
        return fault

    def _drop_done(self) -> None:
        with self._lock:
            self._faults = tuple(fault for fault in self._faults if not fault.done)
            self.any = bool(self._faults)

    def __len__(self) -> int:
        return len(self._faults)
