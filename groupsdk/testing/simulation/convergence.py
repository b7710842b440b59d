"""Check that the group has converged after the faults: every process is a member, and all work is owned once."""

from typing import TYPE_CHECKING

from groupsdk.broker.group_status import GroupState
from groupsdk.testing.simulation.member import TASKS


if TYPE_CHECKING:
    from groupsdk.testing.simulation.world import Simulation


def not_converged(world: "Simulation") -> tuple[int, str] | None:
    """Return the invariant that is broken if the run ends now, and why; None if the group has converged."""
    if world.starting:
        return 6, "a process is yet to start"
    living = [member for member in world.members if member.alive and not member.fenced]
    shard, group = world.watch.shard, world.group
    if not world.process.alive or world.process.paused or (shard is None and living):
        return 6, "there is no coordinator"
    if not living:
        if group is not None and group.state is not GroupState.EMPTY:
            return 12, f"nobody lives, yet the group is {group.state.value}"
        return None
    for member in living:
        if not member.active:
            view = member.view
            return 6, f"{member.name} is not active: {view.state} call={view.call}"
    if group is None or group.state is not GroupState.STABLE:
        return 6, f"the group is {None if group is None else group.state.value}"
    ids = {member.view.generation.member_id for member in living}
    if ids != set(group.members):
        return 11, f"living {ids}, in the group {set(group.members)}"
    owned = sorted(task for member in living for task in member.tasks())
    if owned != list(TASKS):
        return 2, f"{owned} are worked on"
    return None
