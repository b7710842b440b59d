"""Measure how long the largest legal request of each API holds the loop of an embedded broker.

The broker is in this process, where every callback of its loop is timed by the CPU clock of its thread. The garbage
collector is set as by `groupsdk broker`; what it takes on the loop is shown by itself, too.
"""

import gc
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple
from unittest import mock

from groupsdk.broker.embedded import EmbeddedBroker, EmbeddedBrokerError
from groupsdk.broker.server.apis import APIS, newest_version
from groupsdk.cli.broker import keep_survivors, limit_collections
from groupsdk.wire.api import decode_response
from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolEncoder,
    ConsumerProtocolSubscription,
)
from groupsdk.wire.messages import (
    cluster,
    configs,
    fetch,
    group_admin,
    groups,
    log_offsets,
    offsets,
    produce,
    security,
    topics,
    transactions,
)
from groupsdk.wire.messages.connection import ApiVersionsRequest
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from groupsdk.wire.schema import ApiKey, Request
from tests.benchmarks.broker_assignor_holds import Watch
from tests.benchmarks.report import Result, load, options_of
from tests.broker.clients import Client, batch, connect


LIMIT_MS: Final = 50.0
_ELEMENTS: Final = 49_000
"""How many elements a request has; one of 50,000 is refused."""
_GROUP_TOPICS: Final = 1_000
_SETTLE_S: Final = 0.5
_THREAD: Final = "groupsdk-broker"
_PATIENCE_S: Final = 1_200.0
"""How long a request may take: to make the files of thousands of logs takes minutes on a busy disk."""
_NEWER_COORDINATOR: Final = 1_000
_LOGS: Final = 2_000
"""To how many partitions is written: each makes four files."""
_ALL: Final = tuple(f"{n:x}" for n in range(_ELEMENTS))
_TOPIC, _BROKER, _GROUP = 2, 4, 32


class Size(NamedTuple):
    """How large the cluster is: topics of one partition, topics of a thousand, groups, and members of one group."""

    narrow: int
    mid: int
    groups: int
    members: int

    @property
    def partitions(self) -> int:
        return self.narrow + self.mid * 1_000 + 10_000

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of each topic."""
        named = {f"n-{n}": 1 for n in range(self.narrow)}
        return named | {f"mid-{n}": 1_000 for n in range(self.mid)} | {"wide": 10_000}


class Case(NamedTuple):
    """A request, with what it is about, and the version to ask in; None: the newest."""

    about: str
    request: Request[Any]
    version: int | None = None


Cases = Generator[Case, Any, None]
"""Yields requests and is sent their responses."""


def _commit(group_id: str, names: Sequence[str]) -> offsets.OffsetCommitRequest:
    partition = (offsets.OffsetCommitRequestPartition(0, 5),)
    return offsets.OffsetCommitRequest(
        group_id,
        topics=tuple(
            offsets.OffsetCommitRequestTopic(each, partitions=partition) for each in names
        ),
    )


def reads(size: Size) -> Cases:
    """Ask for all that the cluster has."""
    names = tuple(size.topics())
    wide = tuple(range(_LOGS))
    yield Case("all topics", MetadataRequest(None))
    yield Case(
        "names without topics",
        MetadataRequest(tuple(MetadataRequestTopic(name=f"{each}") for each in _ALL), False),
    )
    yield Case("all topics", cluster.DescribeTopicPartitionsRequest())
    yield Case("all partitions", cluster.DescribeLogDirsRequest(None))
    yield Case("", cluster.DescribeClusterRequest())
    resources = tuple(configs.DescribeConfigsResource(_TOPIC, each, None) for each in names[:1_000])
    yield Case("all keys of 1,000 topics", configs.DescribeConfigsRequest(resources, True, True))
    brokers = (configs.DescribeConfigsResource(_BROKER, "1", None),)
    yield Case("all keys of the broker", configs.DescribeConfigsRequest(brokers, True, True))
    resources = tuple(configs.DescribeConfigsResource(_GROUP, each, None) for each in _ALL[:1_000])
    yield Case("all keys of 1,000 groups", configs.DescribeConfigsRequest(resources, True, True))
    keys = tuple(f"k-{each}" for each in _ALL)
    resources = (configs.DescribeConfigsResource(_TOPIC, "wide", keys),)
    yield Case("very many keys of a topic", configs.DescribeConfigsRequest(resources, True, True))
    yield Case("all", configs.ListConfigResourcesRequest())
    many = {"wide": wide} | dict.fromkeys(names[:_LOGS], (0,))
    listed = tuple(
        log_offsets.ListOffsetsTopic(
            topic, tuple(log_offsets.ListOffsetsPartition(n, -1, -1) for n in numbers)
        )
        for topic, numbers in many.items()
    )
    yield Case("very many partitions", log_offsets.ListOffsetsRequest(topics=listed))
    epochs = tuple(
        log_offsets.OffsetForLeaderTopic(
            topic, tuple(map(log_offsets.OffsetForLeaderPartition, numbers))
        )
        for topic, numbers in many.items()
    )
    yield Case("very many partitions", log_offsets.OffsetForLeaderEpochRequest(topics=epochs))
    fetched = tuple(
        fetch.FetchTopic(
            topic,
            partitions=tuple(fetch.FetchPartition(n, partition_max_bytes=1_000) for n in numbers),
        )
        for topic, numbers in many.items()
    )
    session = yield Case(
        "very many partitions", fetch.FetchRequest(topics=fetched, session_epoch=0), 12
    )
    yield Case(
        "very many, in a session",
        fetch.FetchRequest(session_id=session.session_id, session_epoch=1),
        12,
    )
    yield Case(
        "very many, waiting",
        fetch.FetchRequest(
            max_wait_ms=500, min_bytes=1, session_id=session.session_id, session_epoch=2
        ),
        12,
    )
    yield Case(
        "very many partitions",
        transactions.DescribeProducersRequest((transactions.TopicRequest("wide", wide),)),
    )
    yield Case("very many keys", FindCoordinatorRequest(key_type=0, coordinator_keys=_ALL))


def offset_requests(size: Size) -> Cases:
    """Commit, fetch and delete offsets of very many topics."""
    names = tuple(size.topics())[: size.narrow]
    yield Case("first of a group", _commit("small", names[:1]), 8)
    yield Case("very many topics", _commit("big", names), 8)
    yield Case("very many topics", _commit("old", names), 8)
    wide = tuple(offsets.OffsetCommitRequestPartition(n, 5) for n in range(10_000))
    topic = offsets.OffsetCommitRequestTopic("wide", partitions=wide)
    yield Case(
        "10,000 partitions of a topic", offsets.OffsetCommitRequest("wide", topics=(topic,)), 8
    )
    for n in range(size.groups):
        yield Case("one topic", _commit(f"g-{n}", names[:1]), 8)
    every = offsets.OffsetFetchRequestGroup("big", topics=None)
    yield Case("all of a group", offsets.OffsetFetchRequest(groups=(every,)), 8)
    yield Case("all of a group, version 7", offsets.OffsetFetchRequest("big", None), 7)
    asked = tuple(offsets.OffsetFetchRequestTopics(each, partition_indexes=(0,)) for each in names)
    yield Case(
        "very many topics",
        offsets.OffsetFetchRequest(groups=(offsets.OffsetFetchRequestGroup("big", topics=asked),)),
        8,
    )
    every_group = tuple(
        offsets.OffsetFetchRequestGroup(f"g-{n}", topics=None) for n in range(size.groups)
    )
    yield Case("of all groups", offsets.OffsetFetchRequest(groups=every_group), 8)
    yield Case("all groups", group_admin.ListGroupsRequest())
    yield Case(
        "all groups",
        groups.DescribeGroupsRequest(tuple(f"g-{n}" for n in range(size.groups)), True),
    )
    partition = (group_admin.OffsetDeleteRequestPartition(0),)
    deleted = tuple(group_admin.OffsetDeleteRequestTopic(each, partition) for each in names)
    yield Case("very many topics", group_admin.OffsetDeleteRequest("old", deleted))
    yield Case("a group with very many topics", group_admin.DeleteGroupsRequest(("big",)))
    yield Case(
        "all groups", group_admin.DeleteGroupsRequest(tuple(f"g-{n}" for n in range(size.groups)))
    )


def _beat(
    group_id: str, member_id: str, epoch: int, **fields: Any
) -> ConsumerGroupHeartbeatRequest:
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 60_000, "topic_partitions": ()} | fields
    return ConsumerGroupHeartbeatRequest(group_id, member_id, epoch, **fields)


def consumer_groups(size: Size) -> Cases:
    """Let members of the consumer protocol read very many topics."""
    names = tuple(size.topics())[: size.narrow]
    yield Case("first of a group", _beat("warm", "m", 0, subscribed_topic_names=names[:1]))
    at = 0
    for member in ("a", "b"):
        about = "joins" if member == "a" else "is the second to join"
        answer = yield Case(
            f"{about}, very many topics", _beat("large", member, 0, subscribed_topic_names=names)
        )
        epoch, told = answer.member_epoch, answer.assignment
        while not answer.error_code and (told is None or not told.topic_partitions):
            answer = yield Case("waits for its assignment", _beat("large", member, epoch))
            epoch, told = answer.member_epoch, answer.assignment or told
            if member == "b":
                # the first one gives up a half
                first = yield Case("is told to revoke", _beat("large", "a", at))
                if first.assignment is not None:
                    owned = first.assignment.topic_partitions
                    first = yield Case(
                        "has revoked", _beat("large", "a", at, topic_partitions=owned)
                    )
                at = first.member_epoch
        answer = yield Case(
            "names what it owns",
            _beat("large", member, epoch, topic_partitions=told.topic_partitions),
        )
        answer = yield Case("has nothing new", _beat("large", member, answer.member_epoch))
        full = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": names,
            "topic_partitions": told.topic_partitions,
        }
        answer = yield Case(
            "says everything again", _beat("large", member, answer.member_epoch, **full)
        )
        at = answer.member_epoch
    answer = yield Case(
        "subscribes to fewer", _beat("large", "b", at, subscribed_topic_names=names[:-1])
    )
    yield Case(
        "subscribes to a pattern",
        _beat("pattern", "p", 0, subscribed_topic_names=(), subscribed_topic_regex="n-.*7"),
        1,
    )
    yield Case("one large group", group_admin.ConsumerGroupDescribeRequest(("large",), True))
    for n in range(50):
        some = names[:_GROUP_TOPICS]
        yield Case("joins, 1,000 topics", _beat(f"c-{n}", "m", 0, subscribed_topic_names=some))
    yield Case(
        "50 large groups",
        group_admin.ConsumerGroupDescribeRequest(tuple(f"c-{n}" for n in range(50)), True),
    )
    yield Case("leaves", _beat("large", "a", -1))
    yield Case(
        "reads more names than there are", _beat("names", "m", 0, subscribed_topic_names=_ALL)
    )


def classic_groups(size: Size) -> Cases:
    """Let members of the classic protocol read very many topics, alone and with a member of the other protocol."""
    names = tuple(size.topics())[: size.narrow]
    for about, some in (("very many topics", names), ("names without topics", _ALL)):
        group_id = f"classic-{len(some)}"
        data = ConsumerProtocolEncoder().subscription(ConsumerProtocolSubscription(some), 3)
        protocol = (groups.JoinGroupRequestProtocol("range", data),)
        join = groups.JoinGroupRequest(group_id, 30_000, 60_000, "", None, "consumer", protocol)
        member_id = (yield Case(about, join, 9)).member_id
        join = groups.JoinGroupRequest(
            group_id, 30_000, 60_000, member_id, None, "consumer", protocol
        )
        joined = yield Case(f"{about}, with an id", join, 9)
        owned = dict.fromkeys(some, (0,)) if some is names else {}
        given = ConsumerProtocolEncoder().assignment(ConsumerProtocolAssignment(owned), 3)
        sync = groups.SyncGroupRequest(
            group_id,
            joined.generation_id,
            member_id,
            None,
            "consumer",
            "range",
            (groups.SyncGroupRequestAssignment(member_id, given),),
        )
        yield Case(about, sync, 5)
        yield Case(about, groups.DescribeGroupsRequest((group_id,), True))
        yield Case(
            f"upgrades a group, {about}",
            _beat(group_id, "new", 0, subscribed_topic_names=names[:1]),
        )
        yield Case(f"{about}, in a consumer group", join, 9)
        left = groups.LeaveGroupRequest(group_id, members=(groups.MemberIdentity(member_id),))
        yield Case(about, left, 5)
    yield Case(
        "very many members",
        groups.LeaveGroupRequest("g", members=tuple(map(groups.MemberIdentity, _ALL))),
        5,
    )


def writes(size: Size) -> Cases:
    """Write to very many partitions, in a transaction and without."""
    names = tuple(size.topics())[: size.narrow]
    yield Case("no id", transactions.InitProducerIdRequest(None))
    data = tuple(produce.PartitionProduceData(n, batch(b"v" * 100)) for n in range(_LOGS))
    yield Case(
        "many partitions",
        produce.ProduceRequest(
            None, -1, 1_000, (produce.TopicProduceData("wide", partition_data=data),)
        ),
        11,
    )
    records = (produce.PartitionProduceData(0, batch(*[b"v"] * 100_000)),)
    yield Case(
        "100,000 records",
        produce.ProduceRequest(
            None, -1, 1_000, (produce.TopicProduceData("wide", partition_data=records),)
        ),
        11,
    )
    wide = tuple(range(_LOGS))
    kept = tuple(log_offsets.DeleteRecordsPartition(n, -1) for n in wide)
    yield Case(
        "many partitions",
        log_offsets.DeleteRecordsRequest((log_offsets.DeleteRecordsTopic("wide", kept),)),
    )
    made = yield Case(
        "first of a transactional id", transactions.InitProducerIdRequest("t", 60_000)
    )
    who = (made.producer_id, made.producer_epoch)
    part = (transactions.AddPartitionsToTxnTopic("wide", wide),)
    yield Case(
        "many partitions",
        transactions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=who[0],
            v3_and_below_producer_epoch=who[1],
            v3_and_below_topics=part,
        ),
        3,
    )
    yield Case("", transactions.AddOffsetsToTxnRequest("t", *who, "big"), 3)
    partition = (transactions.TxnOffsetCommitRequestPartition(0, 5),)
    some = tuple(
        transactions.TxnOffsetCommitRequestTopic(each, partitions=partition) for each in names
    )
    yield Case(
        "very many topics", transactions.TxnOffsetCommitRequest("t", "big", *who, topics=some), 4
    )
    yield Case("one", transactions.DescribeTransactionsRequest(("t",)))
    yield Case("very many ids", transactions.DescribeTransactionsRequest(_ALL))
    yield Case("all", transactions.ListTransactionsRequest())
    yield Case("many partitions", transactions.EndTxnRequest("t", *who, True), 3)
    # newer than the coordinator, which has written its own: a marker of an older one is refused
    marker = transactions.WritableTxnMarker(
        *who, True, (transactions.WritableTxnMarkerTopic("wide", wide),), _NEWER_COORDINATOR
    )
    answer = yield Case("many partitions", transactions.WriteTxnMarkersRequest((marker,)))
    written = answer.markers[0].topics[0].partitions
    assert not any(each.error_code for each in written)


def changes(size: Size) -> Cases:
    """Create, change and delete topics, users and settings."""
    names = tuple(size.topics())[: size.narrow]
    made = tuple(topics.CreatableTopic(f"x-{each}", 1, 1) for each in _ALL[:3_000])
    yield Case("3,000 topics", topics.CreateTopicsRequest(made))
    yield Case(
        "a topic of 10,000 partitions",
        topics.CreateTopicsRequest((topics.CreatableTopic("x-wide", 10_000, 1),)),
    )
    more = tuple(topics.CreatePartitionsTopic(f"x-{each}", 2, None) for each in _ALL[:3_000])
    yield Case("3,000 topics", topics.CreatePartitionsRequest(more))
    yield Case(
        "10,000 partitions more",
        topics.CreatePartitionsRequest((topics.CreatePartitionsTopic("x-wide", 20_000, None),)),
    )
    asked = tuple(
        configs.AlterConfigsResource(
            _TOPIC, each, (configs.AlterableConfig("retention.ms", "1000000"),)
        )
        for each in names[:3_000]
    )
    yield Case("3,000 topics", configs.AlterConfigsRequest(asked))
    setting = (configs.IncrementalAlterableConfig("retention.ms", 0, "1000000"),)
    changed = tuple(
        configs.IncrementalAlterConfigsResource(_TOPIC, each, setting) for each in names[:3_000]
    )
    yield Case("3,000 topics", configs.IncrementalAlterConfigsRequest(changed))
    users = tuple(
        security.ScramCredentialUpsertion(each, 1, 4096, b"s", b"p") for each in _ALL[:20_000]
    )
    yield Case("20,000 users", security.AlterUserScramCredentialsRequest((), users))
    yield Case("all users", security.DescribeUserScramCredentialsRequest(None))
    yield Case("none", security.DescribeClientQuotasRequest())
    yield Case(
        "3,000 topics",
        topics.DeleteTopicsRequest(
            tuple(topics.DeleteTopicState(f"x-{each}") for each in _ALL[:3_000])
        ),
    )
    yield Case(
        "a topic of 10,000 partitions",
        topics.DeleteTopicsRequest((topics.DeleteTopicState("wide"),)),
    )


def rules(_: Size) -> Cases:
    """Make, list and delete access rules."""
    many = tuple(security.AclCreation(2, each, 3, "User:x", "*", 3, 3) for each in _ALL[:40_000])
    yield Case("40,000 resources", security.CreateAclsRequest(many))
    everything = (1, None, 1, None, None, 1, 1)
    yield Case("40,000 resources", security.DescribeAclsRequest(*everything))
    yield Case(
        "40,000 resources", security.DeleteAclsRequest((security.DeleteAclsFilter(*everything),))
    )
    many = tuple(
        security.AclCreation(2, "t", 3, f"User:{each}", "*", 3, 3) for each in _ALL[:40_000]
    )
    yield Case("40,000 of one resource", security.CreateAclsRequest(many))
    yield Case("40,000 of one resource", security.DescribeAclsRequest(*everything))
    yield Case(
        "40,000 of one resource",
        security.DeleteAclsRequest((security.DeleteAclsFilter(*everything),)),
    )


class Collections:
    """Times what the garbage collector takes on the broker's thread, in milliseconds of CPU."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._start_s = 0.0

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        if threading.current_thread().name != _THREAD:
            return
        if phase == "start":
            self._start_s = time.thread_time()
        else:
            self.longest = max(self.longest, (time.thread_time() - self._start_s) * 1_000)


class Hold(NamedTuple):
    """What one kind of request cost: the longest callback, the longest collection, and all CPU of the loop, in ms."""

    longest: float
    collected: float
    total: float


def measure(client: Client, cases: Cases, watch: Watch, found: dict[tuple[int, str], Hold]) -> None:
    """Send the requests of one part, and keep the largest figures of each kind of request."""
    collections = Collections()
    answer: Any = None
    gc.callbacks.append(collections)
    try:
        while True:
            try:
                case = cases.send(answer)
            except StopIteration:
                return
            key = case.request.api.key
            version = case.version
            if version is None:
                version = min(newest_version(key, "4.3"), case.request.api.client_version)
            watch.clear()
            collections.longest = 0.0
            client.send(case.request, version)
            frame = client.frame()
            client.ask(ApiVersionsRequest(), 0)  # after it the callback that answered has ended
            if key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
                time.sleep(_SETTLE_S)  # the target, an expression's topics
            worked = list(watch.worked)
            answer = decode_response(type(case.request), version, frame)[1]
            before = found.get((key, case.about), Hold(0, 0, 0))
            hold = Hold(max(worked, default=0.0), collections.longest, sum(worked))
            found[key, case.about] = Hold(*map(max, hold, before))
    finally:
        gc.callbacks.remove(collections)


PARTS: Final = {
    "reads": reads,
    "offsets": offset_requests,
    "consumer": consumer_groups,
    "classic": classic_groups,
    "writes": writes,
    "changes": changes,
    "rules": rules,
}


def restart(size: Size, watch: Watch, found: dict[tuple[int, str], Hold]) -> None:
    """Measure the first fetch after a restart, with the loading of a log that has very many offsets in one batch."""
    names = tuple(size.topics())[: size.narrow]
    every = offsets.OffsetFetchRequestGroup("big", topics=None)
    with tempfile.TemporaryDirectory() as directory:
        with _broker_in(directory, size, {}) as client:
            client.ask(_commit("big", names), 8)
        with _broker_in(directory, size, {}) as client, _collecting():
            watch.clear()
            while client.ask(offsets.OffsetFetchRequest(groups=(every,)), 8).groups[0].error_code:
                time.sleep(_SETTLE_S)
            worked = list(watch.worked)
    found[ApiKey.OFFSET_FETCH, "after a restart"] = Hold(max(worked), 0, sum(worked))


@contextmanager
def _collecting() -> Iterator[None]:
    """Set the garbage collector as `groupsdk broker` does."""
    before = gc.get_threshold()
    limit_collections()
    try:
        yield
    finally:
        gc.callbacks.remove(keep_survivors)
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def _broker(size: Size, settings: dict[str, str]) -> Iterator[Client]:
    with (
        tempfile.TemporaryDirectory() as directory,
        _broker_in(directory, size, settings) as client,
    ):
        yield client


@contextmanager
def _broker_in(directory: str, size: Size, settings: dict[str, str]) -> Iterator[Client]:
    broker = EmbeddedBroker(settings, topics=size.topics(), data_dir=directory)
    broker.start()
    (thread,) = (each for each in threading.enumerate() if each.name == _THREAD)
    try:
        with connect(broker) as client:
            client.socket.settimeout(_PATIENCE_S)
            yield client
    finally:
        with suppress(EmbeddedBrokerError):
            broker.stop()
        thread.join()  # it flushes thousands of logs, for which `stop` does not wait


def run(arguments: list[str], *, quick: bool) -> Result:
    parts = options_of("broker_holds", arguments, parts=",".join(PARTS)).parts.split(",")
    size = Size(2_000, 2, 100, 100) if quick else Size(14_000, 26, 1_000, 1_000)
    found: dict[tuple[int, str], Hold] = {}
    watch = Watch()
    before = load()
    with mock.patch.dict(sys.modules, uvloop=None), watch.watching():
        for name in parts:
            settings = {"group.consumer.assignor.timeout.ms": "600000"}
            if name == "rules":
                settings |= {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
            with _broker(size, settings) as client, _collecting():
                measure(client, PARTS[name](size), watch, found)
        if "offsets" in parts:
            restart(size, watch, found)
    result = Result(
        "broker_holds",
        f"The longest hold of the embedded broker's loop by one request: {size.partitions:,} partitions, {size.groups:,} groups",
        [
            "request",
            "longest hold, CPU ms",
            "longest collection in it, CPU ms",
            "CPU of all its steps, ms",
        ],
        rows=[
            [
                f"{APIS[key].name}, {about}".rstrip(", "),
                f"{hold.longest:.0f}",
                f"{hold.collected:.0f}",
                f"{hold.total:.0f}",
            ]
            for (key, about), hold in sorted(found.items())
        ],
    )
    result.behind = [
        f"{APIS[key].name}, {about}: {hold.longest:.0f} ms"
        for (key, about), hold in sorted(found.items())
        if hold.longest > LIMIT_MS
    ]
    result.notes = [
        (
            "A hold is one callback of the loop, by the CPU clock of its thread, with what the garbage collector, set as by"
            " `groupsdk broker`, did in it. A thread imports what the first request of a kind needs."
            f" The load average was {before} before: caches that others use,"
            " too, make CPU times longer. Command: `python -m tests.benchmarks --full --only broker_holds --docs`."
        )
    ]
    return result
