"""Name every error once.

The tree (r: `retriable`, f: `fatal`, the member that raised it will not work again; in the consumer protocol any error
that refuses a member for good is `fatal`, see docs/protocol.md)::

    GroupSdkError
    ├── ConfigError                     a setting is unknown, missing or out of bounds (also a ValueError)
    ├── WireError                       bytes that are not what Kafka's protocol says
    │   ├── EncodeError                 a message that its version cannot carry
    │   ├── DecodeError                 bytes that are no such message
    │   └── FrameError                  a length prefix that cannot be right
    ├── UnsupportedVersionError         the broker lacks an API, or a version of it, that we need
    ├── NetworkError                    r
    │   ├── DisconnectedError           r  the connection broke, or was closed under a request
    │   ├── RequestTimeoutError         r  no answer within the request's deadline
    │   ├── CredentialsUnavailableError  r  where credentials come from cannot be reached at present
    │   └── BootstrapError              r  no bootstrap server could be reached
    │       └── ResolveError            no bootstrap address resolves to an IP address
    ├── AuthenticationError             credentials refused, or the two sides do not speak the same protocol
    │   └── TlsError                    the TLS handshake failed
    ├── BrokerError                     an error code of the broker (`code`, `error_code`)
    │   ├── CoordinatorNotAvailableError  r  no coordinator yet, or it moved
    │   ├── GroupAuthorizationError     the principal may not use the group
    │   ├── InvalidGroupIdError
    │   ├── InvalidSessionTimeoutError  outside the broker's bounds
    │   ├── InconsistentGroupProtocolError  other members use another type, or share no protocol with us
    │   ├── GroupMaxSizeReachedError    r  the group is full, until a member leaves
    │   ├── UnreleasedInstanceIdError   r  another member holds this group.instance.id, until it leaves (KIP-848)
    │   ├── UnsupportedAssignorError    the broker does not know group.remote.assignor (KIP-848)
    │   ├── UnknownMemberIdError        the group does not have this member (any more)
    │   ├── IllegalGenerationError      the group has moved on to another generation
    │   ├── StaleMemberEpochError       the member has another epoch by now (KIP-848)
    │   ├── RebalanceInProgressError    the group is rebalancing
    │   ├── MemberIdRequiredError       first step of the two-step join (KIP-394)
    │   └── FencedInstanceIdError       f  another process has taken this group.instance.id
    ├── CommitFailedError               the member is out of the generation that the offsets were read in
    ├── NoGenerationError               there is no generation to fence with
    ├── NoOffsetError                   no offset was committed, and the settings say where not to begin
    ├── AssignmentError                 perform_assignment returned what cannot be sent
    ├── MetadataError                   metadata() or protocol_type returned what cannot be sent
    ├── MemberClosedError               f  used after close()
    ├── TransactionFatalError           f  the transactional producer failed for good: restart the process
    ├── ConcurrentUseError              two threads use one member at the same time
    └── EngineError                     f  the background thread or process ended unexpectedly
"""

from typing import Any

from groupsdk.error_code import ErrorCode, describe
from groupsdk.lazy_imports import override
from groupsdk.printable import printable


class GroupSdkError(Exception):
    """Root of all errors that the library raises on its own account.

    An exception raised by user code in a callback is passed on as it is, never wrapped.
    """

    retriable: bool = False
    """Whether calling again later, with nothing changed, may succeed."""

    fatal: bool = False
    """Whether the member that raised it can never be used again, except to close it."""


class ConfigError(GroupSdkError, ValueError):
    """A setting is unknown, missing, of the wrong type or out of bounds."""


class WireError(GroupSdkError):
    """Bytes that do not follow Kafka's protocol."""


class EncodeError(WireError):
    """A message that cannot be encoded in the requested version."""


class DecodeError(WireError):
    """Bytes that are not a valid message of the expected type."""


class FrameError(WireError):
    """A length prefix that cannot be right: negative, over the limit, or of another protocol."""


class UnsupportedVersionError(GroupSdkError):
    """The broker lacks an API, or every version of it that this library supports."""


class NetworkError(GroupSdkError):
    """The network failed; a later attempt may succeed."""

    retriable = True


class DisconnectedError(NetworkError):
    """The connection broke, or was closed while a response was outstanding."""


class RequestTimeoutError(NetworkError):
    """No response arrived before the request's deadline."""


class CredentialsUnavailableError(NetworkError):
    """The source of credentials, such as a token endpoint, cannot be reached or fails temporarily."""


class BootstrapError(NetworkError):
    """No bootstrap server could be reached."""


class ResolveError(BootstrapError):
    """No bootstrap address resolves to an IP address.

    Raised only until a first connection was made: afterwards a name that does not resolve is taken for
    a passing failure of the name service.
    """

    retriable = False


class AuthenticationError(GroupSdkError):
    """The broker refused the client's credentials, or the client refused the broker's."""


class TlsError(AuthenticationError):
    """The TLS handshake failed."""


class BrokerError(GroupSdkError):
    """An error code in a broker's response.

    Args:
        code: the number on the wire.
        context: the request, which begins the message; "" for none.

    Attributes:
        code: the number on the wire, kept even if it is unknown here.
        error_code: the same as an `ErrorCode`; UNKNOWN_SERVER_ERROR if the number is unknown here.
    """

    def __init__(self, code: int, context: str = "") -> None:
        self._context = context
        self.code: int = int(code)
        self.error_code: ErrorCode = ErrorCode.of(code)
        text = describe(code)
        # the context may quote the broker and names that others chose
        super().__init__(printable(f"{context}: {text}") if context else text)

    @override
    def __reduce__(self) -> tuple[type["BrokerError"], tuple[int, str], dict[str, Any]]:
        # pickled as it was made: errors cross from the child process of heartbeat="process"
        return type(self), (self.code, self._context), self.__dict__


class CoordinatorNotAvailableError(BrokerError):
    """The group has no coordinator at the moment, or it moved to another node."""

    retriable = True


class RetriableBrokerError(BrokerError):
    """Any other error code that Kafka marks as retriable."""

    retriable = True


class GroupAuthorizationError(BrokerError):
    """The principal is not allowed to use the group."""


class InvalidGroupIdError(BrokerError):
    """The broker does not accept the group id."""


class InvalidSessionTimeoutError(BrokerError):
    """session.timeout.ms is outside the broker's group.min/max.session.timeout.ms."""


class InconsistentGroupProtocolError(BrokerError):
    """The group's members use another protocol type, or share no protocol with this one."""


class GroupMaxSizeReachedError(BrokerError):
    """The group already has group.max.size members (group.consumer.max.size), and has room once one leaves."""

    retriable = True


class UnreleasedInstanceIdError(BrokerError):
    """Another member holds this group.instance.id, until it leaves or its session ends (KIP-848)."""

    retriable = True


class UnsupportedAssignorError(BrokerError):
    """group.consumer.assignors of the broker does not name the group.remote.assignor (KIP-848)."""


class UnknownMemberIdError(BrokerError):
    """The group does not know this member id, or no longer."""


class IllegalGenerationError(BrokerError):
    """The group is in another generation than the request."""


class StaleMemberEpochError(BrokerError):
    """The coordinator has given the member another epoch than the request carries (KIP-848).

    `commit` and `committed` repeat what met with it, under the epoch of that moment.
    """


class RebalanceInProgressError(BrokerError):
    """The group is rebalancing; the member has to rejoin."""


class MemberIdRequiredError(BrokerError):
    """The coordinator handed out a member id to join with (KIP-394)."""


class FencedInstanceIdError(BrokerError):
    """Another process joined with the same group.instance.id; this member is fenced for good (KIP-345)."""

    fatal = True


class CommitFailedError(GroupSdkError):
    """Offsets were not stored: the member is out of the generation in which it read them."""


class NoGenerationError(GroupSdkError):
    """The member is in no generation, so there is no fencing token."""


class NoOffsetError(GroupSdkError):
    """No offset was committed for a partition, and auto.offset.reset names no place to begin."""


class AssignmentError(GroupSdkError):
    """`perform_assignment` returned something that cannot be sent to the members."""


class MetadataError(GroupSdkError):
    """`metadata()` or `protocol_type` returned something that cannot be sent."""


class MemberClosedError(GroupSdkError):
    """The member was used after `close()`."""

    fatal = True


class TransactionFatalError(GroupSdkError):
    """A transactional producer failed for good, or the outcome of a transaction is unknown: restart the process."""

    fatal = True


class ConcurrentUseError(GroupSdkError):
    """Two threads used one member at the same time; a member belongs to one caller at a time."""


class EngineError(GroupSdkError):
    """The background thread or child process of the member ended unexpectedly."""

    fatal = True


_BY_CODE: dict[ErrorCode, type[BrokerError]] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: CoordinatorNotAvailableError,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: CoordinatorNotAvailableError,
    ErrorCode.NOT_COORDINATOR: CoordinatorNotAvailableError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: GroupAuthorizationError,
    ErrorCode.INVALID_GROUP_ID: InvalidGroupIdError,
    ErrorCode.INVALID_SESSION_TIMEOUT: InvalidSessionTimeoutError,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: InconsistentGroupProtocolError,
    ErrorCode.GROUP_MAX_SIZE_REACHED: GroupMaxSizeReachedError,
    ErrorCode.UNRELEASED_INSTANCE_ID: UnreleasedInstanceIdError,
    ErrorCode.UNSUPPORTED_ASSIGNOR: UnsupportedAssignorError,
    ErrorCode.UNKNOWN_MEMBER_ID: UnknownMemberIdError,
    ErrorCode.ILLEGAL_GENERATION: IllegalGenerationError,
    ErrorCode.STALE_MEMBER_EPOCH: StaleMemberEpochError,
    ErrorCode.REBALANCE_IN_PROGRESS: RebalanceInProgressError,
    ErrorCode.MEMBER_ID_REQUIRED: MemberIdRequiredError,
    ErrorCode.FENCED_INSTANCE_ID: FencedInstanceIdError,
}


def broker_error(code: int, context: str = "") -> BrokerError:
    """Build the exception for an error code of a broker.

    Args:
        code: the error code on the wire; an unknown number is kept in the exception.
        context: the request, e.g. ``"JoinGroup of group 'g'"``; put in front of the text.
    """
    error_code = ErrorCode.of(code)
    default = RetriableBrokerError if error_code.retriable else BrokerError
    return _BY_CODE.get(error_code, default)(code, context)
