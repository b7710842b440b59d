"""Build the result of one event: records, replies, and callbacks for when the records are written or refused."""

from collections.abc import Callable, Iterable

from groupsdk.broker.coordinator.runtime.contract import (
    NOTHING,
    ProducerStamp,
    Record,
    Reply,
    Result,
)
from groupsdk.error_code import ErrorCode
from groupsdk.wire.schema import Response


Written = Callable[["ResultBuilder"], None]
"""Called once the records are in the log and replayed, with a new builder."""

Failed = Callable[["ResultBuilder", ErrorCode], None]
"""Called after the append failed, with a new builder and the error to answer with."""


class ResultBuilder:
    """Collects the records and replies of one event.

    A reply is sent in any case; a promise only once the records are in the log. The callbacks of `when_written` and
    `if_failed` must not change durable state, which only the replay of records does; they may answer requests and set
    deadlines. Those of `if_failed` must answer every promised token.

    Attributes:
        producer: the producer of whose transaction the records are part; None: of none.
        is_large: whether the records are to be encoded in steps.
    """

    __slots__ = (
        "failures",
        "following",
        "is_large",
        "now_ms",
        "producer",
        "promises",
        "records",
        "replies",
    )

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.promises: list[Reply] = []
        self.following: list[Written] = []
        self.failures: list[Failed] = []
        self.producer: ProducerStamp | None = None
        self.is_large = False

    def reply(self, token: int, response: Response) -> None:
        """Answer a request, whether or not the records can be written."""
        self.replies.append(Reply(token, response))

    def promise(self, token: int, response: Response) -> None:
        """Answer a request once the records are in the log."""
        self.promises.append(Reply(token, response))

    def write(self, record: Record) -> None:
        """Add a record to append."""
        self.records.append(record)

    def write_all(self, records: Iterable[Record]) -> None:
        """Add records to append, in order."""
        self.records += records

    def take(self, other: "ResultBuilder") -> None:
        """Append the content of another builder; neither may have a producer."""
        self.records += other.records
        self.replies += other.replies
        self.promises += other.promises
        self.following += other.following
        self.failures += other.failures

    def when_written(self, following: Written) -> None:
        """Add a callback for when the records are in the log and replayed; ignored if there are none."""
        self.following.append(following)

    def if_failed(self, failed: Failed) -> None:
        """Add a callback for when the records cannot be appended."""
        self.failures.append(failed)

    def result(self) -> Result:
        """Return the result for the runtime; NOTHING if there are neither records nor replies."""
        if not (self.records or self.replies or self.promises):
            return NOTHING
        replies = (*self.replies, *self.promises) if self.promises else tuple(self.replies)
        is_large = self.is_large and bool(self.records)
        return Result(tuple(self.records), replies, None, self.producer, (), is_large)
