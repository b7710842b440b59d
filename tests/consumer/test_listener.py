"""Test how listeners are called."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.consumer.listener import (
    CallbackListener,
    ListenerCalls,
    RebalanceListener,
    check_listener,
    listener_of,
)
from groupsdk.errors import ConfigError
from groupsdk.types import Generation
from tests.consumer.rig import Listener


GIVEN = [TopicPartition("t", 0)]
GENERATION = Generation(3, "m", "range")


def test_every_method_is_called() -> None:
    listener = Listener()
    calls = ListenerCalls(listener)
    calls.assigned(GIVEN)
    calls.revoked(GIVEN)
    calls.lost(GIVEN)
    calls.generation_changed(GENERATION)
    assert listener.calls == [
        *(("assigned", ["t-0"]), ("revoked", ["t-0"])),
        *(("lost", ["t-0"]), ("generation", 3)),
    ]


def test_methods_may_be_left_out() -> None:
    calls = ListenerCalls(object())
    calls.assigned(GIVEN)
    calls.revoked(GIVEN)
    calls.lost(GIVEN)
    calls.generation_changed(GENERATION)
    ListenerCalls().assigned(GIVEN)


def test_without_a_method_for_what_is_lost_it_is_revoked() -> None:
    revoked: list[object] = []
    ListenerCalls(CallbackListener(None, revoked.append, None)).lost(GIVEN)
    assert revoked == [GIVEN]
    lost: list[object] = []
    ListenerCalls(CallbackListener(None, revoked.append, lost.append)).lost(GIVEN)
    assert (len(revoked), lost) == (1, [GIVEN])


def test_inherited_listener_is_called_with_what_is_lost_as_revoked() -> None:
    class Cache(RebalanceListener):
        def __init__(self) -> None:
            self.seen: list[object] = []

        @override
        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            self.seen.append(partitions)

    cache = Cache()
    calls = ListenerCalls(cache)
    calls.assigned([])
    calls.lost(GIVEN)
    calls.generation_changed(GENERATION)
    assert cache.seen == [GIVEN]


class Awaited:
    async def on_partitions_assigned(self, partitions: object) -> None: ...


class Yielding:
    def on_partitions_revoked(self, partitions: object) -> Iterator[object]:
        yield partitions


class WithTheConsumer:
    def on_partitions_revoked(self, consumer: object, partitions: object) -> None: ...


class WithoutAFunction:
    on_partitions_lost = "drop"


@pytest.mark.parametrize(
    ("listener", "what"),
    [
        (Listener, "must be an object, not the class Listener"),
        (print, "must have at least one of on_partitions_assigned, "),
        (Awaited(), "must not be `async def`; use AsyncGroupConsumer"),
        (Yielding(), "must not contain yield: calling it would run nothing"),
        (WithTheConsumer(), r"one argument, the partitions; .*\(consumer: object, partitions"),
        (WithoutAFunction(), "on_partitions_lost must be callable, not 'drop'"),
    ],
)
def test_a_listener_that_cannot_be_called_is_refused_at_once(listener: object, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        listener_of(listener, None, None, None)


def test_functions_take_the_partitions_alone() -> None:
    def like_confluent(consumer: object, partitions: object) -> None: ...

    functions: list[Callable[..., Any]] = [like_confluent, lambda: None]
    for function in functions:
        with pytest.raises(ConfigError, match="on_revoke must take one argument, the partitions"):
            listener_of(None, None, function, None)
    with pytest.raises(ConfigError, match="not both"):
        listener_of(Listener(), print, None, None)
    seen: list[object] = []
    assert isinstance(listener_of(None, print, seen.append, None), CallbackListener)


def test_only_asyncio_awaits_a_listener() -> None:
    check_listener(Awaited(), may_await=True)
