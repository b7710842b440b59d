"""The contract of a coordinator's state machine: values in, values out; no socket, no file, no clock.

A machine (a shard) owns one partition of `__consumer_offsets` or `__transaction_state`. It decides; the runtime
carries out. For every event the runtime calls the machine, encodes `Result.records` and appends them to the
partition's log as one batch, passes the same values to `replay`, calls `written`, and only then sends the replies.
Loading decodes the log into the same values and passes them to the same `replay`. Durable state changes by
`replay` alone, so a crash is equivalent to cutting the log. State that is in no record (parked requests, timers, a
rebalance in progress) may change at any time and is empty after a load. If the append fails, nothing is replayed,
and `append_failed` returns the replies to send instead.
(Kafka: org.apache.kafka.coordinator.common.runtime.CoordinatorShard.)

The values are named tuples: several are made for every request, and a frozen dataclass takes three times as long.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from groupsdk.error_code import ErrorCode
from groupsdk.wire.coordinator_records.declaration import (
    CoordinatorKey,
    CoordinatorValue,
    write,
    write_in_steps,
)
from groupsdk.wire.records.pairs import Pair
from groupsdk.wire.records.record import EncodedPairs
from groupsdk.wire.schema import Request, Response


T = TypeVar("T")


class LogRecord(NamedTuple):
    """One record of a coordinator's log, as bytes; a value of None is a tombstone."""

    key: bytes
    value: bytes | None

    def encoded(self) -> Sequence[Pair]:
        """Return the record itself as the only pair."""
        return (self,)


class Record(Protocol):
    """A value that a coordinator writes and replays: one record of the log, or several."""

    def encoded(self) -> Sequence[Pair]:
        """Return the keys and values of its records, a tombstone's is None; EncodeError if a field is too large."""


class CoordinatorRecord(NamedTuple):
    """One record of a coordinator's log, decoded; a value of None is a tombstone (Kafka: CoordinatorRecord)."""

    key: CoordinatorKey
    """The decoded key; its class determines the class of the value."""
    value: CoordinatorValue | None

    def encoded(self) -> Sequence[Pair]:
        return (write(self.key, self.value),)

    def encoded_in_steps(self) -> "Generator[None, None, Pair]":
        return write_in_steps(self.key, self.value)


class EncodedRecords(NamedTuple):
    """The records of a large request, which were encoded before."""

    records: list[Any]
    pairs: EncodedPairs

    def encoded(self) -> Sequence[Pair]:
        return self.pairs


class ProducerStamp(NamedTuple):
    """The producer of a transactional batch; the batch is pending until the producer's marker is appended."""

    producer_id: int
    producer_epoch: int


class RequestContext(NamedTuple):
    """The origin of a request, and the token under which its reply is sent."""

    token: int
    """Identifies the reply; unique within one runtime."""
    api_version: int
    """The version of the request, which decides on fields and error codes of the response."""
    client_id: str = ""
    """The client.id of the request header; "" if it was null."""
    client_host: str = "/127.0.0.1"
    """The address in Java's format, with its slash: it is written into the group's record."""
    principal: str = "User:ANONYMOUS"
    """The authenticated user, as Kafka prints it."""


class Reply(NamedTuple):
    """The response to the request with this token; each token is answered exactly once."""

    token: int
    response: Response


class MarkerPartitions(NamedTuple):
    """The markers that end a transaction, to be written to the partitions it touched (Kafka: WriteTxnMarkers)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    """Whether the transaction commits; False: it aborts."""
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition, which fences replaced coordinators."""
    partitions: tuple[tuple[str, int], ...]
    """The (topic, partition) pairs."""


class Result(NamedTuple):
    """The outcome of one event: append the records, then send the replies, then write the markers."""

    records: tuple[Record, ...] = ()
    replies: tuple[Reply, ...] = ()
    refusal: Callable[[ErrorCode], tuple[Reply, ...]] | None = None
    """Maps the error of a failed append to the replies to send instead; None: `append_failed` returns them."""
    producer: ProducerStamp | None = None
    """Write the records as a transactional batch of this producer (TxnOffsetCommit)."""
    markers: tuple[MarkerPartitions, ...] = ()
    is_large: bool = False
    """Whether the records take so long to encode that it is to be done in steps."""


_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(error: ErrorCode) -> ErrorCode:
    """Map the error of a failed append to the one sent to clients.

    (Kafka: CoordinatorOperationExceptionHelper, TransactionStateManager.appendTransactionToLog.)
    """
    return _APPEND_ERRORS.get(error, error)


NOTHING = Result()
UNPREPARED = Result(is_large=True)
"""The result of a request that takes so long that it is to be prepared in steps first."""


def answered(context: RequestContext, response: Response) -> Result:
    """Return the result of a request that is answered at once, without records."""
    return Result((), (Reply(context.token, response),))


def finished(steps: Generator[None, None, T]) -> T:
    """Run all steps of a request without a pause, and return what the last one returns."""
    while True:
        try:
            next(steps)
        except StopIteration as last:
            result: T = last.value
            return result


class CoordinatorShard(Protocol):
    """The state machine of one partition of a coordinator's log. Not thread-safe: one thread calls it.

    Every `now_ms` is the time of the runtime's clock, in milliseconds since 1970; it never goes back while the broker
    runs.
    """

    def decode(self, records: Sequence[Pair]) -> Iterable[Record]:
        """Decode keys and values of the log into the values for `replay`; unknown record types are skipped.

        Args:
            records: records of the same producer, or of none. Records of independent parts of the state may be returned
                in another order, and several as one value.

        Raises:
            DecodeError: a record of a known type has an unknown version or cannot be parsed; the values of the records
                before it were yielded.
        """

    def replay(self, record: Any, producer: ProducerStamp | None = None) -> None:
        """Apply one value of `decode` or of `Result.records`, whose records are in the log.

        The effect of a producer's record is pending until `replay_marker`.
        """

    def written(self, result: Result, now_ms: int) -> Result:
        """Continue after the records of a result were appended and replayed, without changing durable state."""
        return NOTHING

    def replay_marker(self, producer: ProducerStamp, *, committed: bool) -> None:
        """Apply a commit or abort marker read from, or just appended to, this partition."""

    def loaded(self, now_ms: int) -> Result:
        """Start serving after the whole log was replayed: start session timers, resume prepared transactions."""

    def handle(self, request: Request[Any], context: RequestContext, now_ms: int) -> Result:
        """Handle a request; its reply, with the context's token, is in this result or in a later one."""

    def advance(self, now_ms: int) -> Result:
        """Handle every deadline that is due."""

    @property
    def deadline_ms(self) -> int | None:
        """When to call `advance` next; None: nothing is scheduled. May change with every call."""

    def append_failed(self, result: Result, error: ErrorCode, now_ms: int) -> Result:
        """Continue after records could not be appended, none of which was replayed. Return the replies to send instead."""

    def unload(self, error: ErrorCode, now_ms: int) -> Result:
        """Stop serving, and answer all parked requests with an error: NOT_COORDINATOR when the partition moves away."""


@runtime_checkable
class GatheringShard(CoordinatorShard, Protocol):
    """A state machine that can handle some requests together: those received in one loop iteration share an append."""

    def may_wait(self, request: Request[Any]) -> bool:
        """Return whether a request may be batched with others like it."""

    def handle_all(
        self, requests: Sequence[tuple[Request[Any], RequestContext]], now_ms: int
    ) -> Result:
        """Handle batched requests in order. Return one result for all of them, which has no producer.

        If its records cannot be appended, nothing of it takes effect, and the runtime passes the requests one by one.
        """

    def handle_in_steps(
        self, request: Request[Any], context: RequestContext, now_ms: int
    ) -> "Generator[None, None, Result]":
        """Handle a large request in steps, between which others are handled; only the last one decides."""

    def encode_in_steps(
        self, request: Request[Any], result: Result
    ) -> "Generator[None, None, Result | None]":
        """Encode the records of a large result in steps; None: the group has changed meanwhile, and must decide again."""

    def prepare_in_steps(self, request: Request[Any]) -> "Generator[None, None, None]":
        """Prepare a request whose result was UNPREPARED, in steps."""

    def handle_prepared(
        self, request: Request[Any], context: RequestContext, now_ms: int
    ) -> Result:
        """Handle a request that was prepared, or must decide again; the result is not UNPREPARED."""

    def refuse(self, request: Request[Any], error: ErrorCode, api_version: int) -> Response:
        """Return the response that answers a batched, queued or large request with an error."""
