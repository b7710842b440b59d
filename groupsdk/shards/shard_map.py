"""Who owns which shard, from the descriptions of a group. Pure: no I/O, no clock."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from groupsdk.errors import ConfigError, DecodeError
from groupsdk.wire.shards.protocol import (
    PROTOCOL_NAME,
    MemberState,
    ShardAssignment,
    decode_assignment,
    decode_member,
)


logger = logging.getLogger(__name__)

_STABLE: Final = "Stable"
_OVER: Final = ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class ShardOwner:
    """A worker that owns a shard, or stands by for it."""

    member_id: str
    endpoint: str
    """Where it serves its shards, as it says itself; "": nowhere."""
    epoch: int
    """The lease's epoch; rises with each owner of the shard. 0 for a standby."""
    zone: str | None = None
    instance_id: str | None = None
    """The group.instance.id of a static member."""
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """A shard whose owner is another one than at the last look."""

    name: str
    before: ShardOwner | None
    after: ShardOwner | None
    """None: nobody owns it, as while it is handed over."""


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as DescribeGroups reports it."""

    member_id: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who owns what, at one look."""

    owners: Mapping[str, ShardOwner] = field(default_factory=lambda: MappingProxyType({}))
    standbys: Mapping[str, tuple[ShardOwner, ...]] = field(default_factory=dict)


class ShardMap:
    """Keeps who owns what, from one description of the group to the next.

    While the group rebalances, its coordinator reports no assignments, and its members go on working: the last known owners
    stay.
    """

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._decoded: dict[str, tuple[DescribedMember, MemberState, ShardAssignment]] = {}
        self.ownership = Ownership()

    def update(
        self, state: str, protocol: str, members: Iterable[DescribedMember]
    ) -> tuple[OwnerChange, ...]:
        """Take in a description.

        Args:
            state: the group's, in the coordinator's word.
            protocol: the one that its members agreed on; "" while there is none.

        Returns:
            The shards whose owner has changed.

        Raises:
            ConfigError: the group's members share out no shards.
        """
        if state in _OVER:
            self._decoded = {}
            return self._replace(Ownership())
        if state != _STABLE:
            return ()
        if protocol != PROTOCOL_NAME:
            raise ConfigError(
                f"group {self._group_id!r} shares out no shards: its members use the protocol {protocol!r},"
                f" not {PROTOCOL_NAME!r}"
            )
        self._decode(members)
        return self._replace(self._owned())

    def _decode(self, members: Iterable[DescribedMember]) -> None:
        before, self._decoded = self._decoded, {}
        for each in members:
            known = before.get(each.member_id)
            if known is not None and known[0] == each:
                self._decoded[each.member_id] = known
                continue
            try:
                assignment = decode_assignment(each.assignment) if each.assignment else None
                state = decode_member(each.metadata)
            except DecodeError as error:
                logger.warning(
                    "group=%s member=%s generation=-: what it owns cannot be read: %s",
                    self._group_id,
                    each.member_id,
                    error,
                )
                continue
            if assignment is not None:
                self._decoded[each.member_id] = each, state, assignment

    def _owned(self) -> Ownership:
        owners: dict[str, ShardOwner] = {}
        standbys: dict[str, list[ShardOwner]] = {}
        for member_id, (_, state, assignment) in sorted(self._decoded.items()):
            one = _owner(member_id, state, 0)
            for name, epoch in assignment.owned.items():
                if name not in owners or owners[name].epoch < epoch:
                    owners[name] = _owner(member_id, state, epoch)
            for name in assignment.standbys:
                standbys.setdefault(name, []).append(one)
        found = {name: tuple(members) for name, members in standbys.items()}
        return Ownership(MappingProxyType(owners), found)

    def _replace(self, ownership: Ownership) -> tuple[OwnerChange, ...]:
        before, self.ownership = self.ownership, ownership
        return owner_changes(before.owners, ownership.owners)


def owner_changes(
    before: Mapping[str, ShardOwner], after: Mapping[str, ShardOwner]
) -> tuple[OwnerChange, ...]:
    return tuple(
        OwnerChange(name, before.get(name), after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )


def _owner(member_id: str, state: MemberState, epoch: int) -> ShardOwner:
    return ShardOwner(
        member_id, state.endpoint, epoch, state.zone, state.instance_id, state.client_id
    )
