"""Partition ownership of a group member in either protocol: revoke, lose, add, and tell the listener.

Reading, committing and metadata are behind the small interfaces below, so that whole groups run in one test
without a broker.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

from groupsdk.assignment import TopicPartition
from groupsdk.consumer.listener import ListenerCalls
from groupsdk.consumer.subscription import TopicSubscription
from groupsdk.consumer.topics import TopicView, TopicWatch
from groupsdk.snapshot import MemberSnapshot, log_member
from groupsdk.types import Generation
from groupsdk.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE


logger = logging.getLogger(__name__)


class MemberSide(Protocol):
    def snapshot(self) -> MemberSnapshot: ...

    def request_rejoin(self, reason: str) -> None: ...


class PartitionReader(Protocol):
    def commit_before_join(self) -> None:
        """Commit the positions of the partitions kept, if the settings say so, without waiting for the response."""
        ...

    def commit_before_revocation(self, partitions: Collection[TopicPartition]) -> None:
        """Commit the positions of partitions, if the settings say so; must not raise an `Exception`."""
        ...

    def lags(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return how many records of each are still to be read, where known; asks no broker."""
        ...

    def take(self, partitions: Collection[TopicPartition]) -> None:
        """Add partitions that are not owned yet; reading them starts after the callbacks."""
        ...

    def release(self, partitions: Collection[TopicPartition]) -> None:
        """Stop reading partitions, and forget their positions."""
        ...


class TopicSource(Protocol):
    def describe(self, topics: Collection[str] | None) -> TopicView:
        """Fetch the metadata of topics, or of all (None); raise a GroupSdkError if that fails."""
        ...


class PartitionOwner:
    """The part of `GroupCallbacks` that is the same in both protocols."""

    protocol_type: str = CONSUMER_PROTOCOL_TYPE

    def __init__(self, reader: PartitionReader, topics: TopicSource, watch: TopicWatch) -> None:
        self.subscription: TopicSubscription | None = None
        self.listener = ListenerCalls()
        self.owned: frozenset[TopicPartition] = frozenset()
        self.member: MemberSide | None = None
        self._reader = reader
        self._topics = topics
        self._watch = watch
        self._owned_generation = -1
        self._completed: tuple[Generation, int] | None = None
        """The assignment that was taken up last: its generation, and how many there were by then.

        The generation alone does not tell two of them apart. Where the group has members of the consumer
        protocol of KIP-848, it is the member's epoch, which stays over several assignments.
        """
        self._untold: deque[Callable[[], object]] = deque()
        """Calls of the listener about the last assignment that are still to be made."""
        self._announced: frozenset[TopicPartition] = frozenset()
        """The partitions that the listener was told are the consumer's."""
        self._going: frozenset[TopicPartition] = frozenset()
        """Being given up at present, by a listener that may close the consumer."""
        self._left = False

    def on_leave_prepare(self) -> None:
        """Revoke all partitions, except those that the listener which caused this is already revoking."""
        self._watch.forget()
        self._left = True
        snapshot = self._member().snapshot()
        # During a rebalance too, what a cooperative member keeps is its own until it leaves.
        if snapshot.generation.is_reset or not snapshot.holds:
            self._lose(self.owned)
        else:
            self._revoke(self.owned)
        self._completed = None

    @property
    def joined(self) -> bool:
        """Whether an assignment, possibly empty, has been applied and the membership not lost since."""
        return self._completed is not None

    @property
    def leaving(self) -> bool:
        return self._left

    def _delivery(self, generation: int, member_id: str) -> tuple[Generation, int]:
        """Return a key that identifies one delivery of an assignment."""
        epoch = self._member().snapshot().assignment_epoch
        return Generation(generation, member_id, None), epoch

    def _take_up(
        self,
        assigned: frozenset[TopicPartition],
        added: frozenset[TopicPartition],
        delivery: tuple[Generation, int],
    ) -> None:
        # first: where a Ctrl-C comes in between, the second delivery finds them new once more
        self._reader.take(added)
        self._untold = deque(
            (
                lambda: self.listener.generation_changed(self._member().snapshot().generation),
                lambda: self.listener.assigned(sorted(self.owned - self._announced)),
            )
        )
        self.owned = assigned
        self._owned_generation = delivery[0].generation_id
        self._completed = delivery
        self._log(logging.INFO, "owns %d partitions, %d of them new", len(assigned), len(added))

    def _tell(self, errors: "FirstError") -> None:
        """Tell the listener the part of the last assignment that it has not heard yet."""
        while self._untold and not self._left:
            begun = self.listener.begun
            try:
                errors.keep(self._untold[0])
            except BaseException:
                if self.listener.begun != begun:
                    self._told()
                raise
            self._told()

    def _told(self) -> None:
        self._untold.popleft()
        if not self._untold:
            self._announced = self.owned

    def _revoke(self, partitions: Collection[TopicPartition]) -> None:
        going = frozenset(partitions) - self._going
        if not going:
            return
        self._log(logging.INFO, "revoking %d partitions", len(going))
        with self._giving_up(going):
            self._reader.commit_before_revocation(going)
            self.listener.revoked(sorted(going))

    def _lose(self, partitions: Collection[TopicPartition]) -> None:
        self._completed = None
        self._owned_generation = -1
        going = frozenset(partitions) - self._going
        if not going:
            return
        self._log(logging.WARNING, "lost %d partitions", len(going))
        with self._giving_up(going):
            self.listener.lost(sorted(going))

    @contextmanager
    def _giving_up(self, partitions: frozenset[TopicPartition]) -> Iterator[None]:
        """Keep owning partitions until the listener has heard of their loss, and report them only once."""
        begun, keep = self.listener.begun, False
        self._going |= partitions
        try:
            yield
        except Exception:
            raise
        except BaseException:
            keep = (
                self.listener.begun == begun
            )  # it has not heard of it, and does when this is tried again
            raise
        finally:
            self._going -= partitions
            if not keep:
                self._announced -= partitions
                self._drop(partitions)

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        self._reader.release(partitions)
        self.owned = self.owned.difference(partitions)

    def _rejoin(self, reason: str) -> None:
        self._member().request_rejoin(reason)

    def _member(self) -> MemberSide:
        assert self.member is not None
        return self.member

    def _subscribed(self) -> TopicSubscription:
        assert self.subscription is not None, "nothing joins before subscribe()"
        return self.subscription

    def _log(self, level: int, message: str, *arguments: object) -> None:
        log_member(logger, level, self._member().snapshot, message, *arguments)


class FirstError:
    """Keeps the first exception of several steps that must all run."""

    def __init__(self) -> None:
        self._first: Exception | None = None

    def keep(self, step: Callable[[], object]) -> None:
        """Run a step, and keep the first `Exception`; others, such as KeyboardInterrupt, are raised at once."""
        try:
            step()
        except Exception as error:  # noqa: BLE001  # raised at the end
            self._first = self._first or error

    def raise_first(self) -> None:
        if self._first is not None:
            raise self._first
