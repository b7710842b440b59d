"""Kafka's group membership as a public, trustworthy Python library.

The names below are imported on first use (PEP 562), so that using one part (say, the embedded broker) does not pay for
importing the others. docs/public.md says which other modules are public.
"""

from typing import TYPE_CHECKING, Final

from groupsdk.lazy_imports import lazy_attributes
from groupsdk.version import __version__


if TYPE_CHECKING:
    from groupsdk.assignment.contract import TopicPartition
    from groupsdk.broker.embedded import EmbeddedBroker
    from groupsdk.consumer.aio import AsyncGroupConsumer as AsyncGroupConsumer
    from groupsdk.consumer.consumer import GroupConsumer as GroupConsumer
    from groupsdk.consumer.listener import RebalanceListener as RebalanceListener
    from groupsdk.coordinator import AsyncGroupCallbacks, Coordinator, GroupCallbacks
    from groupsdk.drivers.aio.member import AsyncAbstractCoordinator, AsyncGroupMember
    from groupsdk.drivers.threads.member import AbstractCoordinator, GroupMember
    from groupsdk.election.leader_election import LeaderElection, Term
    from groupsdk.errors import (
        AuthenticationError,
        BrokerError,
        CommitFailedError,
        ConcurrentUseError,
        ConfigError,
        EngineError,
        FencedInstanceIdError,
        GroupAuthorizationError,
        GroupSdkError,
        InconsistentGroupProtocolError,
        MemberClosedError,
        NetworkError,
        NoGenerationError,
        RebalanceInProgressError,
    )
    from groupsdk.member.recorder import RebalanceEvent
    from groupsdk.member.state import MemberState
    from groupsdk.settings.config import MemberConfig
    from groupsdk.settings.security import OAuthToken, SecuritySettings
    from groupsdk.shards.aio import AsyncShardWorker
    from groupsdk.shards.directory import AsyncShardDirectory, ShardDirectory
    from groupsdk.shards.types import Lease, Shard
    from groupsdk.shards.worker import ShardWorker
    from groupsdk.snapshot import MemberSnapshot
    from groupsdk.types import (
        NO_GENERATION,
        DescribedMember,
        Generation,
        GroupDescription,
        GroupMembers,
        GroupMembershipOperation,
        OffsetAndMetadata,
        ProtocolMetadata,
    )

_HOMES: Final = {
    "AbstractCoordinator": "groupsdk.drivers.threads.member",
    "AsyncAbstractCoordinator": "groupsdk.drivers.aio.member",
    "AsyncGroupCallbacks": "groupsdk.coordinator",
    "AsyncGroupMember": "groupsdk.drivers.aio.member",
    "AsyncShardDirectory": "groupsdk.shards.directory",
    "AsyncShardWorker": "groupsdk.shards.aio",
    "AuthenticationError": "groupsdk.errors",
    "BrokerError": "groupsdk.errors",
    "CommitFailedError": "groupsdk.errors",
    "ConcurrentUseError": "groupsdk.errors",
    "ConfigError": "groupsdk.errors",
    "Coordinator": "groupsdk.coordinator",
    "DescribedMember": "groupsdk.types",
    "EmbeddedBroker": "groupsdk.broker.embedded",
    "EngineError": "groupsdk.errors",
    "FencedInstanceIdError": "groupsdk.errors",
    "Generation": "groupsdk.types",
    "GroupAuthorizationError": "groupsdk.errors",
    "GroupCallbacks": "groupsdk.coordinator",
    "GroupDescription": "groupsdk.types",
    "GroupMember": "groupsdk.drivers.threads.member",
    "GroupMembers": "groupsdk.types",
    "GroupMembershipOperation": "groupsdk.types",
    "GroupSdkError": "groupsdk.errors",
    "InconsistentGroupProtocolError": "groupsdk.errors",
    "LeaderElection": "groupsdk.election.leader_election",
    "Lease": "groupsdk.shards.types",
    "MemberClosedError": "groupsdk.errors",
    "MemberConfig": "groupsdk.settings.config",
    "MemberSnapshot": "groupsdk.snapshot",
    "MemberState": "groupsdk.member.state",
    "NO_GENERATION": "groupsdk.types",
    "NetworkError": "groupsdk.errors",
    "NoGenerationError": "groupsdk.errors",
    "OAuthToken": "groupsdk.settings.security",
    "OffsetAndMetadata": "groupsdk.types",
    "ProtocolMetadata": "groupsdk.types",
    "RebalanceEvent": "groupsdk.member.recorder",
    "RebalanceInProgressError": "groupsdk.errors",
    "SecuritySettings": "groupsdk.settings.security",
    "Shard": "groupsdk.shards.types",
    "ShardDirectory": "groupsdk.shards.directory",
    "ShardWorker": "groupsdk.shards.worker",
    "Term": "groupsdk.election.leader_election",
    "TopicPartition": "groupsdk.assignment.contract",
}

_HEAVY_HOMES: Final = {
    "AsyncGroupConsumer": "groupsdk.consumer.aio",
    "GroupConsumer": "groupsdk.consumer.consumer",
    "RebalanceListener": "groupsdk.consumer.listener",
}
"""These import confluent-kafka: they are not in `__all__`, so that ``from groupsdk import *`` does without it."""


__getattr__ = lazy_attributes(__name__, _HOMES | _HEAVY_HOMES)


def __dir__() -> list[str]:
    return sorted({*__all__, *_HEAVY_HOMES})


__all__ = [
    "NO_GENERATION",
    "AbstractCoordinator",
    "AsyncAbstractCoordinator",
    "AsyncGroupCallbacks",
    "AsyncGroupMember",
    "AsyncShardDirectory",
    "AsyncShardWorker",
    "AuthenticationError",
    "BrokerError",
    "CommitFailedError",
    "ConcurrentUseError",
    "ConfigError",
    "Coordinator",
    "DescribedMember",
    "EmbeddedBroker",
    "EngineError",
    "FencedInstanceIdError",
    "Generation",
    "GroupAuthorizationError",
    "GroupCallbacks",
    "GroupDescription",
    "GroupMember",
    "GroupMembers",
    "GroupMembershipOperation",
    "GroupSdkError",
    "InconsistentGroupProtocolError",
    "LeaderElection",
    "Lease",
    "MemberClosedError",
    "MemberConfig",
    "MemberSnapshot",
    "MemberState",
    "NetworkError",
    "NoGenerationError",
    "OAuthToken",
    "OffsetAndMetadata",
    "ProtocolMetadata",
    "RebalanceEvent",
    "RebalanceInProgressError",
    "SecuritySettings",
    "Shard",
    "ShardDirectory",
    "ShardWorker",
    "Term",
    "TopicPartition",
    "__version__",
]
