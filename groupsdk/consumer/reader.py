"""Read records of the owned partitions through confluent-kafka, and track their positions."""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition as NativePartition,
)

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock, WallClock
from groupsdk.consumer.config import OffsetReset
from groupsdk.consumer.confluent_types import ClusterMetadata, first_offsets
from groupsdk.errors import NoOffsetError
from groupsdk.offsets import name_of
from groupsdk.settings.librdkafka import NewCredentials
from groupsdk.settings.security import SecuritySettings
from groupsdk.types import OffsetAndMetadata


logger = logging.getLogger(__name__)
_LEADERS_TIMEOUT_S: Final = 1.0
_LOOKUP_TIMEOUT_S: Final = 5.0
_ASKED_AT_ONCE: Final = 20
"""A round trip each, on the caller's thread: with more topics librdkafka's own second is no worse."""

_SUSPECT_MS: Final = 5_000
"""How often to look for librdkafka's connections while it may have forgotten its brokers."""
_CALM_MS: Final = 300_000
"""How often otherwise. Metadata without any broker is that of a cluster whose partitions have no leaders either: then the
group's coordinator is gone as well.
"""
_SILENT_LOOKS: Final = 3
"""librdkafka connects again after 10 s at most, unless told otherwise: in so many looks, if it knows a broker."""

_MARK_MS: Final = 20
_MARK_MS_EACH: Final = 2
"""librdkafka takes ten microseconds to tell one position: half a percent of the time."""


class BrokerReach:
    """Detects that a client is connected to no broker for a while, although the member reaches its coordinator.

    librdkafka forgets the brokers that a Metadata response does not list, and a node that shuts down may list none. The
    client then tries `bootstrap.servers` again, or nothing for ever: librdkafka issue 5301, in 2.10 to 2.16. Without a
    broker it reports no error either. Its statistics would name the brokers that it knows, but an idle consumer costs a
    tenth more with them, in CPU time and in memory.
    """

    def __init__(self) -> None:
        self.lost = False
        """Whether several looks in a row found no connection; close the client then, and create another one."""
        self._due_ms = 0
        self._silent = 0

    def look(self, native: Consumer, topic: str | None, now_ms: int, *, reached: bool) -> None:
        """Look at the client, where that is due.

        Args:
            topic: one that the client reads; None: it reads none.
            reached: whether the member reaches its coordinator.
        """
        if not reached:
            self._silent = 0
            self._due_ms = now_ms + _SUSPECT_MS
        elif topic is not None and now_ms >= self._due_ms:
            connected = _is_connected(native, topic)
            self._silent = 0 if connected else self._silent + 1
            self._due_ms = now_ms + (_CALM_MS if connected else _SUSPECT_MS)
            self.lost = self._silent >= _SILENT_LOOKS


def _is_connected(native: Consumer, topic: str) -> bool:
    """Return whether a client is connected to any broker; does not wait.

    With no time at all, librdkafka still looks for a connection before it gives up waiting for the response.
    """
    try:
        native.list_topics(topic, 0)
    except KafkaException as error:
        return bool(error.args[0].code() != KafkaError._TRANSPORT)  # noqa: SLF001  # its public name
    return True


class Reader:
    """The owned partitions, read by a confluent-kafka consumer that joins no group, to which only this object assigns.

    Owned partitions wait until it is known where to begin. Positions are not counted here, record by record:
    librdkafka knows them, and is asked when they are needed.

    Args:
        connect: makes the consumer, and another one in its place once it has forgotten all brokers. It must not keep the
            owner of the reader alive.
    """

    def __init__(
        self,
        connect: Callable[[], Consumer],
        reset: str,
        credentials: NewCredentials | None = None,
        date: Clock | None = None,
    ) -> None:
        self._connect = connect
        self._reach = BrokerReach()
        self.native = connect()
        self.credentials = credentials or NewCredentials(SecuritySettings())
        self.waiting: set[TopicPartition] = set()
        """Owned, but not read yet."""
        self.reading: set[TopicPartition] = set()
        """Being read, paused ones as well."""
        self.paused: set[TopicPartition] = set()
        self._held: set[TopicPartition] = set()
        """Paused by `serve`, not by the user."""
        self.closed = False
        self.epoch = 0
        """Grows whenever something is taken or released: what was asked about it before is void."""
        self._reset = OffsetReset.parse(reset)
        self._date = date or WallClock()
        self._off: set[TopicPartition] = set()
        """Waiting, since the log does not have the offset where they were to be read."""
        self._known_topics: set[str] = set()
        self._seeks: dict[TopicPartition, OffsetAndMetadata] = {}
        self._starts: dict[TopicPartition, OffsetAndMetadata] = {}
        """Where reading began; negative for librdkafka's words such as OFFSET_END."""
        self._last: Sequence[Message] = ()
        """What was handed out last; a list is the user's, who may change it."""
        self._last_count = 0
        self._interrupted = False
        """Whether a read has begun and `handed_out` was not called: records may have reached nobody."""
        self._mark: list[NativePartition] | None = None
        """Where reading stood at some read; None: to be noted before the next one."""
        self._marked: Sequence[NativePartition] = ()
        """The mark that the last read began with."""
        self._marks_all = False
        """Whether it tells a place for each partition."""
        self._marked_ms = 0
        self._read_on = False
        """Whether records have come since the mark."""

    def use_new_credentials(self) -> None:
        """Pass a new user name and password to librdkafka, if there are any."""
        credentials = self.credentials.take()
        if credentials is not None:
            self.native.set_sasl_credentials(*credentials)

    @property
    def lost(self) -> bool:
        """Whether librdkafka has forgotten all brokers, and so reads nothing more; `reconnect` then."""
        return self._reach.lost and not self.closed

    def look_for_brokers(self, now_ms: int, *, reached: bool) -> None:
        """See whether librdkafka is `lost`; `reached`: the member reaches the group's coordinator."""
        if not self.closed:
            topic = next(iter(self.reading)).topic if self.reading else None
            self._reach.look(self.native, topic, now_ms, reached=reached)

    def reconnect(self) -> None:
        """Replace librdkafka's consumer. What was read waits for `begin`, and goes on at its position.

        Raises:
            Exception: there is no other consumer, because a token provider has failed, for example; `lost` is true again
                while that is so.
        """
        places = self._places()
        try:
            native = self._connect()
        except Exception:
            self._reach.lost = False  # the next look sets it again
            raise
        # A signal's handler may raise between any two steps: `mend` keeps the places of what is not read yet, and until
        # another `BrokerReach` is in its place the old one says that the client is lost.
        self._known_topics = set()
        self._seeks |= places
        old, self.native = self.native, native
        self._reach = BrokerReach()
        self.epoch += 1
        self._mark = None
        self.waiting |= self.reading
        self.reading = set()
        self._held = set()
        self.credentials.repeat()
        with contextlib.suppress(KafkaException, RuntimeError):
            old.close()

    def _places(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return where the partitions that are read go on."""
        places = {}
        for where, position in self.positions(self.reading).items():
            place = self._starts[where] if position is None else position
            if (
                place.offset == OFFSET_END
            ):  # and nothing has come since: not where the end is by now
                with contextlib.suppress(KafkaException):
                    _, end = self.watermarks(where, _LOOKUP_TIMEOUT_S, cached=True)
                    place = OffsetAndMetadata(max(end, OFFSET_END))
            places[where] = place
        return places

    def serve(self) -> None:
        """Serve librdkafka's logs and callbacks while nothing may be read.

        They come with a poll, and would pile up in memory for as long as an outage lasts. What is assigned is paused
        for that, until `go_on`: no record may come.
        """
        fresh = self.reading - self.paused - self._held
        if fresh:
            self._held |= fresh  # first: a signal's handler may raise in between
            self._pause(fresh)
        self._before_reading()
        message = self.native.poll(0)
        if message is not None and message.error() is None:
            # taken just before it was paused
            where = TopicPartition(message.topic() or "", message.partition() or 0)
            if where in self.reading:
                self.seek(where, message.offset() or 0)
        self._interrupted = False

    def go_on(self) -> None:
        held = (self._held & self.reading) - self.paused
        if held:
            self.native.resume(_natives(held))
        self._held = set()  # last: a signal's handler may raise in between

    def take(self, partitions: Collection[TopicPartition]) -> None:
        self.epoch += 1
        self._mark = None
        self.waiting.update(partitions)

    def release(self, partitions: Collection[TopicPartition]) -> None:
        """Stop reading partitions, and forget their state."""
        self.epoch += 1
        gone = self.reading.intersection(partitions)
        if gone and not self.closed:  # by the listener that gives these up
            natives = _natives(gone)
            # librdkafka keeps a pause beyond the assignment
            stopped = self.paused | self._held
            self.native.resume([each for each in natives if _plain(each) in stopped])
            self.native.incremental_unassign(natives)
        self.reading -= gone
        self._held -= gone
        self.waiting.difference_update(partitions)
        self.paused.difference_update(partitions)
        for partition in partitions:
            self._seeks.pop(partition, None)
            self._starts.pop(partition, None)
            self._off.discard(partition)

    def mend(self, owned: Collection[TopicPartition]) -> None:
        """Restore consistency with librdkafka and the group after a signal handler may have raised between any two steps.

        Partitions whose state may be incomplete are read again from their committed offsets."""
        if self.closed:
            return
        assigned = {_plain(each) for each in self.native.assignment()}
        sound = assigned & self.reading & self._starts.keys() & frozenset(owned)
        if sound != assigned:
            self.native.incremental_unassign(_natives(assigned - sound))
        if sound != assigned or sound != self.reading or sound | self.waiting != set(owned):
            self.epoch += 1
            self._mark = None
        self.reading = sound
        self.waiting = set(owned) - sound
        for partition in sound & self._seeks.keys():
            del self._seeks[partition]
        self.paused.intersection_update(owned)
        self._held &= sound

    @property
    def unplaced(self) -> set[TopicPartition]:
        """The waiting partitions whose committed offsets have to be looked up."""
        return self.waiting - self._seeks.keys()

    def begin(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Start reading the waiting partitions at the offset set by `seek`, else at the committed offset, None where there is none.

        Partitions of which nothing is known go on waiting. Raises NoOffsetError if there is no offset and auto.offset.reset
        is "none"; those partitions are not read.
        """
        starts: dict[TopicPartition, OffsetAndMetadata] = {}
        without = []
        for partition in sorted(self.waiting & (committed.keys() | self._seeks.keys())):
            stored = None if partition in self._off else committed.get(partition)
            if partition in self._seeks:
                starts[partition] = self._seeks[partition]
            elif stored is not None:
                starts[partition] = stored
            else:
                without.append(partition)
        if without:
            starts |= self._where_reset(without)
        if starts:
            self._start(starts)
        if without and self._reset.strategy == "none":
            raise NoOffsetError(
                f"no offset is committed for {', '.join(map(name_of, without[:10]))}, and auto.offset.reset is"
                " 'none': call seek() to choose where to begin"
            )

    def _start(self, starts: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        natives = [
            NativePartition(*partition, at.offset, leader_epoch=at.leader_epoch)
            if at.leader_epoch >= 0
            else NativePartition(*partition, at.offset)
            for partition, at in sorted(starts.items())
        ]
        self._learn_leaders({each.topic for each in natives})
        self.native.incremental_assign(natives)
        self.reading |= starts.keys()
        self._mark = None
        self.waiting -= starts.keys()
        self._off -= starts.keys()
        self._starts |= starts
        for partition in starts:
            self._seeks.pop(partition, None)
        self._pause(self.paused & starts.keys())

    def _where_reset(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the reset offsets of partitions, without those that are not known yet."""
        strategy = self._reset.strategy
        if strategy == "none":
            return {}
        if strategy != "by_duration":
            offset = OFFSET_BEGINNING if strategy == "earliest" else OFFSET_END
            return dict.fromkeys(partitions, OffsetAndMetadata(offset))
        since_ms = max(0, self._date.now_ms() - self._reset.duration_ms)
        try:
            offsets = self.native.offsets_for_times(
                [NativePartition(*each, since_ms) for each in partitions], _LOOKUP_TIMEOUT_S
            )
        except KafkaException as error:
            logger.info("cannot look up offsets by time, retrying: %s", error)
            return {}
        # negative: every record is older
        return {
            _plain(each): OffsetAndMetadata(each.offset if each.offset >= 0 else OFFSET_END)
            for each in offsets
            if each.error is None
        }

    def _learn_leaders(self, topics: set[str]) -> None:
        # librdkafka looks once a second for the leaders of topics that are new to it, unless it was told them
        for topic in sorted(topics - self._known_topics)[:_ASKED_AT_ONCE]:
            try:
                self.native.list_topics(topic, _LEADERS_TIMEOUT_S)
            except KafkaException as error:
                logger.debug("no leaders of %s yet, librdkafka retries: %s", topic, error)
                return
            self._known_topics.add(topic)

    def consume(self, count: int, timeout_s: float, *, first: bool = False) -> list[Message]:
        """Return librdkafka's list of records, at once when one arrives (`first`); call `handed_out` once the user has it."""
        self._before_reading()
        if first:
            batch = self.native.consume(1, timeout_s)
            if batch and count > 1:
                batch += self.native.consume(count - 1, 0)  # those that came with it
        else:
            batch = self.native.consume(count, timeout_s)
        if self._reset.strategy == "by_duration":
            batch = [each for each in batch if not self._is_off(each)]
        self._last = batch
        self._last_count = len(batch)
        if batch:
            self._read_on = True
        self._interrupted = bool(batch)
        return batch

    def poll(self, timeout_s: float) -> Message | None:
        """Return one record of librdkafka, or None; call `handed_out` once the user has it."""
        self._before_reading()
        message = self.native.poll(timeout_s)
        if message is None or (self._reset.strategy == "by_duration" and self._is_off(message)):
            message = None
            self._interrupted = False
        else:
            self._read_on = True
            self._last = (message,)
            self._last_count = 1
        return message

    def _is_off(self, message: Message) -> bool:
        """Handle an out-of-range error by resetting the partition's offset."""
        error = message.error()
        if error is None or error.code() != KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001  # its public name
            return False
        where = TopicPartition(message.topic() or "", message.partition() or 0)
        if where in self.reading:
            logger.info("the position of %s was reset: %s", name_of(where), error)
            self.epoch += 1
            self._mark = None
            natives = _natives([where])
            if where in self.paused:
                self.native.resume(natives)
            self.native.incremental_unassign(natives)
            self.reading.discard(where)
            self._starts.pop(where, None)
            self._off.add(where)
            self.waiting.add(where)
        return True

    def _before_reading(self) -> None:
        if self._interrupted:
            self._go_back()
        if self._mark is None:
            self._mark = self.native.position(_natives(self.reading)) if self.reading else []
            self._marked = self._mark
            self._marks_all = all(_is_place(self._last_known(each)) for each in self._mark)
            self._read_on = False
        self._forget_last()
        self._interrupted = True

    def handed_out(self) -> None:
        """Record that the user has received the records of the last read."""
        if not self._marks_all:
            # A copy of each batch would take some percent of the time. As long as there is a mark for all, a
            # list that the user has changed can be told, and the mark taken in its place.
            self._last = tuple(self._last)
        self._interrupted = False

    def refresh_mark(self, now_ms: int) -> None:
        """Have the positions recorded before the next read, if that was done long ago and records have come since.

        An interrupted read goes back to them: confluent-kafka drops the records it has read when a signal handler
        raises meanwhile, as that of Ctrl-C does, and librdkafka's positions are beyond them then. Recording positions
        before each read would take longer than the reading.
        """
        if not self._read_on:
            return
        if now_ms >= self._marked_ms + _MARK_MS + _MARK_MS_EACH * len(self.reading):
            self._marked_ms = now_ms
            self._mark = None

    def count_processed(self) -> None:
        """Mark the records last handed out as processed; undelivered ones are read again."""
        if self._interrupted:
            self._go_back()
        self._forget_last()

    def settle(self) -> None:
        """Mark records handed out as processed, so that no interrupted read goes back beyond them."""
        self.count_processed()
        self._mark = None

    def _go_back(self) -> None:
        """Go back to the mark, to read again any records that an interrupted read has lost."""
        self._mark = None
        self._forget_last()
        for marked in self._marked:
            where = _plain(marked)
            if where in self.reading:
                offset = self._last_known(marked)
                # what began at the end, and of which nothing had come, goes on where the end is now
                if _is_place(offset):
                    self.seek(where, offset)
        self._interrupted = False  # last: a signal's handler may raise before all have gone back

    def _last_known(self, marked: NativePartition) -> int:
        return marked.offset if marked.offset >= 0 else self._starts[_plain(marked)].offset

    def give_back(self) -> None:
        """Read the last records again, for partitions that are still owned."""
        if self._interrupted:
            self._go_back()
        last, count = self._last, self._last_count
        self._forget_last()
        if len(last) != count or not all(hasattr(each, "offset") for each in last):
            self._go_back()
            return
        first = first_offsets(last)
        for where in sorted(first.keys() & self.reading):
            self.seek(where, first[where])

    def _forget_last(self) -> None:
        self._last = ()
        self._last_count = 0

    def positions(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the next offset of each partition; None if not known before a first record."""
        if self._interrupted:
            self._go_back()
        asked = list(partitions)
        positions: dict[TopicPartition, OffsetAndMetadata | None] = {}
        being_read = [each for each in asked if each in self.reading]
        for native in self.native.position(_natives(being_read)) if being_read else ():
            partition = _plain(native)
            if native.offset >= 0:
                epoch = cast("int | None", native.leader_epoch)  # whatever the stub says
                positions[partition] = OffsetAndMetadata(
                    native.offset, -1 if epoch is None else epoch
                )
            else:
                start = self._starts[partition]
                positions[partition] = start if start.offset >= 0 else None
        for partition in asked:
            if partition not in positions:
                start = self._seeks.get(partition, OffsetAndMetadata(OFFSET_END))
                positions[partition] = start if start.offset >= 0 else None
        return positions

    def lags(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return how many records of each partition are still to be read, by what librdkafka last saw of its end."""
        lags: dict[TopicPartition, int] = {}
        for partition, position in self.positions(partitions).items():
            if position is not None and partition in self.reading:
                with contextlib.suppress(
                    KafkaException
                ):  # of a partition that it does not know yet
                    _, end = self.watermarks(partition, _LOOKUP_TIMEOUT_S, cached=True)
                    if end >= 0:
                        lags[partition] = max(0, end - position.offset)
        return lags

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue reading at an offset; an owned partition that is not read yet begins there.

        Raises ValueError if the partition is not assigned to this consumer.
        """
        if partition in self.waiting:
            self._seeks[partition] = OffsetAndMetadata(offset)
        elif partition in self.reading:
            self._mark = None
            self._seek(NativePartition(partition.topic, partition.partition, offset))
            self._starts[partition] = OffsetAndMetadata(offset)
        else:
            raise ValueError(f"{name_of(partition)} is not assigned to this consumer")

    def _seek(self, where: NativePartition) -> None:
        try:
            self.native.seek(where)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001  # that is its public name
                raise
            # librdkafka begins with nothing new as long as it is ending what was given up just before
            self.native.incremental_unassign([where])
            self.native.incremental_assign([where])

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching partitions until `resume`; their positions stay. Raises ValueError if one is not assigned to this consumer."""
        chosen = self._assigned(partitions)
        self.paused |= chosen
        self._pause(chosen & self.reading)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch partitions again. Raises ValueError if one is not assigned to this consumer."""
        chosen = self._assigned(partitions)
        natives = _natives((chosen & self.paused & self.reading) - self._held)
        self.paused -= chosen
        if natives:
            self.native.resume(natives)

    def _pause(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self.native.pause(_natives(partitions))

    def _assigned(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        chosen = set(partitions)
        foreign = chosen - self.reading - self.waiting
        if foreign:
            raise ValueError(
                f"{', '.join(sorted(map(name_of, foreign)))}: not assigned to this consumer"
            )
        return chosen

    def watermarks(
        self, partition: TopicPartition, timeout_s: float, *, cached: bool
    ) -> tuple[int, int]:
        watermarks = self.native.get_watermark_offsets(
            NativePartition(*partition), timeout_s, cached=cached
        )
        if watermarks is None:  # whatever the stub says: the time is over
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001  # that is its public name
        return watermarks

    def topics(self, topic: str | None, timeout_s: float) -> ClusterMetadata:
        metadata: ClusterMetadata = self.native.list_topics(topic, timeout_s)
        return metadata

    def close(self) -> None:
        self.closed = True
        self.native.close()


def _natives(partitions: Iterable[TopicPartition]) -> list[NativePartition]:
    return [NativePartition(topic, number) for topic, number in sorted(partitions)]


def _is_place(offset: int) -> bool:
    """Return whether an offset always refers to the same record."""
    return offset >= 0 or offset == OFFSET_BEGINNING


def _plain(native: NativePartition) -> TopicPartition:
    return TopicPartition(native.topic, native.partition)
