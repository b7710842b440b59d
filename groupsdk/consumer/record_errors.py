"""Decide about records that a handler cannot process: retries, then stop, skip or dead letter."""

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, Literal

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types miss its __all__
    AdminClient,
    NewTopic,
)

from groupsdk.assignment import TopicPartition
from groupsdk.dead_letters import ErrantRecord, context_headers
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.settings.backoff import ExponentialBackoff


logger = logging.getLogger(__name__)

ErrorAction = Literal["stop", "skip", "dead-letter"]
DeadLetterWriter = Callable[[ErrantRecord], None]
"""Writes a record to the dead letter topic, and returns once it is stored; raises what prevents that."""

_STAGE: Final = "TASK_PUT"
_WRITE_S: Final = 60.0
_MAX_TRACE: Final = 20_000
_MAX_MESSAGE: Final = 2_000


class DeadLetterError(GroupSdkError):
    """A record could not be processed, and not be written to the dead letter topic either."""


@dataclass(frozen=True, slots=True)
class RecordErrorPolicy:
    """What becomes of a record whose handler raises.

    Raises:
        ConfigError: `retries` is negative, or an action is unknown.
    """

    action: ErrorAction = "stop"
    """After the last attempt: "stop" ends the run before the record is committed, "skip" logs it and goes on,
    "dead-letter" writes it to the dead letter topic and goes on."""
    retries: int = 0
    """How many times the handler is called again. Meanwhile the record's partition waits, and the others go on."""
    backoff: ExponentialBackoff = field(default=ExponentialBackoff(300, 60_000))
    """How long to wait before each of these calls."""

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ConfigError(f"retries must not be negative, but is {self.retries}")
        if self.action not in ("stop", "skip", "dead-letter"):
            raise ConfigError(f"on-error must be stop, skip or dead-letter, not {self.action!r}")


class RecordErrors:
    """Carries out a `RecordErrorPolicy`; the `on_error` of a `PartitionProcessor`.

    Called on the processor's threads, for one record of a partition at a time.

    Args:
        group_id: the group, which the headers of dead letters name as the connector.
        handler: the handler's name, for the headers.
        write: writes dead letters; needed if the policy's action is "dead-letter".

    Raises:
        ConfigError: the policy writes dead letters, and `write` is missing.
    """

    def __init__(
        self,
        policy: RecordErrorPolicy,
        *,
        group_id: str,
        handler: str,
        write: DeadLetterWriter | None = None,
        random: Random | None = None,
    ) -> None:
        if policy.action == "dead-letter" and write is None:
            raise ConfigError("dead letters need a topic: give --dead-letter-topic NAME")
        self._policy = policy
        self._group_id = group_id
        self._handler = handler
        self._write = write
        self._random = random or Random()
        self._attempts: dict[TopicPartition, tuple[int, int]] = {}
        """The record that fails in each partition: its offset, and how many attempts there were."""

    def __call__(self, message: Message, error: Exception) -> bool | float:
        """Return the seconds until the next attempt, or whether to pass over the record.

        Raises:
            DeadLetterError: the dead letter could not be written.
        """
        record = ErrantRecord.of(message)
        attempts = self._count(record)
        if attempts <= self._policy.retries:
            delay_ms = self._policy.backoff.backoff_ms(attempts - 1, self._random)
            logger.warning(
                "group=%s: handling %s key=%.60r failed, attempt %d of %d, again in %d ms: %r",
                self._group_id,
                record.place,
                record.key,
                attempts,
                self._policy.retries + 1,
                delay_ms,
                error,
            )
            return max(delay_ms, 1) / 1000
        self._attempts.pop(_partition(record), None)
        if self._policy.action == "stop":
            return False
        logger.error(
            "group=%s: handling %s key=%.60r failed at attempt %d, %s",
            self._group_id,
            record.place,
            record.key,
            attempts,
            "skipping it" if self._write is None else "writing it to the dead letter topic",
            exc_info=error,
        )
        if self._policy.action == "dead-letter":
            self._bury(record, error)
        return True

    def _count(self, record: ErrantRecord) -> int:
        where, offset = _partition(record), record.offset or 0
        last_offset, attempts = self._attempts.get(where, (-1, 0))
        attempts = attempts + 1 if last_offset == offset else 1
        self._attempts[where] = (offset, attempts)
        return attempts

    def _bury(self, record: ErrantRecord, error: Exception) -> None:
        assert self._write is not None
        try:
            self._write(dead_letter(record, error, group_id=self._group_id, handler=self._handler))
        except Exception as failure:  # noqa: BLE001  # whatever prevents the write
            raise DeadLetterError(
                f"the record {record.place} could not be processed, nor written to the dead letter topic: {failure}"
            ) from error


def dead_letter(
    record: object, error: BaseException, *, group_id: str, handler: str
) -> ErrantRecord:
    """Return a record with the headers of a dead letter (KIP-298) added to its own.

    In a `TransactionLoop` write its parts by `Transaction.produce`: then the dead letter is in the transaction, and is
    there exactly once.

    Args:
        record: a message of confluent-kafka, or an `ErrantRecord`.
        error: why it cannot be processed.
        group_id: the group that reads it.
        handler: the name of what failed.
    """
    errant = ErrantRecord.of(record)
    kind = type(error)
    headers = context_headers(
        errant,
        connector=group_id,
        task=0,
        stage=_STAGE,
        class_name=handler,
        error_class=f"{kind.__module__}.{kind.__qualname__}",
        message=str(error)[:_MAX_MESSAGE],
        trace="".join(traceback.format_exception(error))[-_MAX_TRACE:],
    )
    return replace(errant, headers=(*errant.headers, *headers))


class DeadLetterProducer:
    """Writes dead letters to one topic, and creates the topic if it is missing and the cluster allows it.

    Args:
        settings: librdkafka's configuration of a client: servers, security.
        topic: the topic.

    Raises:
        ConfigError: the topic does not exist and could not be created.
    """

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._topic = topic
        self._ensure_topic(AdminClient(settings))
        # in order, once, and stored by all replicas: a dead letter is the only copy that anybody will look at
        self._producer = Producer({**settings, "enable.idempotence": True, "acks": "all"})

    def __call__(self, record: ErrantRecord) -> None:
        """Write a record, and wait until Kafka has stored it. Thread-safe.

        It gets the time of the write: with that of an old record, Kafka's retention could delete it at once.

        Raises:
            KafkaException: it was not stored.
        """
        failures: list[KafkaError | None] = []
        self._producer.produce(
            self._topic,
            record.value,
            record.key,
            headers=list(record.headers),
            on_delivery=lambda error, _: failures.append(error),
        )
        self._producer.flush(_WRITE_S)
        if not failures:
            raise TimeoutError(f"{self._topic} did not take it within {_WRITE_S:g} s")
        if failures[0] is not None:
            raise KafkaException(failures[0])

    def _ensure_topic(self, admin: AdminClient) -> None:
        try:
            if self._topic in admin.list_topics(timeout=10).topics:
                return
            future = admin.create_topics([NewTopic(self._topic, -1, -1)], operation_timeout=10)
            future[self._topic].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            raise ConfigError(
                f"--dead-letter-topic: {self._topic} does not exist and could not be created: {error.args[0].str()}"
            ) from error


def _partition(record: ErrantRecord) -> TopicPartition:
    return TopicPartition(record.topic or "", record.partition or 0)
