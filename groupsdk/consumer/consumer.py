"""Read records as a member of a group: `GroupConsumer`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from confluent_kafka import (
    Consumer,
    KafkaException,
    Message,
    TopicPartition as NativePartition,
)

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock, Deadline, SystemClock
from groupsdk.consumer.commits import CommitCallback
from groupsdk.consumer.config import ConsumerConfig, refusal
from groupsdk.consumer.guard import OneUser
from groupsdk.consumer.listener import (
    CallbackListener,
    PartitionsCallback,
    RebalanceListener,
)
from groupsdk.consumer.natives import PartitionLike, native, offsets_of, plain
from groupsdk.consumer.read_loop import ReadLoop
from groupsdk.consumer.reader import Reader
from groupsdk.consumer.session import ConsumerSession
from groupsdk.consumer.subscription import TopicLike, TopicSubscription
from groupsdk.drivers.caller import checked_timeout_ms
from groupsdk.errors import ConfigError
from groupsdk.membership.recorder import RebalanceEvent
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import Generation, GroupMembershipOperation


class GroupConsumer:
    """A consumer whose membership is groupsdk's and whose records are librdkafka's.

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
        self._reader = Reader(
            self._make_native(dict(self._config.librdkafka)), self._config.auto_offset_reset
        )
        self._session = self._make_session()
        self._guard = OneUser()
        self._loop = ReadLoop(self._session, self._reader, self._guard, self._clock)
        self._closing = self._closed = False

    def _make_native(self, settings: dict[str, Any]) -> Consumer:
        try:
            return Consumer(settings)
        except KafkaException as error:
            raise ConfigError(refusal(error.args[0].str())) from error

    def _make_session(self) -> ConsumerSession:
        return ConsumerSession(self._config, self._reader, self._clock)

    @property
    def config(self) -> ConsumerConfig:
        """The settings."""
        return self._config

    # Subscribing.

    def subscribe(
        self,
        topics: TopicLike | Iterable[TopicLike],
        *,
        listener: RebalanceListener | object | None = None,
        on_assign: PartitionsCallback | None = None,
        on_revoke: PartitionsCallback | None = None,
        on_lost: PartitionsCallback | None = None,
    ) -> None:
        """Read these topics from the next `poll` on, in place of those before.

        Args:
            topics: names, and patterns: compiled, or texts that start with "^".
            listener: is told of partitions; see `RebalanceListener`.
            on_assign, on_revoke, on_lost: the same as functions, in place of a listener.

        Raises:
            ConfigError: a topic is no text or pattern, or a listener and functions are given.
        """
        functions = (on_assign, on_revoke, on_lost)
        if listener is not None and any(functions):
            raise ConfigError("give a listener or functions, not both")
        subscription = TopicSubscription(
            topics, exclude_internal=self._config.exclude_internal_topics
        )
        with self._guard:
            coordinator = self._session.coordinator
            chosen = listener if listener is not None else CallbackListener(*functions)
            coordinator.listener.listener = chosen
            joined = coordinator.subscription is not None
            coordinator.subscription = subscription
            if joined:
                self._session.member.request_rejoin("the subscription has changed")

    def unsubscribe(self) -> None:
        """Give everything up and leave the group, until the next `subscribe`."""
        with self._guard:
            self._session.member.leave_group("the consumer has unsubscribed")
            self._session.coordinator.subscription = None

    def subscription(self) -> tuple[str, ...]:
        """Return the topics subscribed to, with those that patterns have matched so far."""
        subscription = self._session.coordinator.subscription
        return () if subscription is None else subscription.topics

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that this consumer owns, sorted."""
        return sorted(self._session.coordinator.owned)

    # Reading.

    def poll(self, timeout: float | None = None) -> Message | None:
        """Return the next record, or an error of librdkafka's as a message.

        Args:
            timeout: seconds to wait at most; None or negative: for ever.

        Raises:
            GroupSdkError: what went wrong with the membership.
            Exception: whatever the listener raised.
        """
        return self._loop.read(timeout, self._reader.poll)

    def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[Message]:
        """Return up to so many records, librdkafka's own list of them.

        It waits for the first one for up to `timeout`, and for more of them for a twentieth of a second:
        what was handed out must be in the user's hands before the group may go on.

        Args:
            num_messages: how many at most.
            timeout: seconds to wait at most; None or negative: for ever.

        Raises:
            GroupSdkError: what went wrong with the membership.
            Exception: whatever the listener raised.
        """
        return self._loop.read(timeout, lambda s: self._reader.consume(num_messages, s)) or []

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

    # Positions.

    def give_back(self) -> None:
        """Have what the last `poll` or `consume` returned read again: it was not processed.

        Leaving a ``with`` block by an exception does that, so that nothing of it is committed. What was committed
        already stays so: another owner goes on after it.
        """
        with self._guard:
            self._reader.give_back()

    def pause(self, partitions: Iterable[PartitionLike]) -> None:
        """Return no more records of these until `resume`; they stay this consumer's own.

        Raises:
            ValueError: one is not assigned to this consumer.
        """
        with self._guard:
            self._reader.pause(plain(partitions))

    def resume(self, partitions: Iterable[PartitionLike]) -> None:
        """Return records of these again."""
        with self._guard:
            self._reader.resume(plain(partitions))

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions, sorted."""
        return sorted(self._reader.paused)

    def seek(self, partition: NativePartition) -> None:
        """Go on at the offset that the partition carries; in `on_partitions_assigned`: begin there.

        Raises:
            ValueError: it is not assigned to this consumer.
        """
        with self._guard:
            self._reader.seek(plain([partition])[0], partition.offset)

    def position(self, partitions: Iterable[PartitionLike]) -> list[NativePartition]:
        """Return the next offset of each partition; librdkafka's OFFSET_INVALID where that is not known."""
        wanted = plain(partitions)
        with self._guard:
            return [native(each, found) for each, found in self._reader.positions(wanted).items()]

    def committed(
        self, partitions: Iterable[PartitionLike], timeout: float | None = None
    ) -> list[NativePartition]:
        """Return the committed offset of each partition; OFFSET_INVALID where there is none.

        Args:
            partitions: any of the group's, owned or not.
            timeout: seconds to wait at most; None: default.api.timeout.ms.

        Raises:
            GroupSdkError: why there is no answer.
        """
        with self._guard:
            found = self._session.committed(plain(partitions), self._timeout_ms(timeout))
        return [native(each, found[each]) for each in plain(partitions)]

    def store_offsets(
        self, message: Message | None = None, offsets: Sequence[NativePartition] | None = None
    ) -> None:
        """Say what is processed, for the next commit; with enable.auto.offset.store=false.

        Args:
            message: the record that was processed last of its partition.
            offsets: partitions with the offset to go on at.

        Raises:
            ConfigError: the positions are committed as they are.
            ValueError: a partition is not assigned to this consumer.
        """
        if self._config.enable_auto_offset_store:
            raise ConfigError("store_offsets() needs enable.auto.offset.store=false")
        given = offsets_of(message, offsets)
        with self._guard:
            foreign = given.keys() - self._session.coordinator.owned
            if foreign:
                raise ValueError(f"{sorted(foreign)}: not assigned to this consumer")
            self._session.stored |= given

    def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[NativePartition] | None = None,
        *,
        asynchronous: bool = True,
        callback: CommitCallback | None = None,
        timeout: float | None = None,
    ) -> list[NativePartition]:
        """Commit offsets under this consumer's generation; the broker refuses them once that is over.

        Args:
            message: the record that was processed last: commits the offset after it.
            offsets: partitions with the offset to go on at. Without both: what was stored, or the positions.
            asynchronous: whether to return at once; `callback` is called in a later `poll`.
            callback: takes the error or None, and the offsets.
            timeout: seconds to wait at most for a synchronous one; None: default.api.timeout.ms.

        Returns:
            What is being committed, or has been.

        Raises:
            RebalanceInProgressError: the group rebalances: poll, then commit what is still owned.
            CommitFailedError: the group has gone on without this consumer.
            GroupSdkError: another error of a synchronous commit.
        """
        with self._guard:
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

    # The membership.

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
        """Return the current member id; "" where there is none."""
        return self._session.member.member_id()

    def events(self) -> tuple[RebalanceEvent, ...]:
        """Return the last 100 rebalances, oldest first."""
        return self._session.member.events()

    def metrics(self) -> dict[str, float]:
        """Return Kafka's coordinator metrics under Kafka's names, `CONSUMER_METRICS` among them."""
        return self._session.all_metrics()

    def enforce_rebalance(self, reason: str = "the user asked for it") -> None:
        """Ask for a rebalance at the next `poll` (KIP-568); the reason is shown in the broker's log."""
        self._session.member.request_rejoin(reason)

    def wakeup(self) -> None:
        """Make a waiting `poll` or `consume` return soon, once; signal handlers may call it."""
        self._loop.wakeup()

    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Commit, give everything up, leave the group (or not, see `operation`). Harmless when repeated.

        Args:
            timeout: seconds to wait at most, the last commit included; the consumer is closed in any case.
            operation: whether to leave (KIP-1092).

        Raises:
            Exception: whatever the listener raised; the consumer is closed all the same.
        """
        if self._closed or self._closing or self._guard.forked:
            return
        with self._guard.closing():
            self._closing = True
            self._session.close_by = Deadline(self._clock, checked_timeout_ms(timeout))
            try:
                self._session.member.close(timeout, operation)
                self._session.committer.settle(last=True)
            finally:
                self._closed = self._guard.closed = True
                self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None and not self._closed and not self._guard.forked:
                self.give_back()
        finally:
            self.close()

    # Details.

    def _timeout_ms(self, timeout: float | None) -> int:
        given = checked_timeout_ms(timeout)
        return self._config.default_api_timeout_ms if given is None else given
