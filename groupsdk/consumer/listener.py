"""The rebalance listener interface, and the calls to it."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from groupsdk.assignment import TopicPartition
from groupsdk.coordinator import refuse_unrun
from groupsdk.errors import ConfigError
from groupsdk.types import Generation


PartitionsCallback = Callable[[Sequence[TopicPartition]], object]
"""Takes the partitions of one step of a rebalance, sorted."""

Callback = Literal["revoked", "assigned", "lost"]
"""A method of a listener that is measured, as the metrics name it."""


class CallbackTimes(Protocol):
    """Measures the methods of a listener, e.g. `ConsumerMetrics`."""

    def callback(self, kind: Callback) -> AbstractContextManager[None]: ...


class RebalanceListener:
    """Told of the partitions that a consumer gains and loses (Kafka: `ConsumerRebalanceListener`); every method is optional.

    A listener need not inherit from this class: any object with at least one of its methods is one. The methods run within
    the calls of the thread that polls, under no lock. They may use the consumer: commit, seek, pause; but not poll. An
    exception reaches the caller of `poll`, and the rebalance goes on all the same at the next `poll`: no method is called
    twice for the same partitions. Listeners of `AsyncGroupConsumer` may define them with `async def`.
    """

    def on_partitions_assigned(
        self, partitions: Sequence[TopicPartition]
    ) -> Awaitable[None] | None:
        """Start work on new partitions, sorted; called after every rebalance, even with none. `seek` sets the start offset."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Stop work on partitions, sorted, that this consumer still owns: the last chance to flush and commit."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Drop partitions, sorted, that others may own already; flushing now could overwrite their work.

        Unless it is overridden, `on_partitions_revoked` is called, as in Kafka's client.
        """
        return self.on_partitions_revoked(partitions)

    def on_generation_changed(self, generation: Generation) -> Awaitable[None] | None:
        """Receive the generation of a completed rebalance, whether or not the assignment changed, with this member's id.

        Called before `on_partitions_assigned`. A listener that keeps the generation as a fencing token must not miss it.
        """


_METHODS = (
    "on_partitions_assigned",
    "on_partitions_revoked",
    "on_partitions_lost",
    "on_generation_changed",
)


def check_listener(listener: object, *, may_await: bool = False) -> None:
    """Reject a listener that could not be called, before the first rebalance finds out.

    Raises ConfigError if it is a class, has none of the methods, or one of them cannot be called with one argument.
    """
    if isinstance(listener, type):
        raise ConfigError(
            f"listener must be an object, not the class {listener.__name__}: create an instance"
        )
    methods = [name for name in _METHODS if getattr(listener, name, None) is not None]
    if not methods:
        raise ConfigError(
            f"listener must have at least one of {', '.join(_METHODS)}; {listener!r} has none"
        )
    for name in methods:
        check_callback(name, getattr(listener, name), may_await=may_await)


def check_callback(name: str, callback: object, *, may_await: bool = False) -> None:
    """Raise a ConfigError for a function or method that cannot be called with one argument."""
    if not callable(callback):
        raise ConfigError(f"{name} must be callable, not {callback!r}")
    if inspect.isgeneratorfunction(callback) or inspect.isasyncgenfunction(callback):
        raise ConfigError(f"{name} must not contain yield: calling it would run nothing")
    if inspect.iscoroutinefunction(callback) and not may_await:
        raise ConfigError(f"{name} must not be `async def`; use AsyncGroupConsumer")
    try:
        signature = inspect.signature(callback)
    except ValueError:
        return  # built-in functions may have none
    try:
        signature.bind(())
    except TypeError:
        given = "the generation" if name == "on_generation_changed" else "the partitions"
        raise ConfigError(
            f"{name} must take one argument, {given}; its signature is {name}{signature}"
        ) from None


class ListenerCalls:
    """Calls the methods that a listener implements, and times them; the listener may be replaced between two calls."""

    def __init__(
        self, listener: object | None = None, metrics: CallbackTimes | None = None
    ) -> None:
        self.listener = listener
        self.begun = 0
        """Counts the calls that have reached the listener: one that a Ctrl-C came before is not among them."""
        self._metrics = metrics

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._call("on_partitions_assigned", partitions, "assigned")

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._call("on_partitions_revoked", partitions, "revoked")

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Call `on_partitions_lost`, or `on_partitions_revoked` on a listener without it."""
        name = "on_partitions_lost"
        if getattr(self.listener, name, None) is None:
            name = "on_partitions_revoked"
        self._call(name, partitions, "lost")

    def generation_changed(self, generation: Generation) -> None:
        self._call("on_generation_changed", generation)

    def _call(self, name: str, argument: object, measured: Callback | None = None) -> None:
        method = getattr(self.listener, name, None)
        if method is None:
            return
        if measured is None or self._metrics is None:
            self.begun += 1
            refuse_unrun(method(argument))
        else:
            with self._metrics.callback(measured):
                self.begun += 1
                refuse_unrun(method(argument))


class CallbackListener:
    """The functions of `subscribe(on_assign=...)` as a listener; without `on_lost`, `on_revoke` is called instead."""

    def __init__(
        self,
        on_assign: PartitionsCallback | None,
        on_revoke: PartitionsCallback | None,
        on_lost: PartitionsCallback | None,
    ) -> None:
        self.on_partitions_assigned = on_assign
        self.on_partitions_revoked = on_revoke
        self.on_partitions_lost = on_lost


def listener_of(
    listener: object | None,
    on_assign: PartitionsCallback | None,
    on_revoke: PartitionsCallback | None,
    on_lost: PartitionsCallback | None,
) -> object:
    """Return the listener of a subscription: the one given, or the functions as one.

    Raises ConfigError if both are given, or one cannot be called.
    """
    functions = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
    given = {name: each for name, each in functions.items() if each is not None}
    if listener is None:
        for name, function in given.items():
            check_callback(name, function)
        return CallbackListener(on_assign, on_revoke, on_lost)
    if given:
        raise ConfigError("give a listener or functions, not both")
    check_listener(listener)
    return listener
