"""Kafka's group membership as a public, trustworthy Python library.

The names below are imported when they are first used, so that who needs one part of the package (the
embedded broker, say) does not wait for the others (PEP 562).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from groupsdk.version import __version__


if TYPE_CHECKING:
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

_HOMES: Final = {
    "AbstractCoordinator": "groupsdk.drivers.threads.abstract",
    "AsyncAbstractCoordinator": "groupsdk.drivers.aio.abstract",
    "AsyncGroupCallbacks": "groupsdk.coordinator",
    "AsyncGroupMember": "groupsdk.drivers.aio.member",
    "Coordinator": "groupsdk.coordinator",
    "Generation": "groupsdk.types",
    "GroupCallbacks": "groupsdk.coordinator",
    "GroupMember": "groupsdk.drivers.threads.member",
    "GroupMembers": "groupsdk.types",
    "GroupMembershipOperation": "groupsdk.types",
    "GroupSdkError": "groupsdk.errors",
    "MemberConfig": "groupsdk.config",
    "MemberSnapshot": "groupsdk.snapshot",
    "MemberState": "groupsdk.membership.state",
    "NO_GENERATION": "groupsdk.types",
    "OAuthToken": "groupsdk.security",
    "ProtocolMetadata": "groupsdk.types",
    "RebalanceEvent": "groupsdk.membership.recorder",
    "SecuritySettings": "groupsdk.security",
}


def __getattr__(name: str) -> Any:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
