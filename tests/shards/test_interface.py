"""Test what the workers of both drivers share."""

import inspect
from typing import get_type_hints

from groupsdk.shards import AsyncShardWorker, ShardWorker
from groupsdk.shards.callbacks import AsyncShardCallbacks
from groupsdk.shards.interface import ShardInterface
from tests.support.forms import public_names


def test_both_workers_have_the_calls_that_wait_for_nothing() -> None:
    for name in public_names(ShardInterface):
        shared = inspect.getattr_static(ShardInterface, name)
        for kind in (ShardWorker, AsyncShardWorker):
            assert inspect.getattr_static(kind, name) is shared


def test_type_checkers_refuse_coroutines_as_callbacks_of_a_worker_for_threads() -> None:
    names = set(public_names(AsyncShardCallbacks)) - {"shards"}
    assert len(names) == 5
    for name in names:
        assert get_type_hints(getattr(ShardWorker, name))["return"] is type(None)
