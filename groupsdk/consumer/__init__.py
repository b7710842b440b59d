"""Read records as a member of a group: any assignor, the generation, and librdkafka's speed."""

from groupsdk.consumer.config import ConsumerConfig
from groupsdk.consumer.consumer import GroupConsumer
from groupsdk.consumer.listener import RebalanceListener
from groupsdk.consumer.subscription import SubscriptionPattern
from groupsdk.types import OffsetAndMetadata


__all__ = [
    "ConsumerConfig",
    "GroupConsumer",
    "OffsetAndMetadata",
    "RebalanceListener",
    "SubscriptionPattern",
]
