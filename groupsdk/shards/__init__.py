"""Shards: named pieces of work that a group of workers shares out, keeps running while it rebalances, and fences."""

from typing import TYPE_CHECKING, Final

from groupsdk.lazy_imports import lazy_attributes
from groupsdk.shards.types import Lease, Shard, ShardError


if TYPE_CHECKING:
    from groupsdk.shards.aio import AsyncShardWorker
    from groupsdk.shards.callbacks import EpochStore, EpochStoreError
    from groupsdk.shards.config import ShardConfig
    from groupsdk.shards.directory import AsyncShardDirectory, ShardDirectory
    from groupsdk.shards.membership import ShardStatus
    from groupsdk.shards.shard_map import OwnerChange, ShardOwner
    from groupsdk.shards.worker import ShardWorker

_HOMES: Final = {
    "AsyncShardDirectory": "groupsdk.shards.directory",
    "AsyncShardWorker": "groupsdk.shards.aio",
    "EpochStore": "groupsdk.shards.callbacks",
    "EpochStoreError": "groupsdk.shards.callbacks",
    "OwnerChange": "groupsdk.shards.shard_map",
    "ShardConfig": "groupsdk.shards.config",
    "ShardDirectory": "groupsdk.shards.directory",
    "ShardOwner": "groupsdk.shards.shard_map",
    "ShardStatus": "groupsdk.shards.membership",
    "ShardWorker": "groupsdk.shards.worker",
}

__getattr__ = lazy_attributes(__name__, _HOMES)

__all__ = [
    "AsyncShardDirectory",
    "AsyncShardWorker",
    "EpochStore",
    "EpochStoreError",
    "Lease",
    "OwnerChange",
    "Shard",
    "ShardConfig",
    "ShardDirectory",
    "ShardError",
    "ShardOwner",
    "ShardStatus",
    "ShardWorker",
]
