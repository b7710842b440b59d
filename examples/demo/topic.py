"""Keep the results in a real topic, one partition for each shard, through confluent-kafka."""

import time
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic  # admin has it too, but its types do not say so

from examples.demo.ledger import Record, ShardLedger
from groupsdk.clock import Deadline, SystemClock


_TIMEOUT_S = 30
_QUIET = {"log_level": 0}  # errors come as exceptions; librdkafka's own lines would tear the table


class Admin:
    """Makes and removes what the demo uses on a cluster."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, **_QUIET})

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with the cluster's own replication factor.

        Raises:
            KafkaException: the cluster refuses, or cannot be reached.
        """
        self._admin.create_topics(
            [NewTopic(topic, partitions, -1)],
            operation_timeout=_TIMEOUT_S,
            request_timeout=_TIMEOUT_S,
        )[topic].result()

    def remove(self, topic: str, group_id: str) -> None:
        """Delete the topic, and the group where it is still there.

        Raises:
            KafkaException: the cluster refuses, or cannot be reached.
            TimeoutError: the group kept a member for half a minute.
        """
        self._admin.delete_topics([topic], operation_timeout=_TIMEOUT_S)[topic].result()
        deadline = Deadline(SystemClock(), _TIMEOUT_S * 1000)
        while not self._delete_group(group_id):
            if deadline.expired:
                raise TimeoutError(f"group {group_id} still has members after {_TIMEOUT_S} s")
            time.sleep(0.2)

    def _delete_group(self, group_id: str) -> bool:
        """Delete a group that has no members; tell whether it is gone."""
        try:
            self._admin.delete_consumer_groups([group_id])[group_id].result()
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.NON_EMPTY_GROUP:  # a killed worker's session is not over yet
                return False
            if code != KafkaError.GROUP_ID_NOT_FOUND:
                raise
        return True


class ResultsWriter:
    """Writes records and waits until they are in the log."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._topic = topic
        # Idempotent: a retry inside librdkafka must not write a count twice.
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                **_QUIET,
            }
        )

    def write(self, records: Iterable[Record]) -> dict[int, int]:
        """Write records and return, for each shard, the offset of its last one.

        Raises:
            KafkaException: a record could not be written.
        """
        offsets: dict[int, int] = {}
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is not None:
                errors.append(error)
            elif partition is not None and offset is not None:
                offsets[partition] = offset

        for record in records:
            self._producer.produce(
                self._topic, record.to_bytes(), partition=record.shard, on_delivery=delivered
            )
        self._producer.flush()
        if errors:
            raise KafkaException(errors[0])
        return offsets


class ResultsReader:
    """Reads shards into their ledgers."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "unused",  # partitions are named, so it joins no group
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
                **_QUIET,
            }
        )

    def ends(self, shards: Iterable[int]) -> dict[int, int]:
        """Return the offset of the last record of each shard; -1 for none."""
        partitions = {shard: TopicPartition(self._topic, shard) for shard in shards}
        return {
            shard: self._consumer.get_watermark_offsets(partition, timeout=_TIMEOUT_S)[1] - 1
            for shard, partition in partitions.items()
        }

    def read(self, ledgers: Sequence[ShardLedger], up_to: Mapping[int, int]) -> None:
        """Take each ledger forward to the offset that `up_to` names for its shard.

        Raises:
            KafkaException: a partition cannot be read.
            TimeoutError: the records did not come within half a minute.
        """
        behind = {each.shard: each for each in ledgers if each.next_offset <= up_to[each.shard]}
        self._consumer.assign(
            [TopicPartition(self._topic, each.shard, each.next_offset) for each in behind.values()]
        )
        deadline = Deadline(SystemClock(), _TIMEOUT_S * 1000)
        while behind:
            for message in self._consumer.consume(num_messages=500, timeout=0.1):
                if message.error() is not None:
                    raise KafkaException(message.error())
                shard, offset, value = message.partition(), message.offset(), message.value()
                # what was fetched past the end stays unread: a ledger begins where it stopped
                if shard in behind and offset is not None and value is not None:
                    behind[shard].replay(offset, Record.of(value))
                    if behind[shard].next_offset > up_to[shard]:
                        del behind[shard]
            if deadline.expired:
                raise TimeoutError(f"shards {sorted(behind)} could not be read in {_TIMEOUT_S} s")
        self._consumer.unassign()

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
