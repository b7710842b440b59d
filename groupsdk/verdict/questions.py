"""Ask a cluster about a group, within a time; what is not answered becomes an obstacle."""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from groupsdk import errors
from groupsdk.admin.cluster import ClusterClient
from groupsdk.error_code import ErrorCode
from groupsdk.verdict.observation import Obstacle, ObstacleKind
from groupsdk.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource


T = TypeVar("T")

_OF_BROKERS: Final = 4  # the config resource type of a broker
_RETENTION: Final = "offsets.retention.minutes"
_MINUTE_MS: Final = 60_000
_RIGHTS: Final = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ("group", "--group"),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ("topic", "--topic"),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ("the cluster", "--cluster"),
}
_COORDINATOR: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
_BROKER: Final = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_ACLS: Final = "kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal User:NAME"


class Questions:
    """Asks within one limit of time for all questions, and collects the obstacles. Belongs to one event loop."""

    def __init__(self, until_s: float, timeout_s: float) -> None:
        self._until_s = until_s
        self._timeout_s = timeout_s
        self.obstacles: list[Obstacle] = []

    async def ask(
        self,
        question: str,
        answer: Awaitable[T],
        *,
        operation: str = "Describe",
        name: str = "",
        optional: bool = False,
    ) -> T | None:
        """Return the answer; None with an obstacle if there is none. `operation` and `name` are those of the right it needs."""
        try:
            async with asyncio.timeout_at(self._until_s):
                return await answer
        except TimeoutError:
            text = f"no answer within {self._timeout_s:g} s"
            self.obstacles.append(Obstacle(ObstacleKind.BROKER, question, text, optional=optional))
        except (errors.GroupSdkError, OSError) as error:
            self.obstacles.append(obstacle(error, question, operation, name, optional=optional))
        return None


async def offsets_retention_ms(client: ClusterClient) -> int | None:
    """Ask a broker for offsets.retention.minutes; returns milliseconds.

    Raises:
        BrokerError: its settings may not be described.
        NetworkError: it cannot be reached.
    """
    node = min(await client.brokers())
    resource = DescribeConfigsResource(_OF_BROKERS, str(node), (_RETENTION,))
    answer = await client.ask(node, DescribeConfigsRequest((resource,)))
    for result in answer.results:
        for each in result.configs:
            if each.name == _RETENTION and each.value:
                return int(each.value) * _MINUTE_MS
    return None


def obstacle(
    error: Exception, question: str, operation: str, name: str, *, optional: bool = False
) -> Obstacle:
    """Name the obstacle that an error is."""
    text = str(error)
    match error:
        case errors.BrokerError(error_code=code) if code in _RIGHTS:
            noun, option = _RIGHTS[code]
            right = f"{operation.upper()} on {noun} {name}".rstrip()
            command = f"{_ACLS} --operation {operation} {option} {name}".rstrip()
            return Obstacle(ObstacleKind.RIGHT, question, text, right, command, optional)
        case errors.BrokerError(error_code=code) if code in _COORDINATOR:
            kind = ObstacleKind.COORDINATOR
        case errors.BrokerError(error_code=code) if code in _BROKER:
            kind = ObstacleKind.BROKER
        case errors.NetworkError() | OSError():
            kind = ObstacleKind.BROKER
        case _:
            kind = ObstacleKind.OTHER
    return Obstacle(kind, question, text, optional=optional)
