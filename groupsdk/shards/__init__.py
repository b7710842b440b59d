"""Shards: named pieces of work that a group of workers shares out, keeps running while it rebalances, and fences."""

from groupsdk.shards.types import Lease, Shard, ShardError


__all__ = ["Lease", "Shard", "ShardError"]
