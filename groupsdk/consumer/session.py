"""Serve one consumer between two batches of records: its protocol, membership, offsets and topics."""

import logging
import weakref
from collections.abc import Collection, Iterable
from concurrent.futures import Future
from random import Random
from typing import cast

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock, Deadline
from groupsdk.consumer.calls import CoordinatorCalls, repeatable_before_revocation
from groupsdk.consumer.commits import CommitCallback, Committer
from groupsdk.consumer.config import ConsumerConfig
from groupsdk.consumer.coordinator import BrokerAssignedCoordinator, ConsumerCoordinator
from groupsdk.consumer.group_protocol import GroupProtocol
from groupsdk.consumer.listener import ListenerCalls
from groupsdk.consumer.metrics import ConsumerMetrics
from groupsdk.consumer.partition_owner import PartitionOwner
from groupsdk.consumer.reader import Reader
from groupsdk.consumer.start_offsets import StartOffsets
from groupsdk.consumer.strategies import Strategies
from groupsdk.consumer.subscription import TopicSubscription
from groupsdk.consumer.topics import TopicView, TopicWatch, read_topics, topics_request
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.errors import ConfigError, GroupSdkError, RebalanceInProgressError
from groupsdk.member.member import LogThinner
from groupsdk.member.requests import CoordinatorRequest
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.snapshot import MemberSnapshot, log_member
from groupsdk.types import OffsetAndMetadata
from groupsdk.wire.messages.metadata import MetadataResponse
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from groupsdk.wire.schema import Response


logger = logging.getLogger(__name__)


class TopicRefresh:
    """Fetches topic metadata between two batches, and requests a rebalance where it has changed."""

    def __init__(self, watch: TopicWatch, group_id: str, *, create: bool) -> None:
        self._watch = watch
        self._group_id = group_id
        self._create = create
        self.asked: Future[Response] | None = None

    def step(self, member: GroupMember, subscription: TopicSubscription, now_ms: int) -> None:
        """Send the request that is due, or process the response that has arrived."""
        if self.asked is not None:
            if self.asked.done():
                self._answered(self.asked, member, subscription)
                self.asked = None
            return
        if self._watch.due(now_ms, has_patterns=subscription.has_patterns):
            snapshot = member.snapshot()
            if snapshot.stable and not snapshot.rejoin_pending:
                request = self._watch.asks(
                    now_ms, has_patterns=subscription.has_patterns, create=self._create
                )
                self.asked = member.ask(request)

    def _answered(
        self, answer: "Future[Response]", member: GroupMember, subscription: TopicSubscription
    ) -> None:
        try:
            view = read_topics(cast("MetadataResponse", answer.result(0)))
        except GroupSdkError as error:
            logger.info("group=%s: cannot look up the topics: %s", self._group_id, error)
            return
        if missing := self._watch.unfound(view):
            logger.warning("group=%s: topics that do not exist: %s", self._group_id, missing)
        if subscription.has_patterns and subscription.match(view.partition_counts, view.internal):
            member.request_rejoin("other topics match the pattern of the subscription")
            return
        reason = self._watch.seen(view)
        if reason is not None:
            member.request_rejoin(reason)


class ConsumerSession:
    """The work of `GroupConsumer` besides returning records; belongs to the polling thread."""

    def __init__(self, config: ConsumerConfig, reader: Reader, clock: Clock) -> None:
        self.config = config
        self.reader = reader
        self.clock = clock
        self.stored: dict[TopicPartition, OffsetAndMetadata] = {}
        """Offsets of `store_offsets` that are not committed yet."""
        self.close_by: Deadline | None = None
        """The deadline of `close`, once it is called."""
        self.protocol = GroupProtocol.of(config)
        self.metrics = ConsumerMetrics(clock)
        member = config.member
        backoff = ExponentialBackoff(member.retry_backoff_ms, member.retry_backoff_max_ms)
        random = Random()
        self.calls = CoordinatorCalls(self._ask, clock, backoff, random)
        self.start_offsets = StartOffsets(
            reader, self.calls, clock, member.group_id, backoff, random
        )
        self.load: float | None = None
        self._owner: weakref.ref[object] | None = None
        self._begin_membership(ListenerCalls(metrics=self.metrics), None)
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._auto_commit_at_ms = 0
        self._repeats = LogThinner()

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
        if subscription.broker_pattern is not None and self.protocol.name == "classic":
            raise ConfigError(
                "a SubscriptionPattern is matched by the broker, which the classic protocol does not support"
                f" ({self.protocol.why}): use group.protocol=consumer, or re.compile() for a pattern that the client"
                " matches"
            )

    def report_load(self, load: float | None) -> None:
        """Store a load that this consumer's next join reports."""
        self.load = load
        if isinstance(self.coordinator, ConsumerCoordinator):
            self.coordinator.load = load

    def _begin_membership(
        self, listener: ListenerCalls, subscription: TopicSubscription | None
    ) -> None:
        """Create the coordinator and the member for the chosen protocol."""
        config = self.config
        self._epoch_told_of: int | None = None
        watch = TopicWatch(config.metadata_max_age_ms)
        self._topics = TopicRefresh(
            watch, config.member.group_id, create=config.allow_auto_create_topics
        )
        coordinator: PartitionOwner
        if self.protocol.name == "consumer":
            coordinator = BrokerAssignedCoordinator(self, self, watch)
        else:
            strategies = Strategies(config.partition_assignment_strategy)
            coordinator = ConsumerCoordinator(strategies, self, self, watch, config.client_rack)
            coordinator.protocol_type = config.group_protocol_type
            coordinator.client_id, coordinator.load = config.member.client_id, self.load
        coordinator.listener, coordinator.subscription = listener, subscription
        self.coordinator = coordinator
        self.member = coordinator.member = self.make_member()
        self.committer = Committer(self.calls, self.member, self.clock, lambda: coordinator.leaving)

    def _poll_member(self, wait_ms: int) -> None:
        """Poll the member; with group.protocol=auto, fall back to the classic protocol if the new one is refused."""
        subscription = self.coordinator.subscription
        try:
            self.member.poll(wait_ms / 1000)
        except GroupSdkError as error:
            classic = self.protocol.without(error, joined=self.coordinator.joined)
            if classic is None or (subscription is not None and subscription.broker_pattern):
                raise
            self._change_protocol(classic, subscription)
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

    def _change_protocol(
        self, protocol: GroupProtocol, subscription: TopicSubscription | None
    ) -> None:
        """Switch the membership to another protocol, also if the listener raises when it hears of its losses."""
        refused, unsettled = self.member, self.committer
        self.protocol = protocol
        self._log_protocol()
        self.start_offsets.forget()
        self._begin_membership(self.coordinator.listener, subscription)
        owner = None if self._owner is None else self._owner()
        if owner is not None:
            self.member.end_with(owner)
        try:
            refused.close(0)  # gives up what is owned
        finally:
            unsettled.settle()  # fails the commits that are waited for

    def _log_protocol(self) -> None:
        logger.info(
            "group=%s: group.protocol=auto uses the %s protocol: %s",
            self.config.member.group_id,
            self.protocol.name,
            self.protocol.why,
        )

    def step(self, wait_ms: int) -> None:
        """Do all work that is due, and wait for a membership event. Runs listeners and callbacks of commits."""
        if self.reader.lost:
            self._reconnect()
        self.reader.use_new_credentials()
        self.committer.settle()
        if self._ended():  # by the callback of a commit
            return
        self._auto_commit()
        self._poll_member(wait_ms)
        if self._ended():  # by a listener
            return
        if self.coordinator.subscription is not None:
            self._topics.step(self.member, self.coordinator.subscription, self.clock.now_ms())
        if self.reader.waiting:
            self.start_offsets.begin(self.member, wait_ms, self._committed)
        self.reader.look_for_brokers(self.clock.now_ms(), reached=self.member.reaches_coordinator)

    def _reconnect(self) -> None:
        group_id = self.config.member.group_id
        logger.warning("group=%s: librdkafka reaches no broker any more; reconnecting", group_id)
        try:
            self.reader.reconnect()
        except Exception as error:  # noqa: BLE001  # of a token provider, for example; it is tried again
            # not its text, which may hold what must not be logged
            logger.warning("group=%s: cannot reconnect yet: %s", group_id, type(error).__name__)

    def may_read(self) -> bool:
        """Return whether the group cannot have reassigned this consumer's partitions yet."""
        return bool(self.reader.reading) and self.member.holds_for(0)

    def quiet(self, now_ms: int) -> bool:
        """Return whether `step(0)` has nothing to do, apart from what is only checked a few times a second."""
        return (
            self.member.quiet_at(now_ms)
            and not self.committer.busy
            and self._topics.asked is None
            and not self.reader.waiting
            and (now_ms < self._auto_commit_at_ms or not self.config.enable_auto_commit)
        )

    def all_metrics(self) -> dict[str, float]:
        return self.member.metrics() | self.metrics.snapshot(len(self.coordinator.owned))

    def processed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets of these partitions to commit, without those already committed."""
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
        """Commit in the background, and remember the offsets so that they are not committed again."""
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
        message = "a commit in the background failed: %s%s"
        log_member(logger, level, lambda: snapshot, message, error, suffix)

    def note_committed(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Remember the committed offsets of partitions that are still owned."""
        owned = self.coordinator.owned
        self._committed |= {each: offset for each, offset in offsets.items() if each in owned}

    # Called by the coordinator (`PartitionReader`, `TopicSource`).

    def commit_before_join(self) -> None:
        if not self.config.enable_auto_commit or not self.coordinator.owned:
            return
        try:
            self._commit_owned()
        except GroupSdkError as error:
            logger.info(
                "group=%s: no commit before joining: %s", self.config.member.group_id, error
            )

    def commit_before_revocation(self, partitions: Collection[TopicPartition]) -> None:
        """Commit processed offsets if auto-commit is on. A failure is only logged: the rebalance goes on regardless."""
        if not self.config.enable_auto_commit:
            return
        try:
            offsets = self.processed(partitions)
            self.committer.commit(
                offsets, self._callback_timeout_ms(), repeatable_before_revocation
            )
            self.note_committed(offsets)
        except GroupSdkError as error:
            message = "offsets were not committed before revocation, and their records will be read again: %s"
            log_member(logger, logging.WARNING, self.member.snapshot, message, error)

    def lags(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self.reader.lags(partitions)

    def take(self, partitions: Collection[TopicPartition]) -> None:
        if not self.coordinator.owned.difference(partitions):  # the first ones
            self._auto_commit_at_ms = self.clock.now_ms() + self.config.auto_commit_interval_ms
        self.reader.take(partitions)

    def release(self, partitions: Collection[TopicPartition]) -> None:
        self.reader.release(partitions)
        for partition in partitions:
            self.stored.pop(partition, None)
            self._committed.pop(partition, None)

    def describe(self, topics: Collection[str] | None) -> TopicView:
        request = topics_request(topics, create=self.config.allow_auto_create_topics)
        return self.calls.call(request, read_topics, self._callback_timeout_ms())

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
