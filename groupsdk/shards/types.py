"""The values that users of shards handle: `Shard`, lists of them, `Lease`, and the error for what is wrong with them."""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from math import isfinite
from operator import attrgetter

from groupsdk.errors import GroupSdkError
from groupsdk.wire.shards.names import GREATEST_COUNT, GREATEST_NAME, natural_key
from groupsdk.wire.shards.protocol import GREATEST_WEIGHT


class ShardError(GroupSdkError):
    """A shard, or a list of shards, that the group cannot work with."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One piece of work, which one worker at a time owns.

    Args:
        name: 1 to 249 bytes of UTF-8; names that end in numbers, such as "shard-17", take the least room.
        weight: how much work it is, relative to the others: over 0, at most 1e15.
        needs: what a worker must have among its `capabilities` to own the shard or stand by for it.
        zone: where the shard is best placed, as workers name their `zone`; None: anywhere.

    Raises:
        ShardError: a field is out of bounds.
    """

    name: str
    weight: float = 1.0
    needs: Set[str] = field(default=frozenset())
    zone: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        weight: object = self.weight
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise ShardError(f"the weight of shard {self.name!r} must be a number, not {weight!r}")
        if not (isfinite(weight) and 0 < weight <= GREATEST_WEIGHT):
            raise ShardError(
                f"the weight of shard {self.name!r} must be over 0 and at most {GREATEST_WEIGHT:g}, not {weight!r}"
            )
        needs: object = self.needs
        if isinstance(needs, str) or not isinstance(needs, Iterable):
            raise ShardError(
                f"the needs of shard {self.name!r} must be a set of names, not {needs!r}"
            )
        object.__setattr__(self, "needs", frozenset(needs))
        for need in (*self.needs, *(() if self.zone is None else (self.zone,))):
            check_name(need, f"a need or the zone of shard {self.name!r}")


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one worker to work on one shard, until it ends by the worker's own clock.

    Store `epoch` with each result, and let the storage refuse a smaller one after a greater one: whoever gains the shard
    next has a greater epoch.
    """

    name: str
    """The shard."""
    epoch: int
    """Rises with each owner of the shard; below 2**53, so that every language can compare it."""
    holder: str
    """The owner's member id. It tells apart two processes with the same group.instance.id, of which the second one has
    taken over the leases of the first, with their epochs."""
    _held: Callable[["Lease"], bool] = field(repr=False, compare=False)

    def held(self) -> bool:
        """Return whether the shard is certainly still this worker's, by its own clock; asks nobody. Thread-safe.

        False once the shard is released or lost, and as soon as the group may have gone on without this worker.
        """
        return self._held(self)


def check_name(name: object, what: str = "the name of a shard") -> None:
    """Check a name.

    Raises ShardError if it is not a string, empty, longer than 249 bytes of UTF-8, or cannot be encoded.
    """
    if not isinstance(name, str):
        raise ShardError(f"{what} must be a string, not {name!r}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ShardError(f"{what} cannot be encoded as UTF-8: {name!r}") from None
    if not 0 < size <= GREATEST_NAME:
        raise ShardError(f"{what} must have 1 to {GREATEST_NAME} bytes, not {size}: {name[:60]!r}")


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
