"""The methods of `AsyncGroupConsumer` that only pass calls on.

Generated from `GroupConsumer` by `python -m docs.list_async_calls`: change the methods and docstrings there.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal, TypeVar

from confluent_kafka import Message, TopicPartition as NativePartition

from groupsdk.assignment import TopicPartition
from groupsdk.consumer.config import ConsumerConfig
from groupsdk.consumer.confluent_types import ClusterMetadata, PartitionLike
from groupsdk.consumer.consumer import GroupConsumer
from groupsdk.member.recorder import RebalanceEvent
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import Generation


T = TypeVar("T")


class AsyncConsumerCalls:
    """The calls that `AsyncGroupConsumer` passes on to a `GroupConsumer` as they are."""

    _consumer: GroupConsumer

    async def _run(self, work: Callable[[], T]) -> T:
        raise NotImplementedError

    async def unsubscribe(self) -> None:
        """Revoke all partitions and leave the group until the next `subscribe`."""
        work = self._consumer.unsubscribe
        await self._run(work)

    async def store_offsets(
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
        work = partial(self._consumer.store_offsets, message, offsets)
        await self._run(work)

    async def committed(
        self, partitions: Iterable[PartitionLike], timeout: float | None = None
    ) -> list[NativePartition]:
        """Return the committed offset of any partitions; OFFSET_INVALID where there is none.

        Args:
            timeout: seconds to wait at most; None: default.api.timeout.ms.

        Raises:
            GroupSdkError: there is no response in time, or an error response.
        """
        work = partial(self._consumer.committed, list(partitions), timeout)
        return await self._run(work)

    async def position(self, partitions: Iterable[PartitionLike]) -> list[NativePartition]:
        """Return the next offset of each partition, assigned or not; OFFSET_INVALID (librdkafka's) where that is not known."""
        work = partial(self._consumer.position, list(partitions))
        return await self._run(work)

    async def give_back(self) -> None:
        """Rewind to read the records of the last `poll` or `consume` again, as they were not processed.

        Leaving a ``with`` block by an exception does that, so that nothing of it is committed. What was committed
        already stays so: another owner goes on after it.
        """
        work = self._consumer.give_back
        await self._run(work)

    async def count_processed(self) -> None:
        """Mark the records of the last `poll` or `consume` as processed now instead of at the next call.

        From here on `give_back` gives none of it back, and an interrupted read brings none of it a second time. For
        whoever commits elsewhere, as transactions do.
        """
        work = self._consumer.count_processed
        await self._run(work)

    async def seek(self, partition: NativePartition) -> None:
        """Seek to the offset that the partition carries; in `on_partitions_assigned`, it sets the start offset.

        Raises:
            TypeError: it is not a partition with an offset.
            ValueError: it is not assigned to this consumer.
        """
        work = partial(self._consumer.seek, partition)
        await self._run(work)

    async def pause(self, partitions: Iterable[PartitionLike]) -> None:
        """Pause partitions: return none of their records until `resume`; the consumer keeps owning them.

        Raises:
            TypeError: the argument is not a list of partitions.
            ValueError: one is not assigned to this consumer.
        """
        work = partial(self._consumer.pause, list(partitions))
        await self._run(work)

    async def resume(self, partitions: Iterable[PartitionLike]) -> None:
        """Resume paused partitions; one that is not paused is left alone.

        Raises:
            TypeError: the argument is not a list of partitions.
            ValueError: one is not assigned to this consumer.
        """
        work = partial(self._consumer.resume, list(partitions))
        await self._run(work)

    async def get_watermark_offsets(
        self, partition: PartitionLike, timeout: float | None = None, *, cached: bool = False
    ) -> tuple[int, int]:
        """Return the first offset of any partition, and the one after its last record.

        Args:
            timeout: seconds to wait at most; None: default.api.timeout.ms.
            cached: whether what librdkafka last saw while it read will do; OFFSET_INVALID where it has seen nothing.

        Raises:
            KafkaException: there is no response in time, or an error response.
        """
        work = partial(self._consumer.get_watermark_offsets, partition, timeout, cached=cached)
        return await self._run(work)

    async def offsets_for_times(
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
        work = partial(self._consumer.offsets_for_times, list(partitions), timeout)
        return await self._run(work)

    async def list_topics(
        self, topic: str | None = None, timeout: float | None = None
    ) -> ClusterMetadata:
        """Return the cluster's brokers and topics, or one topic.

        Args:
            timeout: seconds to wait at most; None: default.api.timeout.ms.

        Raises:
            KafkaException: there is no response in time, or an error response.
        """
        work = partial(self._consumer.list_topics, topic, timeout)
        return await self._run(work)

    @property
    def config(self) -> ConsumerConfig:
        """The settings."""
        return self._consumer.config

    def metrics(self) -> dict[str, float]:
        """Return Kafka's coordinator metrics under Kafka's names, `CONSUMER_METRICS` among them."""
        return self._consumer.metrics()

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions, sorted."""
        return self._consumer.paused()

    def subscription(self) -> tuple[str, ...]:
        """Return the topics subscribed to, with those that patterns have matched so far."""
        return self._consumer.subscription()

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that this consumer owns, sorted."""
        return self._consumer.assignment()

    @property
    def group_protocol(self) -> Literal["classic", "consumer"]:
        """The protocol in use; with group.protocol=auto it becomes the classic one where the broker refuses the other."""
        return self._consumer.group_protocol

    def snapshot(self) -> MemberSnapshot:
        """Return generation, member id, state and assignment epoch, read at once.

        ``snapshot().to_confluent()`` is what `Producer.send_offsets_to_transaction` takes.
        """
        return self._consumer.snapshot()

    def generation(self) -> Generation:
        """Return the current generation, stable or not."""
        return self._consumer.generation()

    def generation_if_stable(self) -> Generation | None:
        """Return the current generation if it is stable and the session is certainly alive, else None."""
        return self._consumer.generation_if_stable()

    def member_id(self) -> str:
        """Return the current member id; "" while there is none."""
        return self._consumer.member_id()

    def memberid(self) -> str:
        """Return `member_id()`, under confluent-kafka's name for it."""
        return self._consumer.memberid()

    def consumer_group_metadata(self) -> bytes:
        """Return what `Producer.send_offsets_to_transaction` takes: ``snapshot().to_confluent()``.

        Raises:
            NoGenerationError: the consumer is in no generation, and nothing would be fenced.
        """
        return self._consumer.consumer_group_metadata()

    def events(self) -> tuple[RebalanceEvent, ...]:
        """Return the last 100 rebalances, oldest first."""
        return self._consumer.events()

    def enforce_rebalance(self, reason: str = "the user asked for it") -> None:
        """Request a rebalance at the next `poll` (KIP-568), with a reason for the broker's log.

        In the consumer protocol the broker decides when to rebalance: then this only evaluates the subscription
        again.
        """
        self._consumer.enforce_rebalance(reason)

    def report_load(self, load: float | None) -> None:
        """Report how loaded this consumer is, in a unit of the program's own; it goes to the leader with the next join.

        Assignors with `reads_reports` see it as `Subscription.report.load`. In the consumer protocol (KIP-848) it has
        no effect.

        Args:
            load: 0 to 1e15; None: nothing is reported.

        Raises:
            ValueError: it is not in these bounds.
        """
        self._consumer.report_load(load)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Use these credentials for connections opened from now on. Thread-safe.

        librdkafka, which reads, gets them at the next `poll` or `consume`.

        Raises:
            ConfigError: the consumer does not authenticate by PLAIN or SCRAM, or they cannot be used.
            MemberClosedError: the consumer is closed.
        """
        self._consumer.set_sasl_credentials(username, password)

    def wakeup(self) -> None:
        """Make a waiting `poll` or `consume` return early, once. Thread-safe; signal handlers may call it."""
        self._consumer.wakeup()
