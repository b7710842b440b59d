"""Fetch committed offsets: to start reading there, and for callers that ask."""

from collections.abc import Collection
from concurrent.futures import Future
from random import Random

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock
from groupsdk.consumer.calls import CoordinatorCalls
from groupsdk.consumer.reader import Reader
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.errors import (
    GroupSdkError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    WireError,
)
from groupsdk.offsets import fetch_request, read_fetched
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.types import OffsetAndMetadata
from groupsdk.wire.schema import Response


_AGAIN_MS = 100
_PASSING = (RebalanceInProgressError, StaleMemberEpochError, UnknownMemberIdError)
"""What heartbeats take care of: offsets are asked for again once the member is one again."""


class StartOffsets:
    def __init__(
        self,
        reader: Reader,
        calls: CoordinatorCalls,
        clock: Clock,
        group_id: str,
        backoff: ExponentialBackoff,
        random: Random,
    ) -> None:
        self._reader = reader
        self._calls = calls
        self._clock = clock
        self._group_id = group_id
        self._backoff = backoff
        self._random = random
        self._fetching: tuple[int, Future[Response], frozenset[TopicPartition]] | None = None
        self._fetch_at_ms = 0
        self._fetches_refused = 0

    def forget(self) -> None:
        """Drop the request in flight, which was sent by a member that is replaced."""
        self._fetching = None

    def begin(
        self, member: GroupMember, wait_ms: int, known: dict[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Start reading assigned partitions at their committed offsets, which are added to `known`.

        Raises GroupSdkError if they cannot be fetched; raised at most once each backoff.
        """
        unplaced = self._reader.unplaced
        if not unplaced:
            self._reader.begin({})
            return
        if self._fetching is None:
            now_ms = self._clock.now_ms()
            if now_ms < self._fetch_at_ms or not member.snapshot().stable:
                return
            self._fetch_at_ms = now_ms + _AGAIN_MS
            asked = frozenset(unplaced)
            request = fetch_request(self._group_id, asked)
            self._fetching = self._reader.epoch, member.ask(request), asked
        epoch, answer, asked = self._fetching
        if not self._calls.wait(answer, wait_ms):
            return
        self._fetching = None
        if epoch != self._reader.epoch:
            # meanwhile another member may have owned one of these and committed
            self._fetch_at_ms = 0
            return
        try:
            committed, _ = self._calls.call_once(
                answer, lambda response: read_fetched(response, asked)
            )
        except GroupSdkError as error:
            # an answer that is none has ended the connection as well, and the member tells that
            is_told = isinstance(error, WireError) and answer.exception(0) is error
            if not error.retriable and not is_told and not isinstance(error, _PASSING):
                # for the caller to see, but no faster than it may pass
                delay_ms = self._backoff.backoff_ms(self._fetches_refused, self._random)
                self._fetch_at_ms = self._clock.now_ms() + delay_ms
                self._fetches_refused += 1
                raise
            return
        self._fetches_refused = 0
        known |= {each: offset for each, offset in committed.items() if offset is not None}
        self._reader.begin(committed)

    def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Fetch the committed offsets of any partitions, None where there is none."""
        return self._calls.fetch_committed(self._group_id, partitions, timeout_ms)
