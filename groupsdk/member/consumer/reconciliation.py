"""Move a member from its current partitions to its target assignment: resolve names, hand over, acknowledge."""

import logging
from collections.abc import Collection, Iterable
from random import Random
from uuid import UUID

from groupsdk.assignment import Assignment
from groupsdk.assignment.subscriptions import encode_assignments
from groupsdk.member.actions import Action
from groupsdk.member.consumer.heartbeat_fields import (
    NO_ASSIGNMENT,
    HeartbeatSubscription,
    LocalAssignment,
    PartitionsById,
)
from groupsdk.member.member import Member
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from groupsdk.wire.schema import ApiKey


class TopicNames:
    """The known topic names, and when to request missing ones.

    A broker may not have heard of a new topic yet, so unknown ids are asked for again, ever more rarely.
    """

    def __init__(self, backoff: ExponentialBackoff, random: Random) -> None:
        self._backoff = backoff
        self._random = random
        self._names: dict[UUID, str] = {}
        self._attempts = 0
        self._ask_at_ms = 0

    def missing(self, topic_ids: Iterable[UUID]) -> set[UUID]:
        """Return those of these topics whose names are not known."""
        return {each for each in topic_ids if each not in self._names}

    def named(self, partitions: PartitionsById) -> dict[str, tuple[int, ...]]:
        """Return partitions by the names of their topics, all of which have to be known.

        Of a topic that was deleted and made again, both ids may be in it for a moment: they are added up."""
        by_name: dict[str, set[int]] = {}
        for topic_id, numbers in partitions.items():
            by_name.setdefault(self._names[topic_id], set()).update(numbers)
        return {name: tuple(sorted(by_name[name])) for name in sorted(by_name)}

    @property
    def ask_at_ms(self) -> int:
        """When the next request may be sent."""
        return self._ask_at_ms

    def request(self, topic_ids: Iterable[UUID], now_ms: int) -> MetadataRequest:
        """Return the request to send now; the next one waits for a backoff, unless this succeeds."""
        self._ask_at_ms = now_ms + self._backoff.backoff_ms(self._attempts, self._random)
        self._attempts += 1
        topics = tuple(MetadataRequestTopic(topic_id=each, name=None) for each in sorted(topic_ids))
        return MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    def name(self, topic_id: UUID) -> str | None:
        """Return the name of a topic, if known."""
        return self._names.get(topic_id)

    def learn(self, response: MetadataResponse, wanted: Collection[UUID]) -> set[UUID]:
        """Store the wanted names of topics from a response. Return the topics that were named."""
        learned: set[UUID] = set()
        for topic in response.topics:
            if topic.topic_id in wanted and topic.name and not topic.error_code:
                self._names[topic.topic_id] = topic.name
                learned.add(topic.topic_id)
        if learned:
            self._attempts = 0
        return learned

    def keep_only(self, topic_ids: Iterable[UUID]) -> None:
        """Forget all names but these, and request new ones without a backoff."""
        wanted = set(topic_ids)
        self._names = {each: name for each, name in self._names.items() if each in wanted}
        self._attempts = 0
        self._ask_at_ms = 0


class Reconciliation:
    """A member's current assignment, its target assignment, and the step between them.

    The topics of the target come as ids. Those whose names are known go ahead and are acknowledged; the others
    wait, and follow when a broker has named them. Topics that the member does not subscribe to any more are not
    taken: the coordinator takes them away as soon as it hears of the subscription."""

    def __init__(self, member: Member) -> None:
        self.current: LocalAssignment = NO_ASSIGNMENT
        """The assignment that the caller has applied, which heartbeats report."""
        self.target: LocalAssignment = NO_ASSIGNMENT
        """The assignment of the coordinator's last response that had one."""
        self.delivered = False
        """Whether the caller was handed an assignment since its last loss."""
        self.subscription = HeartbeatSubscription()
        self._member = member
        self._names = TopicNames(member.backoff, member.random)
        self._handed: LocalAssignment | None = None
        self._extra: PartitionsById = {}
        """What the caller was handed since it reported last, beside `current`: it may have it already."""

        self._withdrawn = False
        """Whether partitions were taken away since the caller reported last."""
        self.unnamed: set[UUID] = set()
        """The topics of the target without a name: every event asks for them, so they are not searched for each time."""
        self._fruitless: tuple[object, ...] = ()
        """What there was when there was nothing to hand over: as long as it stays, there is nothing."""

    @property
    def claimed(self) -> PartitionsById:
        """The partitions that the caller may have: those it reported, and those handed to it since.

        A heartbeat that names what the member owns must not leave these out. The coordinator gives partitions
        that are not in the list to others at once, when it takes them away, and the caller may be working on
        them by then.
        """
        return _together(self.current.partitions, self._extra)

    @property
    def done(self) -> bool:
        """Whether the target is reached and acknowledged."""
        return self.current == self.target

    @property
    def revoking(self) -> bool:
        """Whether the coordinator waits, up to the rebalance timeout, for partitions to be revoked."""
        if self._withdrawn:
            return True
        if not self._extra and self.current == self.target:
            return False
        return not _pairs(self.claimed) <= _pairs(self.target.partitions)

    def aim(self, partitions: PartitionsById) -> bool:
        """Set the target; return whether it differs from the previous one."""
        following = self.target.followed_by(partitions)
        if following is self.target:
            return False
        self._withdrawn = self._withdrawn or bool(
            _pairs(self.target.partitions) - _pairs(partitions)
        )
        self.target = following
        self.unnamed = self._names.missing(following.partitions)
        self._handed = None
        revoked, added = self.counts()
        self._member.log(
            logging.INFO,
            "assigned %d partitions: %d to give up, %d to take",
            len(_pairs(partitions)),
            revoked,
            added,
        )
        return True

    def forget(self) -> None:
        """Clear the current and target assignments: the member is out of the group."""
        self.current = self.target = NO_ASSIGNMENT
        self._handed = None
        self._extra = {}
        self._withdrawn = False
        self.unnamed = set()

    def listed(self) -> None:
        """Record that the coordinator has accepted a list of `claimed`.

        That acknowledges for it what was taken away before it was handed over. It neither waits for that any more nor
        expels the member, whose possession would lapse without an end if it went on as `revoking`.
        """
        self._withdrawn = False

    def withdraw(self) -> None:
        """Hand the assignment over again, in its state at that time."""
        self._handed = None

    @property
    def has_step(self) -> bool:
        """Whether there is an assignment to hand to the caller.

        Where the names of some topics are missing and the others are what the caller has, there is something only
        if partitions were taken away that it never had: the coordinator waits for the acknowledgement of that, too.
        """
        given = (
            self.target,
            self.subscription,
            self.current,
            self._handed,
            self._withdrawn,
            len(self.unnamed),
        )
        if given == self._fruitless:
            return False
        handed = self._available()
        is_part = handed.partitions != self.target.partitions
        nothing_new = (
            is_part and handed.partitions == self.current.partitions and not self._withdrawn
        )
        if nothing_new or handed == self._handed:
            self._fruitless = given
            return False
        return True

    def next_step(self) -> bytes | None:
        """Return the encoded assignment to hand to the caller; None if there is none now."""
        if not self.has_step:
            return None
        handed = self._available()
        self._handed = handed
        self._extra = _together(self._extra, handed.partitions)
        self.delivered = True
        return encode_assignments({"": Assignment(self._names.named(handed.partitions))})[""]

    def _available(self) -> LocalAssignment:
        """Return the part of the target whose topics have names and are subscribed to."""
        wanted = {
            each: numbers
            for each, numbers in self.target.partitions.items()
            if each not in self.unnamed and self._is_subscribed(each)
        }
        return LocalAssignment(self.target.number, wanted)

    def taken_up(self) -> None:
        """Record that the caller has applied the assignment handed to it."""
        assert self._handed is not None, "nothing was handed over"
        self.current, self._handed = self._handed, None
        self._extra = {}
        self._withdrawn = False
        self._names.keep_only({*self.current.partitions, *self.target.partitions})

    @property
    def has_other_topics(self) -> bool:
        """Whether the target has a topic that the member does not subscribe to."""
        topics = self.target.partitions.keys() - self.unnamed
        return not all(self._is_subscribed(topic) for topic in topics)

    def counts(self) -> tuple[int, int]:
        """Return how many partitions the target removes and adds."""
        have, want = _pairs(self.current.partitions), _pairs(self.target.partitions)
        return len(have - want), len(want - have)

    def ask_names(self) -> list[Action]:
        """Request missing topic names, if that is due."""
        member, at_ms = self._member, self.ask_names_at_ms
        if at_ms is None or member.now_ms < at_ms:
            return []
        request = self._names.request(self.unnamed, member.now_ms)
        return [member.send(request, ApiKey.METADATA, member.config.request_timeout_ms)]

    def names_told(self, response: MetadataResponse) -> None:
        """Process the names of the target's topics from a metadata response."""
        learned = self._names.learn(response, self.unnamed)
        self.unnamed -= learned
        if self.unnamed:
            self._member.log_thinned(
                "names",
                logging.INFO,
                "%d topics of the assignment have no name yet: a broker learns of new ones with a delay",
                len(self.unnamed),
            )
        elif learned:
            self._member.log(logging.DEBUG, "%d topics of the assignment named", len(learned))

    @property
    def ask_names_at_ms(self) -> int | None:
        """When to request topic names; None if none is missing or a request is outstanding."""
        member = self._member
        if member.coordinator is None or ApiKey.METADATA in member.requests.summary.apis:
            return None
        return self._names.ask_at_ms if self.unnamed else None

    def _is_subscribed(self, topic_id: UUID) -> bool:
        """Return whether the member subscribes to a topic; with a pattern, the broker decides."""
        subscription = self.subscription
        return subscription.pattern is not None or self._names.name(topic_id) in subscription.topics


def _together(some: PartitionsById, more: PartitionsById) -> PartitionsById:
    nothing: frozenset[int] = frozenset()
    return {each: some.get(each, nothing) | more.get(each, nothing) for each in (*some, *more)}


def _pairs(partitions: PartitionsById) -> set[tuple[UUID, int]]:
    return {(topic_id, number) for topic_id, numbers in partitions.items() for number in numbers}
