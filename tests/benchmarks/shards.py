"""Time the leader of a group with shards, and count the bytes of the group.

CPU seconds are of all that the leader does in one generation: the members' metadata is
decoded, the plan made, the assignments encoded. The bytes are those of a group after 30 members have been replaced one by
one, so that each has shards from all over the list, and epochs from many generations.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from typing_extensions import override

from groupsdk.shards.handover import GroupPlan, LeaderMemory, assign_shards
from groupsdk.shards.types import checked_shards
from groupsdk.wire.shards.protocol import decode_member, encode_member
from tests.benchmarks.report import Result
from tests.shards.paper_group import CONFIG, PaperGroup, shard_config


_ROUNDS = 3
_SHAPE = 2.5
_UNLIMITED = 10**9
_REPLACED = 5
_NOTE = (
    "CPU seconds, median of three: the members' metadata decoded, the plan, the assignments encoded. Bytes: the group's "
    f"record, with metadata and assignments, after {_REPLACED} members were replaced one by one. Names are shard-0, shard-1 and so "
    "on. Weights are all different: 10,000 of them are told to their owners, and for 100,000 there is no room in the record, so that "
    "they are left out. Kafka's limit for the record is 1,048,588 bytes by default."
)


SIZES = ((10_000, 50), (100_000, 200))
KINDS = (
    "equal shards",
    "one standby each",
    "weights",
    "measured loads",
    "measured loads and one standby each",
)


class QuietGroup(PaperGroup):
    """A group in which nothing is checked: that takes longer than all else."""

    @override
    def check(self, done: GroupPlan) -> None:
        """Do nothing."""


def build(shards: int, members: int) -> QuietGroup:
    """Make a group in which members have been replaced one by one."""
    chance = random.Random(1)
    listed = checked_shards(f"shard-{number}" for number in range(shards))
    group = QuietGroup(listed, shard_config(group_record_max_bytes=_UNLIMITED))
    for number in range(members):
        group.join(member_id(chance, number))
    group.settle()
    for number in range(_REPLACED):
        group.leave(chance.choice(sorted(group.members)))
        group.settle()
        group.join(member_id(chance, members + number))
        group.settle()
    return group


def turn_into(group: QuietGroup, kind: str) -> QuietGroup:
    """Return the group with shards or members of another kind."""
    chance = random.Random(2)
    group = replace(group, members=dict(group.members))
    if "one standby each" in kind:
        group.config = replace(group.config, standbys=1)
    if kind == "weights":
        group.shards = checked_shards(
            replace(shard, weight=chance.paretovariate(_SHAPE)) for shard in group.shards
        )
        # in which a hundred thousand different weights find no room, so that the leader leaves them out
        group.config = CONFIG
    if "measured loads" in kind:
        for member, state in group.members.items():
            loads = {name: chance.uniform(0.5, 1.5) for name in state.held}
            group.members[member] = replace(state, loads=loads)
        group.now_ms += group.config.load_interval_ms
    group.settle()
    return group


def member_id(chance: random.Random, number: int) -> str:
    """Return an id as a coordinator gives it."""
    return f"worker-{number}-{chance.randbytes(4).hex()}-aaaa-bbbb-cccc-{chance.randbytes(6).hex()}"


def lead(group: QuietGroup, metadata: Mapping[str, bytes], memory: LeaderMemory) -> None:
    """Do what a leader does in one generation."""
    members = {member: decode_member(data) for member, data in metadata.items()}
    shards = group.shards
    now_ms = group.now_ms + 1
    assign_shards(shards, members, group.generation + 1, 1001, memory, group.config, now_ms)


def cpu_seconds(call: Callable[[], object], rounds: int = _ROUNDS) -> float:
    """Return the median of some rounds."""
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def measure(group: QuietGroup) -> list[float]:
    """Return the CPU seconds of the list, of the plan after a member has gone and when nothing has changed; and bytes."""
    listing = cpu_seconds(lambda: checked_shards(group.shards))
    metadata = {member: encode_member(state) for member, state in group.members.items()}
    done = group.rebalance()
    memory = group.memory
    same = cpu_seconds(lambda: lead(group, metadata, memory))
    del metadata[min(metadata)]
    gone = cpu_seconds(lambda: lead(group, metadata, memory))
    return [listing, gone, same, done.bytes]


def run(_arguments: list[str], *, quick: bool) -> Result:
    del quick
    result = Result(
        "shards",
        "Shards: CPU seconds of the leader for one generation, and bytes",
        ["group", "list checked", "a member has gone", "nothing changed", "bytes", "bytes a shard"],
        notes=[_NOTE],
        raw={},
    )
    for shards, members in SIZES:
        built = build(shards, members)
        for kind in KINDS:
            row = f"{shards:,} shards x {members} members, {kind}"
            figures = measure(turn_into(built, kind))
            result.raw[row] = figures
            *seconds, size = figures
            result.rows.append(
                [row, *map("{:.2f}".format, seconds), f"{size:,.0f}", f"{size / shards:.2f}"]
            )
    return result
