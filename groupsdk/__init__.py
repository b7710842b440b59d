"""Kafka's group membership as a public, trustworthy Python library."""

from groupsdk.config import MemberConfig
from groupsdk.coordinator import AsyncGroupCallbacks, Coordinator, GroupCallbacks
from groupsdk.drivers.aio.abstract import AsyncAbstractCoordinator
from groupsdk.drivers.aio.member import AsyncGroupMember
from groupsdk.drivers.threads.abstract import AbstractCoordinator
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.errors import GroupSdkError
from groupsdk.membership.recorder import RebalanceEvent
from groupsdk.membership.state import MemberState
from groupsdk.security import OAuthToken, SecuritySettings
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import (
    NO_GENERATION,
    Generation,
    GroupMembers,
    GroupMembershipOperation,
    ProtocolMetadata,
)
from groupsdk.version import __version__


__all__ = [
    "NO_GENERATION",
    "AbstractCoordinator",
    "AsyncAbstractCoordinator",
    "AsyncGroupCallbacks",
    "AsyncGroupMember",
    "Coordinator",
    "Generation",
    "GroupCallbacks",
    "GroupMember",
    "GroupMembers",
    "GroupMembershipOperation",
    "GroupSdkError",
    "MemberConfig",
    "MemberSnapshot",
    "MemberState",
    "OAuthToken",
    "ProtocolMetadata",
    "RebalanceEvent",
    "SecuritySettings",
    "__version__",
]
