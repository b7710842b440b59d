"""The exceptions of task distribution."""

from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.lazy_imports import override


class ConnectError(GroupSdkError):
    """Base class of the errors of task distribution."""


class ConnectorConfigError(ConnectError, ConfigError):
    """A connector's configuration is wrong; `field` names the key.

    Args:
        field: the key that is wrong.
        reason: what is wrong with the value, and what is allowed.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason

    @override
    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.field, self.reason)


class UnknownConnectorError(ConnectError):
    """The connector or task does not exist."""


class ConnectorExistsError(ConnectError):
    """A connector with this name already exists."""


class NotLeaderError(ConnectError):
    """Only the leader writes configurations; `leader_url` is its URL, if known."""

    retriable = True

    def __init__(self, leader_url: str | None) -> None:
        where = f"; it answers at {leader_url}" if leader_url else ""
        super().__init__(f"this worker does not lead the group{where}")
        self.leader_url = leader_url

    @override
    def __reduce__(self) -> tuple[type, tuple[str | None]]:
        return type(self), (self.leader_url,)


class RebalancingError(ConnectError):
    """The group is rebalancing: leader and owners are not known yet."""

    retriable = True


class StoreError(ConnectError):
    """Configurations, states or statuses could not be read or written in time."""

    retriable = True


class StoreUnreachableError(StoreError):
    """No broker that keeps configurations, states and statuses could be reached."""


class RecordTooLargeError(StoreError):
    """A record is larger than the brokers take: writing it again does not help."""

    retriable = False


class StoreFencedError(ConnectError):
    """Another worker has become the only writer of the configurations."""


class TaskFencedError(ConnectError):
    """The task no longer belongs to this worker: its commits are rejected."""


class RetriableError(ConnectError):
    """Raise it if handling a record failed for a temporary reason: the record is retried (KIP-298)."""

    retriable = True


class RequestSignatureError(ConnectError):
    """A request to an internal endpoint lacks a valid signature (KIP-507).

    Args:
        code: the HTTP status that Kafka Connect answers: 400, 403 or 503.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code

    @override
    def __reduce__(self) -> tuple[type, tuple[int, str]]:
        return type(self), (self.code, str(self))
