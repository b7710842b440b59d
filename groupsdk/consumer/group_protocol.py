"""The group protocol in use: `GroupProtocol`, and how group.protocol=auto decides."""

from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from groupsdk.consumer.config import ConsumerConfig
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, GroupSdkError, UnsupportedVersionError


_REFUSALS: Final = frozenset({ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND})
"""Error codes of a first heartbeat that a member of the classic protocol would not get: the feature group.version
is off, or the group's classic members cannot be taken over."""


@dataclass(frozen=True, slots=True)
class GroupProtocol:
    """The protocol in use, and the reason.

    With group.protocol=auto the first join decides: asking beforehand would cost a connection, and would not tell
    whether the group, which may have classic members, can change its protocol. A broker that later stops serving
    the consumer protocol, since group.version was switched off or an older release took over, decides again.
    """

    name: Literal["classic", "consumer"]
    """The protocol in use, or to be tried first; `why` is for logs and errors."""
    why: str
    auto: bool = False
    """Whether brokers decide, so that another one may be used later."""
    undecided: bool = False
    """Whether no broker has accepted it yet."""

    @classmethod
    def of(cls, config: ConsumerConfig) -> Self:
        if config.group_protocol != "auto":
            return cls(config.group_protocol, f"group.protocol={config.group_protocol}")
        own = config.assignor_of_its_own
        if own is not None:
            return cls("classic", f"no broker has the assignor {own!r}")
        return cls("consumer", "the broker is yet to be asked", auto=True, undecided=True)

    def accepted(self) -> Self:
        return replace(self, why="the broker serves it", undecided=False)

    def without(self, error: GroupSdkError, *, joined: bool) -> "GroupProtocol | None":
        """Return the fallback protocol if this error rejects the current one; None to keep it."""
        code = error.code if isinstance(error, BrokerError) else None
        unsupported = (
            isinstance(error, UnsupportedVersionError) or code == ErrorCode.UNSUPPORTED_VERSION
        )
        refused = unsupported or (self.undecided and not joined and code in _REFUSALS)
        if not self.auto or not refused:
            return None
        return GroupProtocol("classic", str(error))
