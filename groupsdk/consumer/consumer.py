"""The group consumer: `GroupConsumer`."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, Unpack, overload

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition as NativePartition

from groupsdk.assignment import TopicPartition
from groupsdk.assignment.member_report import GREATEST_LOAD, is_load
from groupsdk.clock import Clock, Deadline, SystemClock
from groupsdk.consumer.calls import ask_brokers
from groupsdk.consumer.commits import CommitCallback
from groupsdk.consumer.config import ConsumerConfig, refusal
from groupsdk.consumer.confluent_types import (
    ClusterMetadata,
    PartitionLike,
    check_with_offset,
    native,
    offsets_of,
    plain,
    plain_one,
    with_times,
)
from groupsdk.consumer.guard import OneUser, guarded
from groupsdk.consumer.listener import PartitionsCallback, RebalanceListener, listener_of
from groupsdk.consumer.read_loop import ReadLoop
from groupsdk.consumer.reader import Reader
from groupsdk.consumer.session import ConsumerSession
from groupsdk.consumer.subscription import TopicLike, TopicSubscription
from groupsdk.drivers.caller import checked_timeout_ms
from groupsdk.errors import ConfigError
from groupsdk.lazy_imports import override
from groupsdk.member.recorder import RebalanceEvent
from groupsdk.settings.librdkafka import LibrdkafkaLog, NewCredentials, TokenCallback
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import Generation, GroupMembershipOperation


if TYPE_CHECKING:
    from groupsdk.consumer.keywords import ConsumerSettings

_LIBRDKAFKA: Final = logging.getLogger("groupsdk.settings.librdkafka")

T = TypeVar("T")


class GroupConsumer:
    """A consumer with groupsdk's group membership that reads records through librdkafka.

    The interface is that of confluent-kafka's `Consumer`, with any assignor, the generation, and a listener
    whose exceptions come out of `poll`. It shares its group with Java's, librdkafka's and other consumers.

    `poll` (or `consume`) has to be called at least every max.poll.interval.ms, or the consumer leaves the
    group. Heartbeats go on in the background meanwhile. One thread at a time uses a consumer; `wakeup`,
    `snapshot`, `generation`, `generation_if_stable` and `member_id` may be called from any.

    Args:
        settings: Kafka's keys, those of librdkafka for reading among them; see `ConsumerConfig`.
        clock: the time; for tests.
        keywords: the same as keywords, e.g. ``group_id="..."``.

    Raises:
        ConfigError: a setting is unknown, missing or wrong.
    """

    @overload
    def __init__(
        self,
        settings: Mapping[str, Any] | ConsumerConfig | None = None,
        /,
        *,
        clock: Clock | None = None,
        **keywords: "Unpack[ConsumerSettings]",
    ) -> None: ...

    @overload
    def __init__(
        self,
        settings: Mapping[str, Any] | ConsumerConfig | None = None,
        /,
        *,
        clock: Clock | None = None,
        **keywords: Any,  # of librdkafka
    ) -> None: ...

    def __init__(
        self,
        settings: Mapping[str, Any] | ConsumerConfig | None = None,
        /,
        *,
        clock: Clock | None = None,
        **keywords: Any,
    ) -> None:
        if isinstance(settings, ConsumerConfig):
            if keywords:
                raise ConfigError("give a ConsumerConfig or keywords, not both")
            self._config = settings
        else:
            self._config = ConsumerConfig.of(settings, **keywords)
        self._clock = clock or SystemClock()
        settings_of_native = dict(self._config.librdkafka)
        log = LibrdkafkaLog(_LIBRDKAFKA, f"group={self._config.member.group_id}", self._clock)
        settings_of_native.setdefault("logger", log)
        credentials = NewCredentials.given(self._config.member.security, settings_of_native)
        make = self._make_native  # the reader keeps it, and must not keep this consumer
        self._reader = Reader(
            lambda: make(settings_of_native),
            self._config.auto_offset_reset,
            credentials,
        )
        self._session = self._make_session()
        self._session.end_with(self)
        self._guard = OneUser()
        self._loop = ReadLoop(self._session, self._reader, self._guard, self._clock)
        self._closing = self._closed = False

    @staticmethod
    def _make_native(settings: dict[str, Any]) -> Consumer:
        callback = settings.get("oauth_cb")
        if isinstance(callback, TokenCallback):
            callback.check()
        try:
            return Consumer(settings)
        except KafkaException as error:
            if isinstance(callback, TokenCallback) and callback.error is not None:
                raise callback.error from error  # librdkafka only knows that there is no token
            raise ConfigError(refusal(error.args[0].str())) from error

    def _make_session(self) -> ConsumerSession:
        return ConsumerSession(self._config, self._reader, self._clock)

    @property
    def config(self) -> ConsumerConfig:
        """The settings."""
        return self._config

    @guarded
    def subscribe(
        self,
        topics: TopicLike | Iterable[TopicLike],
        *,
        listener: RebalanceListener | object | None = None,
        on_assign: PartitionsCallback | None = None,
        on_revoke: PartitionsCallback | None = None,
        on_lost: PartitionsCallback | None = None,
    ) -> None:
        """Subscribe to topics, in place of the previous subscription; they are read from the next `poll` on.

        Args:
            topics: names, and patterns: compiled, or texts that start with "^"; or a `SubscriptionPattern`.
            listener: called with assigned and revoked partitions; see `RebalanceListener`.
            on_assign: called with assigned partitions, in place of the listener's method.
            on_revoke: likewise, with revoked ones.
            on_lost: likewise, with lost ones.

        Raises:
            ConfigError: a topic is neither a string nor a pattern, a listener and functions are given, or one of them
                cannot be called with one argument.
        """
        chosen = listener_of(listener, on_assign, on_revoke, on_lost)
        subscription = TopicSubscription(
            topics, exclude_internal=self._config.exclude_internal_topics
        )
        coordinator = self._session.coordinator
        self._session.check(subscription)
        coordinator.listener.listener = chosen
        if coordinator.subscription is not None:
            # first: a Ctrl-C in between costs a rebalance then, and loses none
            self._session.member.request_rejoin("the subscription has changed")
        coordinator.subscription = subscription

    @guarded
    def unsubscribe(self) -> None:
        """Revoke all partitions and leave the group until the next `subscribe`."""
        self._session.member.leave_group("the consumer has unsubscribed")
        self._session.coordinator.subscription = None

    def subscription(self) -> tuple[str, ...]:
        """Return the topics subscribed to, with those that patterns have matched so far."""
        subscription = self._session.coordinator.subscription
        return () if subscription is None else subscription.topics

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that this consumer owns, sorted."""
        return sorted(self._session.coordinator.owned)

    def poll(self, timeout: float | None = None) -> Message | None:
        """Return the next record, or a message that carries an error of librdkafka.

        Args:
            timeout: the longest wait, in seconds; None or negative: no limit.

        Raises:
            GroupSdkError: what went wrong with the membership.
            Exception: whatever the listener raised.
        """
        return self._loop.read(timeout, self._reader.poll)

    def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[Message]:
        """Return a list of up to `num_messages` records.

        It waits for the first one for up to `timeout`, and for more of them for a twentieth of a second:
        what was handed out must be in the user's hands before the group may go on.

        Args:
            num_messages: how many at most; 0 looks after the membership and returns.
            timeout: the longest wait, in seconds; None or negative: no limit.

        Raises:
            ValueError: `num_messages` is not from 0 to 1,000,000.
            GroupSdkError: what went wrong with the membership.
            Exception: whatever the listener raised.
        """
        return self._loop.consume(num_messages, timeout)

    def __iter__(self) -> Iterator[Message]:
        """Yield records until the consumer is closed or woken.

        Raises:
            KafkaException: an error of librdkafka's.
        """
        while not self._closed:
            message = self.poll()
            if message is None:
                return
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            yield message

    @guarded
    def give_back(self) -> None:
        """Rewind to read the records of the last `poll` or `consume` again, as they were not processed.

        Leaving a ``with`` block by an exception does that, so that nothing of it is committed. What was committed
        already stays so: another owner goes on after it.
        """
        self._reader.give_back()

    @guarded
    def count_processed(self) -> None:
        """Mark the records of the last `poll` or `consume` as processed now instead of at the next call.

        From here on `give_back` gives none of it back, and an interrupted read brings none of it a second time. For
        whoever commits elsewhere, as transactions do.
        """
        self._reader.settle()

    @guarded
    def pause(self, partitions: Iterable[PartitionLike]) -> None:
        """Pause partitions: return none of their records until `resume`; the consumer keeps owning them.

        Raises:
            TypeError: the argument is not a list of partitions.
            ValueError: one is not assigned to this consumer.
        """
        self._reader.pause(plain(partitions))

    @guarded
    def resume(self, partitions: Iterable[PartitionLike]) -> None:
        """Resume paused partitions; one that is not paused is left alone.

        Raises:
            TypeError: the argument is not a list of partitions.
            ValueError: one is not assigned to this consumer.
        """
        self._reader.resume(plain(partitions))

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions, sorted."""
        return sorted(self._reader.paused)

    @guarded
    def seek(self, partition: NativePartition) -> None:
        """Seek to the offset that the partition carries; in `on_partitions_assigned`, it sets the start offset.

        Raises:
            TypeError: it is not a partition with an offset.
            ValueError: it is not assigned to this consumer.
        """
        check_with_offset(partition)
        self._reader.seek(plain_one(partition), partition.offset)

    @guarded
    def position(self, partitions: Iterable[PartitionLike]) -> list[NativePartition]:
        """Return the next offset of each partition, assigned or not; OFFSET_INVALID (librdkafka's) where that is not known."""
        wanted = plain(partitions)
        return [native(each, found) for each, found in self._reader.positions(wanted).items()]

    @guarded
    def committed(
        self, partitions: Iterable[PartitionLike], timeout: float | None = None
    ) -> list[NativePartition]:
        """Return the committed offset of any partitions; OFFSET_INVALID where there is none.

        Args:
            timeout: seconds to wait at most; None: default.api.timeout.ms.

        Raises:
            GroupSdkError: there is no response in time, or an error response.
        """
        wanted = plain(partitions)
        offsets = self._session.start_offsets.committed(wanted, self._timeout_ms(timeout))
        return [native(each, offsets[each]) for each in wanted]

    @guarded
    def store_offsets(
        self, message: Message | None = None, offsets: Sequence[NativePartition] | None = None
    ) -> None:
        """Store offsets of processed records for the next commit; requires enable.auto.offset.store=false.

        Args:
            message: the record that was processed last of its partition.
            offsets: partitions with the offset to read next.

        Raises:
            ConfigError: the positions are committed as they are.
            ValueError: a partition is not assigned to this consumer.
        """
        if self._config.enable_auto_offset_store:
            raise ConfigError("store_offsets() needs enable.auto.offset.store=false")
        given = offsets_of(message, offsets)
        foreign = given.keys() - self._session.coordinator.owned
        if foreign:
            raise ValueError(f"{sorted(foreign)}: not assigned to this consumer")
        self._session.stored |= given

    @guarded
    def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[NativePartition] | None = None,
        *,
        asynchronous: bool = True,
        callback: CommitCallback | None = None,
        timeout: float | None = None,
    ) -> list[NativePartition]:
        """Commit offsets under this consumer's generation; the broker refuses them after it has ended.

        Args:
            message: the record that was processed last: commits the offset after it.
            offsets: partitions with the offset to read next. Without both: the stored offsets, or the positions.
            asynchronous: whether to return at once; `callback` is called in a later `poll`.
            callback: takes the error or None, and the offsets.
            timeout: seconds to wait at most for a synchronous one; None: default.api.timeout.ms.

        Returns:
            The offsets that are being committed, or have been.

        Raises:
            RebalanceInProgressError: the group rebalances: poll, then commit what is still owned.
            CommitFailedError: the consumer is no longer a member of the generation.
            GroupSdkError: another error of a synchronous commit.
        """
        session = self._session
        if message is None and offsets is None:
            given = session.processed(session.coordinator.owned)
        else:
            given = offsets_of(message, offsets)
        if not asynchronous:
            session.committer.commit(given, self._timeout_ms(timeout))
            session.note_committed(given)
        else:
            session.commit_async(given, callback)
        return [native(each, offset) for each, offset in given.items()]

    @guarded
    def get_watermark_offsets(
        self, partition: PartitionLike, timeout: float | None = None, *, cached: bool = False
    ) -> tuple[int, int]:
        """Return the first offset of any partition, and the one after its last record.

        Args:
            timeout: seconds to wait at most; None: default.api.timeout.ms.
            cached: whether what librdkafka last saw while it read will do; OFFSET_INVALID where it has seen nothing.

        Raises:
            KafkaException: there is no response in time, or an error response.
        """
        where = plain_one(partition)
        read = self._reader.watermarks
        return self._ask_brokers(
            "get_watermark_offsets", timeout, lambda s: read(where, s, cached=cached)
        )

    @guarded
    def offsets_for_times(
        self, partitions: Iterable[NativePartition], timeout: float | None = None
    ) -> list[NativePartition]:
        """Return, for each partition, the first offset whose timestamp is at or after a given time.

        Args:
            partitions: any partitions, with the time as their `offset`, in milliseconds since 1970.
            timeout: seconds to wait at most; None: default.api.timeout.ms.

        Returns:
            The partitions with the offset; OFFSET_END (-1) where every record is older. A partition of which nothing
            is known has its `error` set.

        Raises:
            KafkaException: there is no response in time, or an error response.
        """
        asked = with_times(partitions)
        find = self._reader.native.offsets_for_times
        return self._ask_brokers("offsets_for_times", timeout, lambda s: find(asked, s))

    @guarded
    def list_topics(
        self, topic: str | None = None, timeout: float | None = None
    ) -> ClusterMetadata:
        """Return the cluster's brokers and topics, or one topic.

        Args:
            timeout: seconds to wait at most; None: default.api.timeout.ms.

        Raises:
            KafkaException: there is no response in time, or an error response.
        """
        return self._ask_brokers("list_topics", timeout, lambda s: self._reader.topics(topic, s))

    def _ask_brokers(self, what: str, timeout: float | None, ask: Callable[[float], T]) -> T:
        servers, member = self._config.member.bootstrap_servers, self._session.member
        return ask_brokers(what, self._timeout_ms(timeout) / 1000, servers, member.snapshot, ask)

    @property
    def group_protocol(self) -> Literal["classic", "consumer"]:
        """The protocol in use; with group.protocol=auto it becomes the classic one where the broker refuses the other."""
        return self._session.protocol.name

    def consumer_group_metadata(self) -> bytes:
        """Return what `Producer.send_offsets_to_transaction` takes: ``snapshot().to_confluent()``.

        Raises:
            NoGenerationError: the consumer is in no generation, and nothing would be fenced.
        """
        return self.snapshot().to_confluent()

    def snapshot(self) -> MemberSnapshot:
        """Return generation, member id, state and assignment epoch, read at once.

        ``snapshot().to_confluent()`` is what `Producer.send_offsets_to_transaction` takes.
        """
        return self._session.member.snapshot()

    def generation(self) -> Generation:
        """Return the current generation, stable or not."""
        return self._session.member.generation()

    def generation_if_stable(self) -> Generation | None:
        """Return the current generation if it is stable and the session is certainly alive, else None."""
        return self._session.member.generation_if_stable()

    def member_id(self) -> str:
        """Return the current member id; "" while there is none."""
        return self._session.member.member_id()

    def memberid(self) -> str:
        """Return `member_id()`, under confluent-kafka's name for it."""
        return self.member_id()

    def events(self) -> tuple[RebalanceEvent, ...]:
        """Return the last 100 rebalances, oldest first."""
        return self._session.member.events()

    def metrics(self) -> dict[str, float]:
        """Return Kafka's coordinator metrics under Kafka's names, `CONSUMER_METRICS` among them."""
        return self._session.all_metrics()

    def enforce_rebalance(self, reason: str = "the user asked for it") -> None:
        """Request a rebalance at the next `poll` (KIP-568), with a reason for the broker's log.

        In the consumer protocol the broker decides when to rebalance: then this only evaluates the subscription
        again.
        """
        self._session.member.request_rejoin(reason)

    def report_load(self, load: float | None) -> None:
        """Report how loaded this consumer is, in a unit of the program's own; it goes to the leader with the next join.

        Assignors with `reads_reports` see it as `Subscription.report.load`. In the consumer protocol (KIP-848) it has
        no effect.

        Args:
            load: 0 to 1e15; None: nothing is reported.

        Raises:
            ValueError: it is not in these bounds.
        """
        if load is not None and not is_load(load):
            raise ValueError(f"a load must be 0 to {GREATEST_LOAD:g}, or None, not {load!r}")
        self._session.report_load(load)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Use these credentials for connections opened from now on. Thread-safe.

        librdkafka, which reads, gets them at the next `poll` or `consume`.

        Raises:
            ConfigError: the consumer does not authenticate by PLAIN or SCRAM, or they cannot be used.
            MemberClosedError: the consumer is closed.
        """
        self._session.member.set_sasl_credentials(username, password)
        self._reader.credentials.put(username, password)

    def wakeup(self) -> None:
        """Make a waiting `poll` or `consume` return early, once. Thread-safe; signal handlers may call it."""
        self._loop.wakeup()

    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Commit, revoke all partitions and leave the group (or not, see `operation`). Harmless when repeated.

        Args:
            timeout: seconds to wait at most, the last commit included; the consumer is closed in any case.
            operation: whether to leave (KIP-1092).

        Raises:
            Exception: whatever the listener raised; the consumer is closed all the same.
        """
        if self._closed or self._closing or self._guard.forked:
            return
        deadline = Deadline(self._clock, checked_timeout_ms(timeout))

        def close() -> None:
            try:
                self._closing = True
                self._session.close_by = deadline
                self._session.member.close(timeout, operation)
                self._session.committer.settle(last=True)
            finally:
                self._closed = self._guard.closed = True
                self._reader.close()

        self._guard.run(close, driving=True)

    @override
    def __repr__(self) -> str:
        snapshot = self.snapshot()
        state = "closed" if self._closed else snapshot.state.name.lower()
        return (
            f"GroupConsumer(group={snapshot.group_id!r}, member={snapshot.member_id!r},"
            f" generation={snapshot.generation.generation_id}, {state}, owns={len(self._session.coordinator.owned)})"
        )

    # For `AsyncGroupConsumer`, whose callers may stop waiting.

    @property
    def reads(self) -> ReadLoop:
        """The read loop behind `poll` and `consume`, whose reads can be cancelled one by one."""
        return self._loop

    def call_until(self, given_up: "Future[None]", call: Callable[[], T]) -> T:
        """Make a blocking call of this consumer, on this thread, that ends early once a future is done.

        Raises CallGivenUpError if it was done first, by any thread. Requests that were sent go on.
        """
        calls = self._session.calls
        outer, calls.given_up = calls.given_up, given_up
        try:
            return call()
        finally:
            calls.given_up = outer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None and not self._closed and not self._guard.forked:
                self.give_back()
        finally:
            self.close()

    def _timeout_ms(self, timeout: float | None) -> int:
        given = checked_timeout_ms(timeout)
        return self._config.default_api_timeout_ms if given is None else given
