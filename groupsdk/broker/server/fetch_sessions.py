"""Incremental fetch sessions: remember the partitions that consumers fetch (KIP-227)."""

import random
from collections import OrderedDict
from collections.abc import Generator, Iterable
from typing import Final
from uuid import UUID

from groupsdk.broker.server.pace import Pace
from groupsdk.error_code import ErrorCode
from groupsdk.limits import MAX_INT32, MAX_REQUEST_ELEMENTS
from groupsdk.wire.messages.fetch import FetchRequest
from groupsdk.wire.schema import NO_UUID


NO_SESSION: Final = 0
_FINAL_EPOCH: Final = -1
_INITIAL_EPOCH: Final = 0

Key = tuple[str | UUID, int]
Begun = Generator[None, None, "tuple[FetchSession, bool] | ErrorCode"]
"""Yields after each few hundred partitions, so that other requests can run; returns the session."""


class FetchedPartition:
    """The fetch position of a consumer in one partition, by name or by id, and the offsets it was last sent.

    Attributes:
        current_leader_epoch: the leader epoch that the client knows; -1: unknown.
        high_watermark: the high watermark last sent; -2: none yet.
        log_start_offset: the start of the log last sent; -2: none yet.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: UUID, partition: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = 0
        self.max_bytes = 0
        self.current_leader_epoch = -1
        self.high_watermark = -2  # nothing sent yet
        self.log_start_offset = -2


class FetchSession:
    """The partitions of one consumer, in the order in which they are read next.

    Attributes:
        epoch: the epoch that the next request must have.
    """

    __slots__ = ("epoch", "partitions", "session_id")

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.partitions: OrderedDict[Key, FetchedPartition] = OrderedDict()

    def take(self, request: FetchRequest) -> Generator[None, None, None]:
        """Add, update and remove partitions as requested, in steps."""
        pace = Pace()
        for topic in request.topics:
            name: str | UUID = topic.topic_id if topic.topic_id != NO_UUID else topic.topic
            for each in topic.partitions:
                if pace.due():
                    yield
                key = (name, each.partition)
                wanted = self.partitions.get(key)
                if wanted is None:
                    wanted = FetchedPartition(topic.topic, topic.topic_id, each.partition)
                    self.partitions[key] = wanted
                wanted.fetch_offset = each.fetch_offset
                wanted.max_bytes = each.partition_max_bytes
                wanted.current_leader_epoch = each.current_leader_epoch
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if forgotten.topic_id != NO_UUID else forgotten.topic
            for partition in forgotten.partitions:
                if pace.due():
                    yield
                self.partitions.pop((name, partition), None)

    def served(self, keys: Iterable[Key]) -> None:
        """Move the partitions just served to the end of the order, so that none starves."""
        for key in keys:
            if key in self.partitions:
                self.partitions.move_to_end(key)


class FetchSessions:
    """The fetch sessions of one node; the least recently used one is evicted when the cache is full."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._random = random.Random()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest) -> Begun:
        """Find or create the session of a request, in steps.

        The outcome is an error code, or says whether the response is incremental. A session is removed when it would
        get more partitions than one request may name, as every fetch reads them all.
        """
        if request.session_epoch in {_FINAL_EPOCH, _INITIAL_EPOCH}:
            self._sessions.pop(request.session_id, None)
            session = FetchSession(NO_SESSION)
            yield from session.take(request)
            if request.session_epoch == _INITIAL_EPOCH:
                self._keep(session)
            return session, False
        found = self._sessions.get(request.session_id)
        if found is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if found.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        found.epoch = found.epoch % MAX_INT32 + 1
        self._sessions.move_to_end(found.session_id)
        yield from found.take(request)
        if len(found.partitions) > MAX_REQUEST_ELEMENTS:
            self._sessions.pop(found.session_id, None)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return found, True

    def _keep(self, session: FetchSession) -> None:
        if self._slots == 0 or not session.partitions:
            return
        if len(self._sessions) >= self._slots:
            self._sessions.popitem(last=False)
        while session.session_id == NO_SESSION or session.session_id in self._sessions:
            session.session_id = self._random.randint(1, MAX_INT32)
        self._sessions[session.session_id] = session
