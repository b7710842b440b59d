"""Test what the workers of both drivers share."""

import pytest

from groupsdk.shards import AsyncShardWorker, ShardWorker


@pytest.mark.parametrize("kind", [ShardWorker, AsyncShardWorker])
def test_a_subclass_may_use_any_private_name_but_three(kind: type) -> None:
    private = {name for each in kind.__mro__[:-1] for name in vars(each) if name[:1] == "_"}
    dunder = {name for name in private if name.startswith("__") and name.endswith("__")}
    mangled = {
        name for name in private if name.startswith(("_ShardWorker__", "_AsyncShardWorker__"))
    }
    of_python = {"_abc_impl", "_is_protocol", "_is_runtime_protocol"}
    assert private - dunder - mangled - of_python == {
        "_engine_handle",
        "_member",
        "_shard_membership",
    }
