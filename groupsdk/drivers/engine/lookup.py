"""Find the group coordinator: ask the known brokers, trying the next when one is slow, with retries."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain, zip_longest
from random import Random
from typing import Any, Final

from groupsdk.drivers.engine.connect import Connector, WrongProtocolError, refusal
from groupsdk.drivers.engine.connection import Connection
from groupsdk.drivers.engine.refusals import FirstRequestRefusals
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    BootstrapError,
    CoordinatorNotAvailableError,
    CredentialsUnavailableError,
    DisconnectedError,
    GroupSdkError,
    NetworkError,
    RequestTimeoutError,
    ResolveError,
    TlsError,
    UnsupportedVersionError,
    WireError,
)
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.member.actions import Node
from groupsdk.printable import address_text
from groupsdk.settings.backoff import ExponentialBackoff, retry_strategy
from groupsdk.settings.config import MemberConfig
from groupsdk.wire.messages.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from groupsdk.wire.schema import field_versions


logger = logging.getLogger(__name__)

Address = tuple[str, int]

REFRESH_S: Final = 300.0
"""How often a member that has a coordinator learns the brokers again, as Kafka's clients do (`metadata.max.age.ms`)."""

_MAX_LEARNED: Final = 100
_SLOW_S: Final = 2.0
"""After how long a broker that has not answered is reported; it is waited for all the same."""
_METADATA_GRACE_S: Final = 0.1  # commonly the answer is there together with the coordinator
_NEXT_AFTER_S: Final = 0.3
"""After how long without an answer the next broker is asked as well; doubles with each, so that a cluster
that hangs as a whole gets six connections in ten seconds, not thirty."""
_AGAIN_S: Final = 5.0
"""A lookup that begins so soon after the last one found a coordinator is part of an outage."""
_KEEP_S: Final = 5.0
"""How long the connection of a broker that was asked is kept for the next lookup of an outage."""
_ANSWERS: Final = 2
"""How many brokers have to answer that they know no coordinator before an attempt ends."""
_KEPT_USES: Final = 5
"""How often it is used before another broker is asked, which may know more."""

_OF_THIS_BROKER: Final = (
    NetworkError,
    CoordinatorNotAvailableError,
    WireError,
    UnsupportedVersionError,
    TlsError,
    WrongProtocolError,
)
"""Errors that may be one broker's alone, so that another one is worth asking.

Refused credentials are not: tried at every broker, they may lock the user out.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """Where the coordinator is, and the connection to it if there is one already."""

    node: Node
    connection: Connection | None
    """An open connection to it, which the receiver now owns; None: there is none."""


class KeptConnections:
    """The connections to the brokers asked last, kept while the coordinator is unavailable.

    Without them, a member in an outage would set up TLS and SASL once a second for a single request.
    Belongs to one event loop.
    """

    def __init__(self) -> None:
        self._kept: dict[Address, tuple[Connection, int]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def addresses(self) -> list[Address]:
        """The addresses of the usable kept connections."""
        return [address for address, (kept, uses) in self._kept.items() if uses and _is_free(kept)]

    def take(self, address: Address) -> tuple[Connection, int] | None:
        """Hand over the connection to an address, with how many more questions it may be used for; None: none kept."""
        return self._kept.pop(address) if address in self.addresses else None

    def keep(self, connection: Connection, uses_left: int) -> None:
        """Keep a connection for some seconds, in place of one to the same address."""
        address = connection.host, connection.port
        self._drop(address)
        if len(self._kept) >= _ANSWERS:
            self._drop(next(iter(self._kept)))
        self._kept[address] = connection, uses_left
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_KEEP_S, self.close)

    def close(self) -> None:
        for address in list(self._kept):
            self._drop(address)

    def _drop(self, address: Address) -> None:
        if address in self._kept:
            self._kept.pop(address)[0].close()


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
        self._silent: set[Address] = set()
        """Brokers that had not answered when another one did: asked last the next time."""
        self._kept = KeptConnections()
        self._found_at: float | None = None
        self._outage = False
        self._connected_before = False
        self._refusals = FirstRequestRefusals(config.security)

    async def run(self) -> Found:
        """Return the coordinator; repeats for as long as errors are retriable, and raises any other."""
        loop = asyncio.get_running_loop()
        self._outage = self._found_at is not None and loop.time() - self._found_at < _AGAIN_S
        backoff = ExponentialBackoff(
            self._config.retry_backoff_ms, self._config.retry_backoff_max_ms
        )
        retrying = retry_strategy(
            backoff,
            self._random,
            f"group={self._config.group_id}: finding the group coordinator",
        )
        found: Found = await retrying(self._reported_attempt)
        self._found_at = loop.time()
        return found

    def keep(self, connection: Connection) -> None:
        """Take over a connection to a broker that turned out not to be the coordinator, for later lookups."""
        if _is_free(connection):
            self._kept.keep(connection, _KEPT_USES)
        else:
            connection.close()

    def refresh(self, connection: Connection) -> None:
        """Learn the brokers again from one of them, unless its connection is busy; returns at once.

        A member may have the same coordinator for months, while all brokers are replaced one after the other on other
        addresses: once the coordinator goes too, none of those that it knew from the start is left to ask.
        """
        if not _is_free(connection) or connection.throttled_s > 0:
            return
        metadata = self._send_metadata(connection)
        if metadata is not None:
            metadata.add_done_callback(self._take_brokers)

    async def _reported_attempt(self) -> Found:
        try:
            return await self._attempt()
        except GroupSdkError as error:
            self._on_delay(error)
            raise

    async def _attempt(self) -> Found:
        """Ask the brokers, the next one as soon as one fails or is slow to answer; the first answer wins."""
        await self._connector.prepare()
        errors: dict[str, GroupSdkError] = {}
        candidates = deque(self._candidates())
        asked: dict[asyncio.Task[Found], Address] = {}
        patience_s = _NEXT_AFTER_S
        try:
            while candidates or asked:
                if candidates:
                    address = candidates.popleft()
                    asked[asyncio.create_task(self._ask(*address))] = address
                done, _ = await asyncio.wait(
                    asked,
                    timeout=patience_s if candidates else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done:
                    patience_s *= 2
                for task in done:
                    try:
                        found = task.result()
                    except CredentialsUnavailableError:
                        raise  # no broker is to blame, and another one would not help
                    except _OF_THIS_BROKER as error:
                        errors["{}:{}".format(*asked.pop(task))] = error
                        if _no_coordinator(errors.values()) >= _ANSWERS:
                            candidates.clear()  # the rest of a large cluster would say the same
                    else:
                        self._note_silent(list(asked.values()), asked.pop(task))
                        return found
        finally:
            await _give_up(asked)
        self._refusals.check(list(errors.values()))
        raise self._all_failed(errors)

    def _note_silent(self, asked: list[Address], winner: Address) -> None:
        self._silent = set(asked[: asked.index(winner)])

    def _candidates(self) -> list[Address]:
        """Return the brokers to ask; a different one comes first each time, since the last may have been wrong.

        Learned brokers and bootstrap servers by turns: where a whole cluster has moved, the many that are
        learned are all dead, and each of them may take its time. The one that there is a connection to comes
        before all, those that did not answer the last time come after all.
        """
        by_turns = chain.from_iterable(zip_longest(self._learned, self._bootstrap))
        candidates = list(dict.fromkeys(each for each in by_turns if each is not None))
        self._learned = self._learned[1:] + self._learned[:1]
        self._bootstrap = self._bootstrap[1:] + self._bootstrap[:1]
        kept = self._kept.addresses
        last = [each for each in candidates if each in self._silent]
        return list(
            dict.fromkeys([*kept, *(each for each in candidates if each not in last), *last])
        )

    async def _ask(self, host: str, port: int) -> Found:
        """Ask one broker; until it answers, the caller has a reason for the wait."""
        slow = RequestTimeoutError(f"{address_text(host, port)} has not answered for {_SLOW_S:g} s")
        report = asyncio.get_running_loop().call_later(_SLOW_S, self._on_delay, slow)
        try:
            return await self._asked(host, port)
        finally:
            report.cancel()

    async def _asked(self, host: str, port: int) -> Found:
        kept = self._kept.take((host, port))
        if kept is not None:
            connection, uses = kept
            try:
                return await self._asked_over(connection, uses - 1)
            except DisconnectedError as error:
                logger.debug(
                    "group=%s: the kept connection is gone: %s", self._config.group_id, error
                )
        connection = await self._connector.open(host, port)
        self._connected_before = True
        return await self._asked_over(connection, _KEPT_USES)

    async def _asked_over(self, connection: Connection, uses_left: int) -> Found:
        host, port = connection.host, connection.port
        handed_over = False
        keep = self._outage
        timeout_ms = self._config.request_timeout_ms
        try:
            await asyncio.sleep(connection.throttled_s)
            async with asyncio.timeout(timeout_ms / 1000):
                answer = self._send_find(connection)
                metadata = self._send_metadata(connection)
                found = await answer
                self._refusals.answered()
                learned = await self._learn(metadata)
                node = self._node_in(found)
            # not where the brokers' list still blocks the connection
            handed_over = learned and connection.usable and (node.host, node.port) == (host, port)
            return Found(node, connection if handed_over else None)
        except CoordinatorNotAvailableError:
            keep = True  # it will be asked again soon
            raise
        except TimeoutError as error:
            raise RequestTimeoutError(
                f"{address_text(host, port)} did not answer within {timeout_ms} ms"
            ) from error
        except DisconnectedError as error:
            self._refusals.explain(error)
            raise
        finally:
            if not handed_over and keep and _is_free(connection):
                self._kept.keep(connection, uses_left)
            elif not handed_over:
                connection.close()

    def _send_find(self, connection: Connection) -> "asyncio.Future[FindCoordinatorResponse]":
        group_id = self._config.group_id
        version = connection.versions.negotiate(FindCoordinatorRequest)
        if version in field_versions(FindCoordinatorRequest, "coordinator_keys"):
            return connection.request(FindCoordinatorRequest(coordinator_keys=(group_id,)), version)
        return connection.request(FindCoordinatorRequest(key=group_id), version)

    def _node_in(self, answer: FindCoordinatorResponse) -> Node:
        group_id = self._config.group_id
        asked = f"FindCoordinator of group {group_id!r}"
        found: Any = answer
        if answer.coordinators:
            found = next(
                (coordinator for coordinator in answer.coordinators if coordinator.key == group_id),
                None,
            )
        if found is None:
            raise _not_available(f"{asked}: the answer does not name the group")
        if found.error_code:
            raise refusal(found.error_code, asked)
        if not _is_address(found.host, found.port):
            raise _not_available(
                f"{asked}: the answer names no address, but {found.host[:100]!r} port {found.port}"
            )
        return Node(found.node_id, found.host, found.port)

    def _send_metadata(self, connection: Connection) -> "asyncio.Future[MetadataResponse] | None":
        try:
            version = connection.versions.negotiate(MetadataRequest, min_version=1)
            if version >= 4:
                request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
            else:
                request = MetadataRequest(topics=())
            return connection.request(request, version)
        except GroupSdkError as error:
            logger.debug("group=%s: no list of brokers: %s", self._config.group_id, error)
            return None

    async def _learn(self, metadata: "asyncio.Future[MetadataResponse] | None") -> bool:
        """Learn the other brokers, in case no bootstrap server answers later.

        The lookup goes on if that fails or is slow. Return whether the connection is free for other requests.
        """
        if metadata is None:
            return True
        await asyncio.wait([metadata], timeout=_METADATA_GRACE_S)
        if not metadata.done():
            logger.debug("group=%s: the list of brokers is delayed", self._config.group_id)
            return False
        return self._take_brokers(metadata)

    def _take_brokers(self, metadata: "asyncio.Future[MetadataResponse]") -> bool:
        error = None if metadata.cancelled() else metadata.exception()
        if metadata.cancelled() or error is not None:
            logger.debug("group=%s: no list of brokers: %s", self._config.group_id, error)
            return False
        brokers = metadata.result().brokers
        learned = [
            (broker.host, broker.port)
            for broker in brokers
            if _is_address(broker.host, broker.port)
        ]
        self._random.shuffle(learned)
        self._learned = learned[:_MAX_LEARNED] or self._learned
        return True

    def _all_failed(self, errors: dict[str, GroupSdkError]) -> GroupSdkError:
        """Choose the error to raise: one that needs the user, else the response of the prospective coordinator."""
        for error in errors.values():
            if not error.retriable and not isinstance(error, ResolveError):
                return error
        for error in errors.values():
            if isinstance(error, CoordinatorNotAvailableError):
                return error
        text = "; ".join(f"{address}: {error}" for address, error in errors.items())
        unresolved = all(isinstance(error, ResolveError) for error in errors.values())
        if unresolved and not self._connected_before:
            return ResolveError(f"no bootstrap server has an address: {text}")
        return BootstrapError(f"no broker could be reached: {text}")


def _no_coordinator(errors: Iterable[GroupSdkError]) -> int:
    return sum(isinstance(error, CoordinatorNotAvailableError) for error in errors)


async def _give_up(asked: "dict[asyncio.Task[Found], Address]") -> None:
    """Cancel requests that are no longer needed, and close their connections."""
    for task in asked:
        task.cancel()
    for ended in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(ended, Found) and ended.connection is not None:
            ended.connection.close()
        elif isinstance(ended, Exception) and not isinstance(ended, GroupSdkError):
            raise ended  # a bug


def _is_free(connection: Connection) -> bool:
    """Return whether another request can be sent over a connection."""
    if not connection.usable or not connection.idle:
        return False
    loop = asyncio.get_running_loop()
    return connection.expires_at is None or loop.time() < connection.expires_at


def _is_address(host: str, port: int) -> bool:
    return bool(host) and 0 < port < 65_536


def _not_available(text: str) -> CoordinatorNotAvailableError:
    return CoordinatorNotAvailableError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
