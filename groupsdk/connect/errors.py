"""Name what can go wrong in distributing tasks."""

from typing_extensions import override

from groupsdk.errors import ConfigError, GroupSdkError


class ConnectError(GroupSdkError):
    """Root of the errors of task distribution."""


class ConnectorConfigError(ConnectError, ConfigError):
    """A connector's configuration is wrong; `field` names the key.

    Args:
        field: the key that is wrong.
        reason: what is wrong with it, and what would be right.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason

    @override
    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.field, self.reason)


class UnknownConnectorError(ConnectError):
    """There is no such connector or task."""


class ConnectorExistsError(ConnectError):
    """There is a connector of this name already."""


class NotLeaderError(ConnectError):
    """Only the leader writes configurations; `leader_url` says where it is, as far as that is known."""

    retriable = True

    def __init__(self, leader_url: str | None) -> None:
        where = f"; it answers at {leader_url}" if leader_url else ""
        super().__init__(f"this worker does not lead the group{where}")
        self.leader_url = leader_url

    @override
    def __reduce__(self) -> tuple[type, tuple[str | None]]:
        return type(self), (self.leader_url,)


class RebalancingError(ConnectError):
    """The group is rebalancing: who leads and who owns what is not known yet."""

    retriable = True


class StoreError(ConnectError):
    """Configurations, states or statuses could not be read or written in time."""

    retriable = True


class StoreFencedError(ConnectError):
    """Another worker has become the only writer of the configurations."""


class TaskFencedError(ConnectError):
    """The task is no longer this worker's: what it commits now is refused."""


class RetriableError(ConnectError):
    """Raise it where a record could not be handled for a reason that may pass: it is tried again (KIP-298)."""

    retriable = True


class RequestSignatureError(ConnectError):
    """What was asked as by another worker is not signed as by one (KIP-507).

    Args:
        code: the HTTP status that Kafka Connect answers: 400, 403 or 503.
        reason: what is wrong.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code

    @override
    def __reduce__(self) -> tuple[type, tuple[int, str]]:
        return type(self), (self.code, str(self))
