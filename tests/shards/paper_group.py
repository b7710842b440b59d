"""A group with shards on paper: members that do at once, or later, what the leader tells them; no sockets, no time."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from groupsdk.shards.config import ShardConfig
from groupsdk.shards.handover import (
    GroupPlan,
    LeaderMemory,
    assign_shards,
    known_incarnation,
    least_incarnation,
)
from groupsdk.shards.types import Shard, checked_shards
from groupsdk.wire.shards.protocol import (
    MemberState,
    Progress,
    decode_assignment,
    decode_member,
    encode_member,
)


def shard_config(**settings: Any) -> ShardConfig:
    return ShardConfig.of(bootstrap_servers="nowhere:9092", group_id="g", **settings)


CONFIG = shard_config()


@dataclass
class PaperGroup:
    """Members, what the coordinator knows of them, and what is checked after each generation."""

    shards: Sequence[Shard]
    config: ShardConfig = CONFIG
    members: dict[str, MemberState] = field(default_factory=dict)
    generation: int = 0
    incarnations: int = 1_000
    memory: LeaderMemory = field(default_factory=LeaderMemory)
    now_ms: int = 0
    epochs: dict[str, int] = field(default_factory=dict)
    """The greatest epoch that each shard was ever given with."""
    moved: list[str] = field(default_factory=list)
    """What has been taken from a member that stayed, in order."""

    def join(self, member: str, state: MemberState | None = None) -> None:
        """Let a new member in, which knows nothing."""
        self.members[member] = state or MemberState()

    def leave(self, member: str) -> MemberState:
        """Let a member go, without a word: what it held is nobody's."""
        return self.members.pop(member)

    def rejoin_after_loss(self, member: str, new_id: str) -> None:
        """Let a member that has lost its membership come back under another id; it knows how far it was."""
        state = self.members.pop(member)
        progress = replace(state.progress, unbroken=False)
        self.members[new_id] = replace(state, progress=progress, held={}, releasing={}, standbys={})

    def forget(self) -> None:
        """Let the coordinator forget the group: generations start again, and everybody has to join anew."""
        self.generation = 0
        for member in [*self.members]:
            self.rejoin_after_loss(member, member + "'")

    def drain(self, member: str) -> None:
        self.members[member] = replace(self.members[member], draining=True)

    def change_leader(self) -> None:
        """Let another process lead, which remembers nothing."""
        self.memory = LeaderMemory()

    def rebalance(self, deaf: Sequence[str] = ()) -> GroupPlan:
        """Run one generation.

        Args:
            deaf: members that do not hear what they are told, and join again with what they had.
        """
        self.generation += 1
        told = {
            member: decode_member(encode_member(state)) for member, state in self.members.items()
        }
        incarnation = known_incarnation(told, self.generation)
        if incarnation is None:
            self.incarnations = max(self.incarnations + 1, least_incarnation(told))
            incarnation = self.incarnations
        done = assign_shards(
            self.shards, told, self.generation, incarnation, self.memory, self.config, self.now_ms
        )
        self.memory = done.memory
        self.check(done)
        for member in self.members.keys() - set(deaf):
            self.hear(member, done)
        return done

    def hear(self, member: str, done: GroupPlan) -> None:
        """Take up what a member is told: keep, gain, and begin to release."""
        state = self.members[member]
        assignment = decode_assignment(done.encoded[member])
        dropped = {
            name: epoch for name, epoch in state.held.items() if name not in assignment.owned
        }
        self.moved += dropped
        self.members[member] = replace(
            state,
            progress=Progress(assignment.incarnation, assignment.generation),
            held=dict(assignment.owned),
            releasing={**state.releasing, **dropped},
            standbys={name: state.standbys.get(name, False) for name in assignment.standbys},
        )

    def release(self, member: str, names: Sequence[str] | None = None) -> None:
        """Let a member finish releasing some shards, or all."""
        state = self.members[member]
        left = {
            name: epoch
            for name, epoch in state.releasing.items()
            if names is not None and name not in names
        }
        self.members[member] = replace(state, releasing=left)

    def get_ready(self) -> None:
        """Let all standbys be ready."""
        for member, state in self.members.items():
            self.members[member] = replace(state, standbys=dict.fromkeys(state.standbys, True))

    def settle(self, most: int = 60) -> GroupPlan:
        """Rebalance, and release at once, until nothing moves any more; return the last plan."""
        for _ in range(most):
            before = {member: dict(state.held) for member, state in self.members.items()}
            done = self.rebalance()
            is_quiet = not any(state.releasing for state in self.members.values())
            for member in self.members:
                self.release(member)
            after = {member: dict(state.held) for member, state in self.members.items()}
            if is_quiet and before == after:
                return done
        raise AssertionError(f"the group has not settled after {most} generations")

    def owned(self) -> dict[str, list[str]]:
        """Return what each member holds."""
        return {member: sorted(state.held) for member, state in self.members.items()}

    def check(self, done: GroupPlan) -> None:
        """Check what holds in every generation."""
        owner: dict[str, str] = {}
        for member, assignment in done.assignments.items():
            assert decode_assignment(done.encoded[member]).owned == assignment.owned
            for name, epoch in assignment.owned.items():
                assert name not in owner, f"{name} is given to {owner[name]} and {member}"
                owner[name] = member
                if self.members[member].held.get(name) == epoch:
                    continue
                claimants = [
                    other
                    for other, state in self.members.items()
                    if name in state.held or name in state.releasing
                ]
                assert not claimants, f"{name} is given to {member}, claimed by {claimants}"
                assert epoch > self.epochs.get(name, -1), f"the epoch of {name} does not rise"
                self.epochs[name] = epoch
            assert not set(assignment.standbys) & set(assignment.owned)
            claimed = self.members[member].held.keys() | self.members[member].releasing.keys()
            assert not set(assignment.standbys) & claimed


def settled(count: int, *members: str, **settings: Any) -> PaperGroup:
    """Return a group of some members, which share so many shards, and have come to rest."""
    shards = checked_shards([f"s-{number}" for number in range(count)])
    group = PaperGroup(shards, shard_config(**settings))
    for member in members:
        group.join(member)
    group.settle()
    return group
