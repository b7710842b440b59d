"""What there is to place: shards and members, numbered."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from assignors.weighted.workload import counted_capacity
from groupsdk.shards.types import Shard
from groupsdk.wire.shards.protocol import MemberState


NOBODY: Final = -1


@dataclass(frozen=True)
class Work:
    """What there is to place."""

    shards: Sequence[Shard]
    members: Sequence[str]
    """The ids of those that may own shards, in order."""
    states: Sequence[MemberState]
    """Of these members."""
    owners: Sequence[int]
    """By shard: the member that works on it, or `NOBODY`."""
    standbys: Mapping[int, Sequence[int]]
    """Shard without an owner to the members that stand by for it, the best first."""
    weights: Sequence[float] | None = None
    """By shard; None: all are equal, and so are the members' capacities."""
    measured: bool = False
    """Whether the weights are loads that were measured, so that what is owned moves only for a member that has little."""

    @cached_property
    def kinds(self) -> Sequence[int]:
        """By shard: the number of its kind."""
        numbers: dict[Set[str], int] = {}
        return [numbers.setdefault(shard.needs, len(numbers)) for shard in self.shards]

    @cached_property
    def able(self) -> Sequence[Sequence[int]]:
        """By kind: the members that are able to own it, ascending; equal lists are one object."""
        needs = dict.fromkeys(shard.needs for shard in self.shards)
        known: dict[tuple[int, ...], Sequence[int]] = {}
        found = []
        for each in needs:
            able = tuple(
                member for member, state in enumerate(self.states) if each <= state.capabilities
            )
            found.append(known.setdefault(able, able))
        return found

    @cached_property
    def have_zones(self) -> bool:
        """Whether a shard and a member name a zone."""
        return any(shard.zone for shard in self.shards) and any(state.zone for state in self.states)

    @cached_property
    def limits(self) -> Sequence[int]:
        """By member: how many shards it may own."""
        size = len(self.shards)
        return [
            size if state.max_shards is None else min(state.max_shards, size)
            for state in self.states
        ]

    @cached_property
    def capacities(self) -> Sequence[float]:
        """By member."""
        return [counted_capacity(state.capacity) for state in self.states]

    @cached_property
    def alike(self) -> Sequence[int]:
        """By shard: the number of its class; those of one are exchanged with no effect on loads, needs and zones."""
        numbers: dict[tuple[int, str | None, float], int] = {}
        weights = self.weights or [1.0] * len(self.shards)
        keys = zip(self.kinds, (shard.zone for shard in self.shards), weights, strict=True)
        return [numbers.setdefault(key, len(numbers)) for key in keys]
