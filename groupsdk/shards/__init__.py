"""Shards: named pieces of work that a group of workers shares out, keeps running while it rebalances, and fences."""

from typing import TYPE_CHECKING, Final

from groupsdk.lazy_imports import lazy_attributes
from groupsdk.shards.types import Lease, Shard, ShardError


if TYPE_CHECKING:
    from groupsdk.shards.directory import AsyncShardDirectory, ShardDirectory
    from groupsdk.shards.shard_map import OwnerChange, ShardOwner

_HOMES: Final = {
    "AsyncShardDirectory": "groupsdk.shards.directory",
    "OwnerChange": "groupsdk.shards.shard_map",
    "ShardDirectory": "groupsdk.shards.directory",
    "ShardOwner": "groupsdk.shards.shard_map",
}

__getattr__ = lazy_attributes(__name__, _HOMES)

__all__ = [
    "AsyncShardDirectory",
    "Lease",
    "OwnerChange",
    "Shard",
    "ShardDirectory",
    "ShardError",
    "ShardOwner",
]
