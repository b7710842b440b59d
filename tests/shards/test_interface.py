"""Test what the workers of both drivers share."""

import inspect

from groupsdk.shards import AsyncShardWorker, ShardWorker
from groupsdk.shards.interface import ShardInterface
from tests.support.forms import public_names


def test_both_workers_have_the_calls_that_wait_for_nothing() -> None:
    for name in public_names(ShardInterface):
        shared = inspect.getattr_static(ShardInterface, name)
        for kind in (ShardWorker, AsyncShardWorker):
            assert inspect.getattr_static(kind, name) is shared
