import pytest

from groupsdk.errors import MetadataError
from groupsdk.member.consumer.heartbeat_fields import PROTOCOL_NAME, HeartbeatSubscription
from groupsdk.types import ProtocolMetadata
from tests.support.cases import each_case


@each_case(
    "subscription",
    (
        HeartbeatSubscription(),
        HeartbeatSubscription(frozenset({"b", "a"})),
        HeartbeatSubscription(frozenset(), "orders-.*"),
        HeartbeatSubscription(frozenset({"äöü"}), "ä+"),
    ),
)
def test_a_subscription_goes_through_metadata_unchanged(
    subscription: HeartbeatSubscription,
) -> None:
    assert HeartbeatSubscription.of(subscription.protocols()) == subscription


@each_case(
    "protocols",
    (
        [],
        [ProtocolMetadata("range", b"")],
        [*HeartbeatSubscription().protocols(), ProtocolMetadata("mine", b"")],
        [ProtocolMetadata(PROTOCOL_NAME, b"\1")],
        [*HeartbeatSubscription().protocols(), ProtocolMetadata("pattern", b"\xff")],
    ),
)
def test_protocols_without_a_heartbeat_subscription_are_refused(
    protocols: list[ProtocolMetadata],
) -> None:
    with pytest.raises(MetadataError):
        HeartbeatSubscription.of(protocols)
