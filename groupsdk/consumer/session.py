"""Serve one consumer between two batches of records: its protocol, membership, offsets and topics."""

import logging
import weakref
from collections.abc import Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final, Literal, Self

from groupsdk.assignment import TopicPartition
from groupsdk.backoff import ExponentialBackoff
from groupsdk.clock import Clock, Deadline
from groupsdk.consumer.calls import CoordinatorCalls
from groupsdk.consumer.commits import CommitCallback, Committer
from groupsdk.consumer.config import ConsumerConfig
from groupsdk.consumer.coordinator import BrokerAssignedCoordinator, ConsumerCoordinator
from groupsdk.consumer.listener import ListenerCalls
from groupsdk.consumer.metrics import ConsumerMetrics
from groupsdk.consumer.partition_owner import PartitionOwner
from groupsdk.consumer.reader import Reader
from groupsdk.consumer.strategies import Strategies
from groupsdk.consumer.subscription import TopicSubscription
from groupsdk.consumer.topics import TopicView, TopicWatch, read_topics, topics_request
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    BrokerError,
    ConfigError,
    GroupSdkError,
    RebalanceInProgressError,
    RequestTimeoutError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from groupsdk.membership.member import LogThinner
from groupsdk.membership.requests import CoordinatorRequest
from groupsdk.offsets import fetch_request, read_fetched
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import OffsetAndMetadata
from groupsdk.wire.messages.offset_commit import OffsetCommitRequest
from groupsdk.wire.schema import Response


logger = logging.getLogger(__name__)

_AGAIN_MS = 100
_PASSING = (RebalanceInProgressError, StaleMemberEpochError, UnknownMemberIdError)
"""What heartbeats take care of: offsets are asked for again once the member is one again."""
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
    """The protocol in use, or to be tried first."""
    why: str
    """Why, for logs and errors."""
    auto: bool = False
    """Whether brokers decide, so that another one may be used later."""
    undecided: bool = False
    """Whether no broker has accepted it yet."""

    @classmethod
    def of(cls, config: ConsumerConfig) -> Self:
        """Return the protocol that a consumer starts with.

        Args:
            config: the consumer's settings.
        """
        if config.group_protocol != "auto":
            return cls(config.group_protocol, f"group.protocol={config.group_protocol}")
        own = config.assignor_of_its_own
        if own is not None:
            return cls("classic", f"no broker has the assignor {own!r}")
        return cls("consumer", "the broker is yet to be asked", auto=True, undecided=True)

    def accepted(self) -> Self:
        """Return the same protocol, marked as accepted by the broker."""
        return replace(self, why="the broker serves it", undecided=False)

    def without(self, error: GroupSdkError, *, joined: bool) -> "GroupProtocol | None":
        """Return the fallback protocol if this error rejects the current one; None to keep it.

        Args:
            error: what the member raised.
            joined: whether the member has been one of the group already.
        """
        code = error.code if isinstance(error, BrokerError) else None
        unsupported = (
            isinstance(error, UnsupportedVersionError) or code == ErrorCode.UNSUPPORTED_VERSION
        )
        refused = unsupported or (self.undecided and not joined and code in _REFUSALS)
        if not self.auto or not refused:
            return None
        return GroupProtocol("classic", str(error))


class ConsumerSession:
    """The work of `GroupConsumer` besides returning records; belongs to the polling thread.

    Args:
        config: the consumer's settings.
        reader: reads the owned partitions.
        clock: the time.
    """

    def __init__(self, config: ConsumerConfig, reader: Reader, clock: Clock) -> None:
        self.config = config
        self.reader = reader
        self.clock = clock
        self.stored: dict[TopicPartition, OffsetAndMetadata] = {}
        """What `store_offsets` was given and is not committed yet."""
        self.close_by: Deadline | None = None
        """By when the consumer is to be closed; None while nobody wants that."""
        self.protocol = GroupProtocol.of(config)
        """Which protocol the member uses, and why."""
        self.metrics = ConsumerMetrics(clock)
        member = config.member
        self._backoff = ExponentialBackoff(member.retry_backoff_ms, member.retry_backoff_max_ms)
        self._random = Random()
        self.calls = CoordinatorCalls(self._ask, clock, self._backoff, self._random)
        self._owner: weakref.ref[object] | None = None
        self._begin_membership(ListenerCalls(metrics=self.metrics), None)
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._auto_commit_at_ms = 0
        self._repeats = LogThinner()
        self._looking: Future[Response] | None = None
        self._fetching: tuple[int, Future[Response], frozenset[TopicPartition]] | None = None
        self._fetch_at_ms = 0
        self._fetches_refused = 0

    def make_member(self) -> GroupMember:
        """Return the member that invokes the callbacks; tests replace it."""
        new = self.protocol.name == "consumer"
        config = self.config.consumer_member() if new else self.config.member
        return GroupMember(self.coordinator, config, self.clock)

    def end_with(self, owner: object) -> None:
        """End the membership if `owner` is dropped without a close."""
        self._owner = weakref.ref(owner)
        self.member.end_with(owner)

    def check(self, subscription: TopicSubscription) -> None:
        """Check that the protocol in use can carry a subscription.

        Raises:
            ConfigError: it cannot.
        """
        if subscription.broker_pattern is not None and self.protocol.name == "classic":
            raise ConfigError(
                "a SubscriptionPattern is matched by the broker, which the classic protocol does not support"
                f" ({self.protocol.why}): use group.protocol=consumer, or re.compile() for a pattern that the client"
                " matches"
            )

    def _begin_membership(
        self, listener: ListenerCalls, subscription: TopicSubscription | None
    ) -> None:
        """Create the coordinator and the member for the chosen protocol."""
        config = self.config
        self._epoch_told_of: int | None = None
        self._watch = TopicWatch(config.metadata_max_age_ms)
        coordinator: PartitionOwner
        if self.protocol.name == "consumer":
            coordinator = BrokerAssignedCoordinator(self, self, self._watch)
        else:
            strategies = Strategies(config.partition_assignment_strategy)
            coordinator = ConsumerCoordinator(
                strategies, self, self, self._watch, config.client_rack
            )
        coordinator.listener, coordinator.subscription = listener, subscription
        self.coordinator = coordinator
        self.member = coordinator.member = self.make_member()
        self.committer = Committer(self.calls, self.member, self.clock, lambda: coordinator.leaving)

    def _poll_member(self, wait_ms: int) -> None:
        """Serve the membership; with group.protocol=auto, fall back to the classic protocol if the new one is refused.

        Raises:
            GroupSdkError: what went wrong with the membership.
        """
        subscription = self.coordinator.subscription
        try:
            self.member.poll(wait_ms / 1000)
        except GroupSdkError as error:
            classic = self.protocol.without(error, joined=self.coordinator.joined)
            if classic is None or (subscription is not None and subscription.broker_pattern):
                raise
            self._go_over(classic, subscription)
            return
        if self.protocol.undecided and self.coordinator.joined:
            self.protocol = self.protocol.accepted()
            self._log_protocol()
        version = self.member.version
        if version != self._epoch_told_of and isinstance(
            self.coordinator, BrokerAssignedCoordinator
        ):
            self.coordinator.tell_epoch()
            self._epoch_told_of = version  # last: what an interruption has cut short is done again

    def _go_over(self, protocol: GroupProtocol, subscription: TopicSubscription | None) -> None:
        """Switch the membership to another protocol.

        Raises:
            Exception: what the listener raised about the loss of what was owned; the change is made all the same.
        """
        refused, unsettled = self.member, self.committer
        self.protocol = protocol
        self._log_protocol()
        self._looking = self._fetching = None
        self._begin_membership(self.coordinator.listener, subscription)
        owner = None if self._owner is None else self._owner()
        if owner is not None:
            self.member.end_with(owner)
        try:
            refused.close(0)  # gives up what is owned
        finally:
            unsettled.settle()  # whoever waits for a commit is told

    def _log_protocol(self) -> None:
        logger.info(
            "group=%s: group.protocol=auto uses the %s protocol: %s",
            self.config.member.group_id,
            self.protocol.name,
            self.protocol.why,
        )

    def step(self, wait_ms: int) -> None:
        """Do all work that is due, and wait for a membership event. Runs listeners and callbacks of commits.

        Args:
            wait_ms: the longest wait, in milliseconds.
        """
        self.reader.use_new_credentials()
        self.committer.settle()
        if self._ended():  # by the callback of a commit
            return
        self._auto_commit()
        self._poll_member(wait_ms)
        if self._ended():  # by a listener
            return
        self._look_at_topics()
        if self.reader.waiting:
            self._begin(wait_ms)

    def may_read(self) -> bool:
        """Return whether the group cannot have reassigned this consumer's partitions yet."""
        return bool(self.reader.reading) and self.member.holds_for(0)

    def quiet(self, now_ms: int) -> bool:
        """Return whether `step(0)` has nothing to do, apart from what is only checked a few times a second."""
        return (
            self.member.quiet()
            and not self.committer.busy
            and self._looking is None
            and not self.reader.waiting
            and (now_ms < self._auto_commit_at_ms or not self.config.enable_auto_commit)
        )

    def all_metrics(self) -> dict[str, float]:
        """Return the metrics of the member, commits and listeners."""
        return self.member.metrics() | self.metrics.snapshot(len(self.coordinator.owned))

    # Offsets.

    def processed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets of these partitions to commit, without those already committed.

        Args:
            partitions: partitions that are owned.
        """
        if self.config.enable_auto_offset_store:
            known = self.reader.positions(partitions)
        else:
            known = {each: self.stored.get(each) for each in partitions}
        return {
            partition: offset
            for partition, offset in known.items()
            if offset is not None and self._committed.get(partition) != offset
        }

    def commit_async(
        self,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit in the background, and remember the offsets so that they are not committed again.

        Args:
            offsets: the offsets to commit, by partition.
            callback: called by a later `step` with the error, or None, and the offsets; None: failures are logged.

        Raises:
            RebalanceInProgressError: the group rebalances.
            CommitFailedError: the member is out of the group.
        """
        snapshot = self.member.snapshot()

        def done(error: GroupSdkError | None, _: object) -> None:
            # A later commit may have stored other offsets, and then also stands later in the log.
            newest = self.committer.last_number == number
            if error is None and newest:
                self.note_committed(offsets)
            if error is None:
                self._repeats.calm()
            if callback is not None:
                callback(error, offsets)
            elif error is not None and not isinstance(error, RebalanceInProgressError):
                # what failed in passing before a newer commit was made is for that one to mend
                level = logging.WARNING if newest or not error.retriable else logging.DEBUG
                self._log_failed_commit(level, snapshot, error)

        number = self.committer.last_number + bool(offsets)
        self.committer.commit_async(offsets, done)

    def _log_failed_commit(
        self, level: int, snapshot: MemberSnapshot, error: GroupSdkError
    ) -> None:
        """Log failed commits, ever fewer of a series: in an outage, each interval adds one."""
        suffix = ""
        if level > logging.DEBUG:
            level, suffix = self._repeats.thinned("commit", level)
        logger.log(
            level,
            "group=%s member=%s generation=%d: a commit in the background failed: %s%s",
            snapshot.group_id,
            snapshot.member_id,
            snapshot.generation.generation_id,
            error,
            suffix,
        )

    def note_committed(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Remember the committed offsets of partitions that are still owned.

        Args:
            offsets: the offsets that were committed, by partition.
        """
        owned = self.coordinator.owned
        self._committed |= {each: offset for each, offset in offsets.items() if each in owned}

    def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Fetch committed offsets, retrying until none is part of an open transaction (KIP-447).

        Args:
            partitions: the partitions, owned or not.
            timeout_ms: how long to retry, in milliseconds.

        Returns:
            The committed offset of each partition; None where there is none.

        Raises:
            RequestTimeoutError: some offsets are still part of an open transaction.
            GroupSdkError: why there is no response.
        """
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        left = set(partitions)
        group_id = self.config.member.group_id
        until_ms = self.clock.now_ms() + timeout_ms
        while left:
            now_ms = self.clock.now_ms()
            some, unstable = self.calls.call(
                fetch_request(group_id, left),
                partial(read_fetched, partitions=left),
                max(0, until_ms - now_ms),
            )
            found |= some
            left = unstable
            if left and self.clock.now_ms() >= until_ms:
                raise RequestTimeoutError(
                    f"group={group_id}: offsets of {len(left)} partitions are part of a transaction that is"
                    f" still open after {timeout_ms} ms"
                )
            if left:
                self.calls.pause(_AGAIN_MS)
                self.calls.check_wanted()
        return found

    # What the coordinator asks of those who read (`Reading`) and who know the topics (`Topics`).

    def commit_before_join(self) -> None:
        """Commit processed offsets; the coordinator handles the commit before the join that follows."""
        if not self.config.enable_auto_commit or not self.coordinator.owned:
            return
        try:
            self._commit_owned()
        except GroupSdkError as error:
            logger.info(
                "group=%s: no commit before joining: %s", self.config.member.group_id, error
            )

    def commit_before_revocation(self, partitions: Collection[TopicPartition]) -> None:
        """Commit processed offsets if auto-commit is on. A failure is only logged: the rebalance goes on regardless.

        Args:
            partitions: the partitions to give up.
        """
        if not self.config.enable_auto_commit:
            return
        try:
            offsets = self.processed(partitions)
            self.committer.commit(offsets, self._callback_timeout_ms())
            self.note_committed(offsets)
        except GroupSdkError as error:
            logger.warning(
                "group=%s member=%s generation=%d: offsets were not committed before revocation, and their"
                " records will be read again: %s",
                self.config.member.group_id,
                self.member.member_id(),
                self.member.generation().generation_id,
                error,
            )

    def take(self, partitions: Collection[TopicPartition]) -> None:
        """Add partitions.

        Args:
            partitions: partitions that are not owned yet.
        """
        if not self.coordinator.owned.difference(partitions):  # the first ones
            self._auto_commit_at_ms = self.clock.now_ms() + self.config.auto_commit_interval_ms
        self.reader.take(partitions)

    def release(self, partitions: Collection[TopicPartition]) -> None:
        """Stop reading partitions, and forget their stored offsets.

        Args:
            partitions: partitions that are owned.
        """
        self.reader.release(partitions)
        for partition in partitions:
            self.stored.pop(partition, None)
            self._committed.pop(partition, None)

    def describe(self, topics: Collection[str] | None) -> TopicView:
        """Fetch topic metadata from the coordinator.

        Args:
            topics: the topics; None: all of the cluster.

        Raises:
            GroupSdkError: it cannot be fetched in time.
        """
        request = topics_request(topics, create=self.config.allow_auto_create_topics)
        return self.calls.call(request, read_topics, self._callback_timeout_ms())

    # Details.

    def _ask(self, request: CoordinatorRequest) -> "Future[Response]":
        answer = self.member.ask(request)
        if isinstance(request, OffsetCommitRequest):
            self.metrics.commit_asked(answer)
        return answer

    def _callback_timeout_ms(self) -> int:
        # what runs within a rebalance has to leave the rest of it some time
        limit_ms = min(
            self.config.default_api_timeout_ms, self.config.member.rebalance_timeout_ms // 2
        )
        return limit_ms if self.close_by is None else self.close_by.remaining_ms(limit_ms)

    def _ended(self) -> bool:
        return self.reader.closed

    def _auto_commit(self) -> None:
        if not self.config.enable_auto_commit or not self.coordinator.owned:
            return
        now_ms = self.clock.now_ms()
        if now_ms < self._auto_commit_at_ms:
            return
        self._auto_commit_at_ms = now_ms + self.config.auto_commit_interval_ms
        self._commit_owned()

    def _commit_owned(self) -> None:
        if self.member.snapshot().stable:
            self.commit_async(self.processed(self.coordinator.owned))

    def _look_at_topics(self) -> None:
        subscription = self.coordinator.subscription
        if subscription is None:
            return
        if self._looking is not None:
            if self._looking.done():
                self._saw_topics(self._looking)
                self._looking = None
            return
        now_ms = self.clock.now_ms()
        if self._watch.due(now_ms, has_patterns=subscription.has_patterns):
            snapshot = self.member.snapshot()
            if snapshot.stable and not snapshot.rejoin_pending:
                self._looking = self.member.ask(
                    self._watch.asks(
                        now_ms,
                        has_patterns=subscription.has_patterns,
                        create=self.config.allow_auto_create_topics,
                    )
                )

    def _saw_topics(self, answer: "Future[Response]") -> None:
        subscription = self.coordinator.subscription
        try:
            view = self.calls.call_once(answer, read_topics)
        except GroupSdkError as error:
            logger.info(
                "group=%s: cannot look up the topics: %s", self.config.member.group_id, error
            )
            return
        if (
            subscription is not None
            and subscription.has_patterns
            and subscription.match(view.partition_counts, view.internal)
        ):
            self.member.request_rejoin("other topics match the pattern of the subscription")
            return
        reason = self._watch.seen(view)
        if reason is not None:
            self.member.request_rejoin(reason)

    def _begin(self, wait_ms: int) -> None:
        """Start reading assigned partitions at their committed offsets, after fetching those."""
        unplaced = self.reader.unplaced
        if not unplaced:
            self.reader.begin({})
            return
        if self._fetching is None:
            now_ms = self.clock.now_ms()
            if now_ms < self._fetch_at_ms or not self.member.snapshot().stable:
                return
            self._fetch_at_ms = now_ms + _AGAIN_MS
            asked = frozenset(unplaced)
            request = fetch_request(self.config.member.group_id, asked)
            self._fetching = self.reader.epoch, self.member.ask(request), asked
        epoch, answer, asked = self._fetching
        if not self.calls.wait(answer, wait_ms):
            return
        self._fetching = None
        if epoch != self.reader.epoch:
            # meanwhile another member may have owned one of these and committed
            self._fetch_at_ms = 0
            return
        try:
            found, _ = self.calls.call_once(answer, lambda response: read_fetched(response, asked))
        except GroupSdkError as error:
            if not error.retriable and not isinstance(error, _PASSING):
                # for the caller to see, but no faster than it may pass
                delay_ms = self._backoff.backoff_ms(self._fetches_refused, self._random)
                self._fetch_at_ms = self.clock.now_ms() + delay_ms
                self._fetches_refused += 1
                raise
            return
        self._fetches_refused = 0
        self._committed |= {each: offset for each, offset in found.items() if offset is not None}
        self.reader.begin(found)
