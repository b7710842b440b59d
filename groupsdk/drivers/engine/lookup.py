"""Find the group coordinator: ask the brokers that are known, in turn, with retries."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from groupsdk.backoff import ExponentialBackoff, retry_strategy
from groupsdk.config import MemberConfig
from groupsdk.drivers.engine.connect import Connector, FirstRequestRefusedError
from groupsdk.drivers.engine.connection import Connection
from groupsdk.errors import (
    AuthenticationError,
    BootstrapError,
    CoordinatorNotAvailableError,
    GroupSdkError,
    NetworkError,
    RequestTimeoutError,
    ResolveError,
    broker_error,
)
from groupsdk.membership.actions import Node
from groupsdk.wire.messages.find_coordinator import FindCoordinatorRequest
from groupsdk.wire.messages.metadata import MetadataRequest


logger = logging.getLogger(__name__)

Address = tuple[str, int]

_BATCHED_SINCE = 4  # FindCoordinator names several keys from v4 on
_REFUSALS = 3


@dataclass(frozen=True, slots=True)
class Found:
    """Where the coordinator is, and the connection to it if there is one already."""

    node: Node
    connection: Connection | None


class CoordinatorLookup:
    """Asks bootstrap servers, and the brokers learned from them, which of them coordinates the group."""

    def __init__(
        self,
        config: MemberConfig,
        connector: Connector,
        random: Random,
        on_delay: Callable[[GroupSdkError], None],
    ) -> None:
        self._config = config
        self._connector = connector
        self._random = random
        self._on_delay = on_delay
        self._bootstrap: list[Address] = list(config.servers)
        random.shuffle(self._bootstrap)
        self._learned: list[Address] = []
        self._connected_before = False
        self._refusals = 0

    async def run(self) -> Found:
        """Return the coordinator; repeats for as long as errors are retriable.

        Raises:
            GroupSdkError: an error that repeating does not mend.
        """
        backoff = ExponentialBackoff(
            self._config.retry_backoff_ms, self._config.retry_backoff_max_ms
        )
        retrying = retry_strategy(
            backoff,
            self._random,
            f"group={self._config.group_id}: finding the group coordinator",
            stop=lambda: False,
        )
        return await retrying(self._reported_attempt)

    async def _reported_attempt(self) -> Found:
        try:
            return await self._attempt()
        except GroupSdkError as error:
            self._on_delay(error)
            raise

    async def _attempt(self) -> Found:
        errors: dict[str, GroupSdkError] = {}
        for host, port in self._candidates():
            try:
                return await self._ask(host, port)
            except (NetworkError, CoordinatorNotAvailableError) as error:
                errors[f"{host}:{port}"] = error
        self._check_refused(list(errors.values()))
        raise self._all_failed(errors)

    def _candidates(self) -> list[Address]:
        """Return whom to ask; another one comes first each time, since the last one may have erred."""
        candidates = list(dict.fromkeys((*self._learned, *self._bootstrap)))
        self._learned = self._learned[1:] + self._learned[:1]
        self._bootstrap = self._bootstrap[1:] + self._bootstrap[:1]
        return candidates

    async def _ask(self, host: str, port: int) -> Found:
        connection = await self._connector.open(host, port)
        self._connected_before = True
        self._refusals = 0
        handed_over = False
        try:
            async with asyncio.timeout(self._config.request_timeout_ms / 1000):
                node = await self._find(connection)
                await self._learn(connection)
            handed_over = (node.host, node.port) == (host, port)
            return Found(node, connection if handed_over else None)
        except TimeoutError as error:
            raise RequestTimeoutError(
                f"{host}:{port} did not answer within {self._config.request_timeout_ms} ms"
            ) from error
        finally:
            if not handed_over:
                connection.close()

    async def _find(self, connection: Connection) -> Node:
        group_id = self._config.group_id
        version = connection.versions.negotiate(FindCoordinatorRequest)
        asked = f"FindCoordinator of group {group_id!r}"
        if version >= _BATCHED_SINCE:
            batch = await connection.request(
                FindCoordinatorRequest(coordinator_keys=(group_id,)), version
            )
            for each in batch.coordinators:
                if each.key == group_id:
                    if each.error_code:
                        raise broker_error(each.error_code, asked)
                    return Node(each.node_id, each.host, each.port)
            raise CoordinatorNotAvailableError(15, f"{asked}: the answer does not name the group")
        single = await connection.request(FindCoordinatorRequest(key=group_id), version)
        if single.error_code:
            raise broker_error(single.error_code, asked)
        return Node(single.node_id, single.host, single.port)

    async def _learn(self, connection: Connection) -> None:
        """Note the other brokers, for the day when no bootstrap server answers."""
        version = connection.versions.negotiate(MetadataRequest, min_version=1)
        response = await connection.request(
            MetadataRequest(topics=(), allow_auto_topic_creation=False)
            if version >= 4
            else MetadataRequest(topics=()),
            version,
        )
        learned = [(broker.host, broker.port) for broker in response.brokers if broker.host]
        self._random.shuffle(learned)
        self._learned = learned

    def _check_refused(self, errors: list[GroupSdkError]) -> None:
        """Take a broker that never answers the first request for a wrong setting, not for an outage."""
        if self._connected_before or not errors:
            return
        if all(isinstance(error, FirstRequestRefusedError) for error in errors):
            self._refusals += 1
            if self._refusals >= _REFUSALS:
                raise AuthenticationError(str(errors[0]))

    def _all_failed(self, errors: dict[str, GroupSdkError]) -> GroupSdkError:
        unavailable = [e for e in errors.values() if isinstance(e, CoordinatorNotAvailableError)]
        if unavailable:
            return unavailable[0]
        text = "; ".join(f"{address}: {error}" for address, error in errors.items())
        unresolved = all(isinstance(error, ResolveError) for error in errors.values())
        if unresolved and not self._connected_before:
            return ResolveError(f"no bootstrap server has an address: {text}")
        return BootstrapError(f"no broker could be reached: {text}")
