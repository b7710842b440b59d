"""What members of a group with shards say to the leader, and what it answers: values, and their bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


PROTOCOL_NAME: Final = "shards"
"""The name under which members offer this protocol; its version is in the bytes."""
NO_INCARNATION: Final = -1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a member knows the group's epochs: the greatest incarnation, and the last generation under it."""

    incarnation: int = NO_INCARNATION
    generation: int = -1


@dataclass(frozen=True, slots=True)
class MemberState:
    """What a member says when it joins."""

    progress: Progress = field(default=Progress())
    held: Mapping[str, int] = field(default_factory=dict)
    """What it works on and keeps unless told otherwise: shard to epoch."""
    releasing: Mapping[str, int] = field(default_factory=dict)
    """What it was told to give up and has not yet stopped: shard to epoch. Nobody else may have it."""
    standbys: Mapping[str, bool] = field(default_factory=dict)
    """What it stands by for: shard to whether it is ready."""
    loads: Mapping[str, float] = field(default_factory=dict)
    """The smoothed loads of shards that it has measured."""
    endpoint: str = ""
    """Where its shards are served, for `ShardDirectory`; "": nowhere."""
    zone: str | None = None
    capabilities: frozenset[str] = frozenset()
    capacity: float = 1.0
    """How much it can bear relative to the others."""
    max_shards: int | None = None
    draining: bool = False
    instance_id: str | None = None
    """The group.instance.id of a static member, so that people can be shown it."""
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class ShardAssignment:
    """What the leader tells one member."""

    incarnation: int
    generation: int
    """The generation that it was made for."""
    owned: Mapping[str, int] = field(default_factory=dict)
    """What the member keeps and gains: shard to epoch. What it holds and is not named here, it releases."""
    standbys: tuple[str, ...] = ()
    shard_count: int = 0
    """How many shards the leader's list has."""
    shard_digest: int = 0
    """A digest of the leader's list, by which a new leader notices that its own differs."""
    unplaceable: int = 0
    """How many shards could be given to nobody."""
    error: str = ""
    """Why the leader could not plan, so that everybody keeps what it claims; "" if it could."""
