"""Consume, change and produce, each record exactly once: `TransactionLoop`."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from groupsdk.clock import Clock, Deadline, SystemClock
from groupsdk.consumer.confluent_types import native, offsets_of
from groupsdk.consumer.consumer import GroupConsumer
from groupsdk.coordinator import refuse_unrun
from groupsdk.errors import (
    ConfigError,
    MemberClosedError,
    NoGenerationError,
    TransactionFatalError,
)
from groupsdk.settings.librdkafka import LibrdkafkaLog
from groupsdk.snapshot import log_member


logger = logging.getLogger(__name__)

_TRY_S: Final = 5.0
"""How long one attempt of librdkafka's may take; it goes on where the last one stopped."""
_HUNG_S: Final = 60.0
"""After how long a call that librdkafka should have ended long ago counts as one that never ends."""
_SUSPECT: Final = 4
"""How often in a row a call has to fail before the producer is suspected of knowing no broker any more."""
_LOST_S: Final = 30.0
"""How long a producer has to connect to any broker: longer than the longest reconnect.backoff.max.ms by default, 10 s."""
_AGAIN_S: Final = 0.1
_FULL_S: Final = 0.1
_OVER: Final = (KafkaError._STATE, KafkaError._FATAL)  # noqa: SLF001  # their public names
"""What a producer says to a record when its transaction has failed."""


class Transaction:
    """The producer interface that a handler uses: records become visible when the transaction commits."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def produce(self, topic: str, **record: Any) -> None:
        """Produce a record within the transaction; blocks while the producer's queue is full.

        Args:
            topic: where to.
            record: `value`, `key`, `partition`, `headers` and so on, as `Producer.produce` takes them.

        Raises:
            KafkaException: librdkafka refuses the record, or the transaction cannot be committed any more; let that
                through.
        """
        while True:
            try:
                self._producer.produce(topic, **record)
            except BufferError:
                self._producer.poll(_FULL_S)
            except KafkaException as error:
                if error.args[0].code() in _OVER:
                    raise _RefusedError(error) from error
                raise
            else:
                return


Handler = Callable[[Sequence[Message], Transaction], object]
"""Processes a batch of records: all that it writes to Kafka goes through the transaction."""


class _RefusedError(KafkaException):
    """The producer refused a record: an error of the transaction, not of the handler."""

    def __init__(self, error: KafkaException) -> None:
        super().__init__(*error.args)


class _Phase(Enum):
    """The progress of a batch: what must be undone or determined if the loop is interrupted now."""

    IDLE = auto()
    READING = auto()
    """Records may have been read, and nothing has been written."""
    OPEN = auto()
    """A transaction may be open."""
    DECIDING = auto()
    """The transaction may have been committed."""


class TransactionLoop:
    """Reads batches of records, and commits the handler's output of each together with its offsets (KIP-447).

    The transaction carries the generation in which the records were read. The broker refuses it once the group has gone
    on without this consumer; then it is aborted, and the next owner reads the records. An interrupted or failed batch is
    aborted and read again by this consumer while the partitions are its own, so the handler may be called more than once
    for a record: what it does elsewhere than in Kafka is not undone.

    Belongs to one thread, but for `stop`.

    Args:
        consumer: subscribed, with ``enable.auto.commit=false``; nothing else reads from it.
        producer: made with a `transactional.id` of its own for this process, which its next start uses again. Nothing
            else uses it. The loop calls `init_transactions` itself.
        handler: processes a batch.
        batch: how many records a transaction takes at most.
        retries: how often in a row a batch is aborted and tried again before its error comes out of `run`.
        patience: seconds after `stop` for which a broker that cannot be reached is waited for.
        clock: the time; for tests.

    Raises:
        ConfigError: the consumer auto-commits or reads uncommitted records, or a number is out of bounds.
    """

    def __init__(
        self,
        consumer: GroupConsumer,
        producer: Producer,
        handler: Handler,
        *,
        batch: int = 500,
        retries: int = 10,
        patience: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        if consumer.config.enable_auto_commit:
            raise ConfigError(
                "offsets are part of the transactions: create the consumer with enable.auto.commit=false"
            )
        if consumer.config.librdkafka.get("isolation.level", "read_committed") != "read_committed":
            raise ConfigError(
                "isolation.level must be read_committed, or records of aborted transactions are processed"
            )
        if batch < 1 or retries < 0:
            raise ConfigError("batch must be at least 1, and retries must not be negative")
        self._consumer = consumer
        self._producer = producer
        self._handler = handler
        self._batch = batch
        self._retries = retries
        self._patience_ms = int(patience * 1000)
        self._clock = clock or SystemClock()
        self._transaction = Transaction(producer)
        self._phase = _Phase.IDLE
        self._ready = False
        self._failed: TransactionFatalError | None = None
        self._sending: threading.Thread | None = None
        self._aborted = 0
        self._stopping = False
        self._give_up: Deadline | None = None

    def run(self) -> None:
        """Process records until `stop`; the current transaction is finished first.

        Raises:
            TransactionFatalError: the producer is of no use any more: end the process and start it again.
            KafkaException: a batch could not be committed, `retries` times in a row; or a partition is not read any
                more, since its offset is not there and auto.offset.reset is "none".
            GroupSdkError: what went wrong with the membership.
            Exception: what the handler raised. The batch was aborted, and is read again if `run` is called again.
        """
        while not self._stopping:
            self.step()

    def step(self, timeout: float = 1.0) -> int:
        """Process one batch, or none if no record arrives; return how many records were committed.

        Args:
            timeout: seconds to wait at most for records.

        Raises:
            Exception: as `run`.
        """
        if self._failed is not None:
            raise self._failed.with_traceback(None)
        try:
            self._start()
            self._settle()  # what an exception has left
            return self._transact(timeout)
        except TransactionFatalError:
            raise
        except NoGenerationError as error:
            self._retry(error)
        except KafkaException as error:
            if self._phase is _Phase.READING or not _of_transaction(error):
                self._settle()
                raise
            self._retry(error)
        except BaseException:
            self._settle()  # now: an open transaction holds the partitions' next owner up
            raise
        return 0

    def stop(self) -> None:
        """Make `run` return. Thread-safe; signal handlers may call it."""
        self._stopping = True
        self._consumer.wakeup()

    def _start(self) -> None:
        if not self._ready:
            # before the first read: it ends the open transaction of the last start, whose offsets would be waited for
            self._call(self._producer.init_transactions)
            self._ready = True

    def _transact(self, timeout: float) -> int:
        self._phase = _Phase.READING
        records = self._sound(self._consumer.consume(self._batch, timeout))
        if records:
            # Nothing is polled from here to the end: the generation is the one that these were read in, or none.
            fence = self._consumer.consumer_group_metadata()
            offsets = {
                where: at for each in records for where, at in offsets_of(each, None).items()
            }
            self._phase = _Phase.OPEN
            self._call(lambda _: self._producer.begin_transaction())
            refuse_unrun(self._handler(records, self._transaction))
            ends = [native(where, at) for where, at in offsets.items()]
            self._call(lambda s: self._send(ends, fence, s))
            self._phase = _Phase.DECIDING
            self._commit()
        self._done()
        self._aborted = 0
        return len(records)

    def _sound(self, batch: Sequence[Message]) -> Sequence[Message]:
        records = []
        for message in batch:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001  # its public name
                raise KafkaException(error)
            else:
                logger.warning("librdkafka: %s", error)
        return tuple(records)

    def _send(self, ends: list[TopicPartition], fence: bytes, timeout_s: float) -> None:
        # On a thread of its own: librdkafka never returns from this where the node that coordinates the group was
        # dropped from its list of brokers and came back (its issue 5511).
        raised: list[BaseException] = []

        def send() -> None:
            try:
                self._producer.send_offsets_to_transaction(ends, fence, timeout_s)
            except BaseException as error:  # noqa: BLE001  # raised where it is waited for
                raised.append(error)

        self._sending = threading.Thread(target=send, name="groupsdk-offsets", daemon=True)
        self._sending.start()
        self._await_sent()
        if raised:
            raise raised[0]

    def _await_sent(self) -> None:
        if self._sending is not None:
            self._sending.join(_HUNG_S)
            if self._sending.is_alive():
                raise self._fail("librdkafka does not return from send_offsets_to_transaction")
            self._sending = None

    def _commit(self) -> None:
        try:
            self._call(self._producer.commit_transaction)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                self._phase = _Phase.OPEN
            raise

    def _retry(self, error: Exception) -> None:
        """Undo a batch; the owner of its partitions reads it again."""
        self._aborted += 1
        message = "aborting a transaction; its records will be read again: %s"
        log_member(logger, logging.WARNING, self._consumer.snapshot, message, error)
        self._settle()
        if self._aborted > self._retries:
            self._aborted = 0
            raise error
        if self._aborted > 1:
            time.sleep(_AGAIN_S * min(self._aborted, 10))

    def _settle(self) -> None:
        """Abort an unfinished transaction, or determine that it was committed."""
        if self._failed is not None:
            return
        if self._phase is _Phase.DECIDING:
            self._decide()
        if self._phase is _Phase.OPEN:
            self._abort()
        if self._phase is _Phase.READING:
            with suppress(MemberClosedError):
                self._consumer.give_back()
            self._phase = _Phase.IDLE

    def _decide(self) -> None:
        # Interrupted, maybe right after a commit that went well: undone, it would be done twice.
        try:
            self._commit()
        except KafkaException as error:
            if error.args[0].code() == KafkaError._STATE:  # noqa: SLF001  # its public name
                self._done()  # no transaction is open any more, and nobody has aborted one
            elif self._phase is _Phase.DECIDING:
                raise self._fail(f"its outcome is unknown: {error.args[0]}") from error
        else:
            self._done()

    def _abort(self) -> None:
        self._await_sent()
        try:
            self._call(self._producer.abort_transaction)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001  # or else it had not begun
                raise self._fail(f"it could not be aborted: {error.args[0]}") from error
        self._phase = _Phase.READING

    def _done(self) -> None:
        self._consumer.count_processed()
        self._phase = _Phase.IDLE

    def _call(self, call: Callable[[float], object]) -> None:
        """Call librdkafka, retrying while its errors are retriable.

        Raises TransactionFatalError if the producer is of no use any more, or `stop` has been called and time is over. Raises KafkaException if any
        other error; the transaction has to be aborted.
        """
        attempts = 0
        while True:
            attempts += 1
            try:
                call(_TRY_S)
            except KafkaException as raised:
                error = raised.args[0]
                if error.fatal():
                    raise self._fail(str(error)) from raised
                if error.txn_requires_abort() or not error.retriable():
                    raise
                if attempts > 1 and not attempts & (attempts - 1):  # ever more rarely
                    logger.warning(
                        "group=%s: a call of the transactional producer has failed %d times in a row, retrying:"
                        " %s",
                        self._consumer.config.member.group_id,
                        attempts,
                        error,
                    )
                if attempts >= _SUSPECT and not attempts & (attempts - 1) and self._lost_brokers():
                    raise self._fail(
                        "the producer reaches no broker any more, which other clients do: librdkafka has"
                        " forgotten all of them (its issue 5301)"
                    ) from raised
                if self._out_of_patience():
                    raise self._fail(f"it was still in progress at the end: {error}") from raised
                time.sleep(_AGAIN_S)
            else:
                return

    def _lost_brokers(self) -> bool:
        """Return whether the producer reaches no broker for half a minute, and a new client does before and after that."""
        if self._stopping:
            return False
        other = self._connect_other()
        try:
            return (
                _lists_brokers(other, _TRY_S)
                and not _lists_brokers(self._producer, _LOST_S)
                and _lists_brokers(other, _TRY_S)
            )
        finally:
            other.close()

    def _connect_other(self) -> Consumer:
        """Return a client that has forgotten no broker yet."""
        config = self._consumer.config
        log = LibrdkafkaLog(logger, f"group={config.member.group_id}", self._clock)
        return Consumer({"logger": log, **config.librdkafka})

    def _out_of_patience(self) -> bool:
        if self._stopping and self._give_up is None:
            self._give_up = Deadline(self._clock, self._patience_ms)
        return self._give_up is not None and self._give_up.expired

    def _fail(self, why: str) -> TransactionFatalError:
        self._failed = TransactionFatalError(
            f"a transaction failed permanently: {why}. Restart this process: it reads the records again that were"
            " not committed. If another process has this transactional.id, give each its own."
        )
        return self._failed


def _lists_brokers(client: Producer | Consumer, timeout_s: float) -> bool:
    try:
        return bool(client.list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return False


def _of_transaction(error: KafkaException) -> bool:
    """Whether the transaction failed, as opposed to the handler."""
    return isinstance(error, _RefusedError) or bool(error.args[0].txn_requires_abort())
