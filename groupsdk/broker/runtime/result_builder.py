"""Build the result of one event: records, replies, and callbacks for when the records are written or rejected."""

from collections.abc import Callable, Iterable

from groupsdk.broker.runtime.contract import NOTHING, ProducerStamp, Record, Reply, Result
from groupsdk.error_code import ErrorCode
from groupsdk.wire.schema import Response


Written = Callable[["ResultBuilder"], None]
"""Called once the records are in the log and replayed, with a new builder."""

Failed = Callable[["ResultBuilder", ErrorCode], None]
"""Called after the records could not be written, with a new builder and the error to answer."""


class ResultBuilder:
    """Collects the records and replies of one event.

    A reply is sent whatever becomes of the records; a promise only when they are in the log. What `when_written`
    and `if_failed` are given changes nothing that lasts: that is for the replay of the records alone. It answers
    requests, and sets who waits until when. `if_failed` has to answer every token that was promised an answer.
    """

    __slots__ = (
        "failures",
        "following",
        "now_ms",
        "producer",
        "promises",
        "records",
        "replies",
    )

    def __init__(self, now_ms: int) -> None:
        """Create an empty result."""
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.promises: list[Reply] = []
        self.following: list[Written] = []
        self.failures: list[Failed] = []
        self.producer: ProducerStamp | None = None

    def reply(self, token: int, response: Response) -> None:
        """Answer a request."""
        self.replies.append(Reply(token, response))

    def promise(self, token: int, response: Response) -> None:
        """Answer a request once the records are in the log."""
        self.promises.append(Reply(token, response))

    def write(self, record: Record) -> None:
        """Write a record."""
        self.records.append(record)

    def write_all(self, records: Iterable[Record]) -> None:
        """Write records."""
        self.records += records

    def take(self, other: "ResultBuilder") -> None:
        """Add the content of another builder; neither may write for a producer."""
        self.records += other.records
        self.replies += other.replies
        self.promises += other.promises
        self.following += other.following
        self.failures += other.failures

    def when_written(self, following: Written) -> None:
        """Add a callback for when the records are in the log and replayed."""
        self.following.append(following)

    def if_failed(self, failed: Failed) -> None:
        """Add a callback for when the records cannot be written."""
        self.failures.append(failed)

    def result(self) -> Result:
        """Return the result for the runtime."""
        if not (self.records or self.replies or self.promises):
            return NOTHING
        replies = (*self.replies, *self.promises) if self.promises else tuple(self.replies)
        return Result(tuple(self.records), replies, self.producer)
