"""Write the records of groups, and make groups of them again."""

from collections.abc import Mapping

from groupsdk.broker.groups.group import ClassicGroup
from groupsdk.broker.groups.member import GroupMember
from groupsdk.broker.groups.protocols import metadata_of
from groupsdk.broker.groups.state import GroupState
from groupsdk.broker.runtime.contract import CoordinatorRecord
from groupsdk.wire.coordinator_records.declaration import write_key, write_value
from groupsdk.wire.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from groupsdk.wire.twin import maker


_new_member = maker(MemberMetadata)


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """Write a group as it is, with these assignments; of each member the metadata in use only."""
    name = group.protocol_name
    return _record(
        group.group_id,
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation_id,
            protocol=name,
            leader=group.leader_id,
            current_state_timestamp=group.state_timestamp_ms,
            members=tuple(
                [
                    _new_member(
                        member_id=each.member_id,
                        group_instance_id=each.instance_id,
                        client_id=each.client_id,
                        client_host=each.client_host,
                        rebalance_timeout=each.rebalance_timeout_ms,
                        session_timeout=each.session_timeout_ms,
                        subscription=metadata_of(each.protocols, name),
                        assignment=assignments[each.member_id],
                    )
                    for each in group.members.values()
                ]
            ),
        ),
    )


def empty_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """Write a group that has just come to be, whoever is about to join it."""
    timestamp_ms = group.state_timestamp_ms
    return _record(group.group_id, GroupMetadataValue(current_state_timestamp=timestamp_ms))


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Write that a group is gone."""
    return CoordinatorRecord(write_key(GroupMetadataKey(group_id)), None)


def assignments_of(group: ClassicGroup) -> dict[str, bytes]:
    """Return what each member has."""
    return {each.member_id: each.assignment for each in group.members.values()}


def read_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Make a group of its record: stable with its members, or empty; no deadline is set."""
    group = ClassicGroup(group_id, value.current_state_timestamp)
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.generation_id = value.generation
    group.leader_id = value.leader
    for each in value.members:
        timeout_ms = each.rebalance_timeout
        group.add(
            GroupMember(
                group,
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.session_timeout if timeout_ms < 0 else timeout_ms,
                each.session_timeout,
                ((value.protocol or "", each.subscription),),
                each.assignment,
            )
        )
    if group.members:
        group.state = GroupState.STABLE
    group.compute_subscribed_topics()
    return group


def _record(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(write_key(GroupMetadataKey(group_id)), write_value(value))
