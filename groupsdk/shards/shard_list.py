"""Check the list of shards that a worker names, and tell two lists apart."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from operator import attrgetter

from groupsdk.shards.types import Shard, ShardError
from groupsdk.wire.shards.names import GREATEST_COUNT, natural_key


def checked_shards(shards: Iterable[str | Shard]) -> tuple[Shard, ...]:
    """Return the shards, sorted so that numbers count as numbers; strings become shards of weight 1.

    Raises:
        ShardError: an element is neither a string nor a `Shard`, a name is there twice, or there are too many.
    """
    found: dict[str, Shard] = {}
    given: object = shards
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ShardError(f"shards() must return names or Shards, not {given!r}")
    for each in given:
        shard = Shard(each) if isinstance(each, str) else each
        if not isinstance(shard, Shard):
            raise ShardError(f"shards() must return names or Shards, not {shard!r}")
        if shard.name in found:
            raise ShardError(f"shards() returned {shard.name!r} twice; names must differ")
        found[shard.name] = shard
        if len(found) > GREATEST_COUNT:
            raise ShardError(
                f"shards() returned more than {GREATEST_COUNT}; use several groups for so many"
            )
    return tuple(found[name] for name in sorted(found, key=natural_key))


def digest_of(shards: Sequence[Shard]) -> int:
    """Return 64 bits that differ, in all likelihood, where a shard does; not where the order of the list does."""
    digest = blake2b(digest_size=8)
    for shard in sorted(shards, key=attrgetter("name")):
        # repr of strings and numbers is unambiguous, and the same in every process
        digest.update(
            repr((shard.name, float(shard.weight), sorted(shard.needs), shard.zone)).encode()
        )
    return int.from_bytes(digest.digest())
