"""Collect what one event leads to, and keep the way back until its records are in the log."""

from collections.abc import Callable
from typing import NamedTuple

from groupsdk.broker.groups.committed_offset import CommittedOffset
from groupsdk.broker.runtime.contract import (
    NOTHING,
    CoordinatorRecord,
    ProducerStamp,
    Reply,
    Result,
)
from groupsdk.error_code import ErrorCode
from groupsdk.wire.schema import Response


class OffsetWrite(NamedTuple):
    """What the record of an offset says, so that it need not be read when it is replayed at once."""

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None
    """None: a tombstone."""


class CommitWrite(NamedTuple):
    """What the records of a commit say of one topic, so that they are stored at once."""

    group_id: str
    topic: str
    values: dict[int, CommittedOffset]
    """By partition; one at least."""


GroupWrite = Callable[[], None]
"""What the record of a group changes, when it is replayed at once."""

Failed = Callable[["Turn", ErrorCode], None]
"""Take back what was promised, in a new turn, for this error."""


class Turn:
    """Collect the records and replies of one event.

    A reply is sent whatever becomes of the records; a promise only when they are in the log. `if_failed`
    says what happens otherwise, which has to answer every token that was promised an answer.
    """

    __slots__ = (
        "commits",
        "failures",
        "now_ms",
        "prepared",
        "producer",
        "promises",
        "records",
        "replies",
    )

    def __init__(self, now_ms: int) -> None:
        """Create it without anything to do."""
        self.now_ms = now_ms
        self.records: list[CoordinatorRecord] = []
        self.prepared: list[OffsetWrite | GroupWrite] = []
        """What the replay of each record does."""
        self.commits: list[CommitWrite] = []
        """In place of that, where the records are a commit's."""
        self.replies: list[Reply] = []
        self.promises: list[Reply] = []
        self.failures: list[Failed] = []
        self.producer: ProducerStamp | None = None

    def reply(self, token: int, response: Response) -> None:
        """Answer a request."""
        self.replies.append(Reply(token, response))

    def promise(self, token: int, response: Response) -> None:
        """Answer a request once the records are in the log."""
        self.promises.append(Reply(token, response))

    def write(self, record: CoordinatorRecord, prepared: OffsetWrite | GroupWrite) -> None:
        """Write a record; `prepared` is what its replay does."""
        self.records.append(record)
        self.prepared.append(prepared)

    def take(self, other: "Turn") -> None:
        """Take over what another event leads to; both of commits of no producer."""
        self.records += other.records
        self.commits += other.commits
        self.replies += other.replies
        self.promises += other.promises
        self.failures += other.failures

    def if_failed(self, failed: Failed) -> None:
        """Have this called if the records cannot be written."""
        self.failures.append(failed)

    def result(self) -> Result:
        """Return it all as the runtime takes it."""
        if not (self.records or self.replies or self.promises):
            return NOTHING
        replies = (*self.replies, *self.promises) if self.promises else tuple(self.replies)
        return Result(tuple(self.records), replies, self.producer)
