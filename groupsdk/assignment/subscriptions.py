"""Turn what the members of a group of consumers sent into what assignors take, and their plan into bytes."""

from collections.abc import Mapping

from groupsdk.assignment import Assignment, GroupAssignment, Subscription
from groupsdk.assignment.member_report import split_report
from groupsdk.errors import DecodeError, EncodeError
from groupsdk.types import GroupMembers
from groupsdk.wire.consumer_protocol import (
    MAX_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolDecoder,
    ConsumerProtocolEncoder,
    ConsumerProtocolSubscription,
)


def decode_subscriptions(members: Mapping[str, bytes]) -> dict[str, Subscription]:
    """Read all subscriptions of a group, as its leader; members keep their order.

    Equal lists of topics come out as one object, which assignors look at once.

    Args:
        members: member id to what it joined with, as `perform_assignment` is given them. Only `GroupMembers`
            know the `group.instance.id` of static members; with another mapping these are None.

    Raises:
        DecodeError: a member's bytes are no subscription; the text names the member.
    """
    decoder = ConsumerProtocolDecoder()
    instance_ids = members.instance_ids if isinstance(members, GroupMembers) else {}
    subscriptions = {}
    for member_id, metadata in members.items():
        try:
            read = decoder.subscription(metadata)
        except DecodeError as error:
            raise DecodeError(f"member {member_id!r}: {error}") from error
        user_data, report = split_report(read.user_data)
        subscriptions[member_id] = Subscription(
            topics=read.topics,
            user_data=user_data,
            owned_partitions=read.owned_partitions,
            generation_id=read.generation_id,
            rack_id=read.rack_id,
            group_instance_id=instance_ids.get(member_id),
            report=report,
        )
    return subscriptions


def encode_subscription(subscription: Subscription, version: int = MAX_VERSION) -> bytes:
    """Encode the metadata that a member joins with; `group_instance_id` is not part of it.

    Args:
        version: the version of Kafka's ConsumerProtocolSubscription.

    Raises:
        EncodeError: a value does not fit its field, or there is no such version.
    """
    return ConsumerProtocolEncoder().subscription(
        ConsumerProtocolSubscription(
            topics=subscription.topics,
            user_data=subscription.user_data,
            owned_partitions=subscription.owned_partitions,
            generation_id=subscription.generation_id,
            rack_id=subscription.rack_id,
        ),
        version,
    )


def encode_assignments(plan: GroupAssignment, version: int = MAX_VERSION) -> dict[str, bytes]:
    """Encode the assignment of each member, as the leader.

    Args:
        plan: the assignments by member id.
        version: the version of Kafka's ConsumerProtocolAssignment.

    Returns:
        The bytes by member id, for `perform_assignment` to return.

    Raises:
        EncodeError: a value does not fit its field (the message names the member), or there is no such version.
    """
    encoder = ConsumerProtocolEncoder()
    written = {}
    for member_id, share in plan.items():
        message = ConsumerProtocolAssignment(share.partitions, share.user_data)
        try:
            written[member_id] = encoder.assignment(message, version)
        except EncodeError as error:
            raise EncodeError(f"member {member_id!r}: {error}") from error
    return written


def decode_assignment(data: bytes) -> Assignment:
    """Decode a member's assignment.

    Args:
        data: the bytes that `on_join_complete` gets.

    Raises:
        DecodeError: the bytes are not an assignment of the consumer protocol.
    """
    read = ConsumerProtocolDecoder().assignment(data)
    return Assignment(read.assigned_partitions, read.user_data)
