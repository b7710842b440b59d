"""A group consumer: any assignor, access to the generation, and records read by librdkafka."""

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
