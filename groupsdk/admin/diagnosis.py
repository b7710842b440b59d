"""Diagnose a cluster: reachability, versions, permissions, clocks and contradictory timeouts.

Each finding names the problem and the change to make. `contradictions` is pure; the others query the cluster.
"""

import importlib.util
import ssl
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from groupsdk import errors
from groupsdk.admin.cluster import ClusterClient, ClusterMetadata
from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock, WallClock
from groupsdk.error_code import ErrorCode
from groupsdk.printable import address_text
from groupsdk.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.group_admin import ListGroupsRequest
from groupsdk.wire.messages.groups import DescribeGroupsRequest
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupsdk.wire.releases import first_release
from groupsdk.wire.schema import NOT_ASKED, ApiKey


_OFFSETS_TOPIC: Final = "__consumer_offsets"
_BROKER: Final = 4  # the config resource type of a broker
_AHEAD_MS: Final = 2_000
_CERTIFICATE_DAYS: Final = 30
_GROUP_RIGHTS: Final = 3
_TOPIC_RIGHTS: Final = 8
"""The versions of DescribeGroups and Metadata that return authorized operations."""
_OPERATIONS: Final = {3: "READ", 4: "WRITE", 8: "DESCRIBE"}
_ASKED: Final = (
    *("group.min.session.timeout.ms", "group.max.session.timeout.ms", "group.max.size"),
    *("group.initial.rebalance.delay.ms", "offsets.retention.minutes"),
    *("group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms"),
    *("offsets.topic.replication.factor", "connections.max.idle.ms"),
)
_EXTRAS: Final = {"SCRAM-SHA-256": ("scramp", "scram"), "SCRAM-SHA-512": ("scramp", "scram")}


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    check: str
    """What was looked at: "reach", "security", "versions", "topics", "rights", "clock", "timeouts"."""
    text: str
    remedy: str = ""


async def diagnose(
    settings: Mapping[str, Any],
    others: Mapping[str, Any],
    *,
    groups: Collection[str] = (),
    topics: Collection[str] = (),
    timeout_s: float = 15.0,
) -> AsyncIterator[Finding]:
    """Check a cluster step by step; stop early if the following steps cannot work.

    `others` are further settings of a client, whose timeouts are checked, too.
    """
    clock = WallClock()
    for finding in _installed(settings):
        yield finding
        return
    try:
        client = ClusterClient(settings, timeout_s=timeout_s)
    except errors.ConfigError as error:
        yield Finding(Level.ERROR, "timeouts", str(error), "correct the setting that is named")
        return
    reached = False
    async with client:
        async for finding in _reach(client, clock):
            reached = reached or finding.level is Level.OK
            yield finding
        if not reached:
            return
        try:
            metadata = await client.metadata()
        except (errors.NetworkError, errors.AuthenticationError) as error:
            # a port that wants SASL answers ApiVersions without
            yield _unreached("the cluster", error)
            return
        async for finding in _advertised(client, metadata):
            yield finding
        async for finding in _cluster(client, metadata):
            yield finding
        async for finding in _rights(client, groups, topics):
            yield finding
        yield await _clock(client, clock)
        configs = await _configs(client, metadata)
        for finding in contradictions({**settings, **others}, configs):
            yield finding


def contradictions(settings: Mapping[str, Any], broker: Mapping[str, str]) -> Iterator[Finding]:
    """Find contradictory timeouts between a client and its brokers, whose settings are empty if they may not be seen. Pure."""
    found = list(_of_client(settings)) + list(_of_both(settings, broker)) + list(_of_broker(broker))
    yield from found
    if not found:
        yield Finding(Level.OK, "timeouts", "no timeouts contradict each other")


def _of_client(settings: Mapping[str, Any]) -> Iterator[Finding]:
    session = _number(settings, "session.timeout.ms", 45_000)
    heartbeat = _number(settings, "heartbeat.interval.ms", 3_000)
    poll = _number(settings, "max.poll.interval.ms", 300_000)
    request = _number(settings, "request.timeout.ms", 30_000)
    if heartbeat * 3 > session:
        yield Finding(
            Level.ERROR if heartbeat >= session else Level.WARNING,
            "timeouts",
            f"heartbeat.interval.ms is {heartbeat}, session.timeout.ms {session}: one or two lost heartbeats"
            " expel the member",
            f"set heartbeat.interval.ms to {max(1, session // 3)} or less",
        )
    if poll < session:
        yield Finding(
            Level.WARNING,
            "timeouts",
            f"max.poll.interval.ms is {poll}, less than session.timeout.ms {session}: a member that works on a"
            " record leaves before its session would end",
            f"set max.poll.interval.ms to {session} or more",
        )
    if request >= poll:
        yield Finding(
            Level.WARNING,
            "timeouts",
            f"request.timeout.ms is {request}, max.poll.interval.ms {poll}: one request that hangs takes the"
            " whole interval",
            f"set request.timeout.ms below {poll}",
        )


def _of_both(settings: Mapping[str, Any], broker: Mapping[str, str]) -> Iterator[Finding]:
    session = _number(settings, "session.timeout.ms", 45_000)
    least = _number(broker, "group.min.session.timeout.ms", 0)
    most = _number(broker, "group.max.session.timeout.ms", 2**31)
    if settings.get("group.protocol", "classic") != "consumer" and not least <= session <= most:
        yield Finding(
            Level.ERROR,
            "timeouts",
            f"session.timeout.ms is {session}; the brokers allow {least} to {most}",
            "set session.timeout.ms within them, or group.min.session.timeout.ms and"
            " group.max.session.timeout.ms of the brokers",
        )
    idle = _number(broker, "connections.max.idle.ms", 600_000)
    heartbeat = _number(settings, "heartbeat.interval.ms", 3_000)
    if 0 < idle <= heartbeat:
        yield Finding(
            Level.ERROR,
            "timeouts",
            f"connections.max.idle.ms of the brokers is {idle}, heartbeat.interval.ms {heartbeat}: the"
            " connection is closed between two heartbeats",
            f"set connections.max.idle.ms above {heartbeat}",
        )


def _of_broker(broker: Mapping[str, str]) -> Iterator[Finding]:
    session = _number(broker, "group.consumer.session.timeout.ms", 45_000)
    heartbeat = _number(broker, "group.consumer.heartbeat.interval.ms", 5_000)
    if heartbeat * 3 > session:
        yield Finding(
            Level.WARNING,
            "timeouts",
            f"group.consumer.heartbeat.interval.ms of the brokers is {heartbeat},"
            f" group.consumer.session.timeout.ms {session}: one or two lost heartbeats expel a member",
            f"set group.consumer.heartbeat.interval.ms to {max(1, session // 3)} or less",
        )
    retention = _number(broker, "offsets.retention.minutes", 10_080)
    if retention < 24 * 60:
        yield Finding(
            Level.WARNING,
            "timeouts",
            f"offsets.retention.minutes of the brokers is {retention}: a group that is away for longer begins"
            " at auto.offset.reset",
            "set offsets.retention.minutes to 10080 (a week, Kafka's default)",
        )


def _number(settings: Mapping[str, Any], key: str, default: int) -> int:
    try:
        return int(settings.get(key, settings.get(key.replace(".", "_"), default)))
    except (TypeError, ValueError):
        return default


def _installed(settings: Mapping[str, Any]) -> Iterator[Finding]:
    mechanism = str(settings.get("sasl.mechanism", settings.get("sasl.mechanisms", ""))).upper()
    package, extra = _EXTRAS.get(mechanism, ("", ""))
    if package and importlib.util.find_spec(package) is None:
        yield Finding(
            Level.ERROR,
            "security",
            f"sasl.mechanism is {mechanism}, and the package {package} is not installed",
            f"pip install 'groupsdk[{extra}]'",
        )


async def _reach(client: ClusterClient, clock: Clock) -> AsyncIterator[Finding]:
    for host, port in client.config.servers:
        where = address_text(host, port)
        try:
            connection = await client.connection((host, port))
        except errors.GroupSdkError as error:
            yield _unreached(where, error)
        except OSError as error:
            yield Finding(Level.ERROR, "reach", f"{where}: {error}", "check host and port")
        else:
            protocol = client.config.security.protocol
            yield Finding(Level.OK, "reach", f"{where} answers, security.protocol={protocol}")
            if connection.certificate:
                yield _certificate(where, connection.certificate, clock.now_ms())
            yield _version(connection.versions)


def _certificate(where: str, certificate: Mapping[str, Any], now_ms: int) -> Finding:
    ends = datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)
    days = (ends - datetime.fromtimestamp(now_ms / 1000, UTC)) // timedelta(days=1)
    text = f"{where}: the broker's certificate is valid until {ends:%Y-%m-%d}, {days} days from now"
    if days < _CERTIFICATE_DAYS:
        remedy = "renew it in time: no client connects after that day"
        return Finding(Level.WARNING, "security", text, remedy)
    return Finding(Level.OK, "security", text)


def _unreached(where: str, error: errors.GroupSdkError) -> Finding:
    text = str(error) if where in str(error) else f"{where}: {error}"
    match error:
        case errors.AuthenticationError() if "security.protocol" in text:
            remedy = "set security.protocol to that of the broker's listener, or take another port"
        case errors.TlsError():
            remedy = (
                "check ssl.ca.location (the certificates that signed the broker's), that the broker's"
                " certificate names this host, and ssl.certificate.location where it asks for one"
            )
        case errors.AuthenticationError():
            remedy = "check sasl.mechanism, sasl.username and the password, and that the listener uses SASL"
        case errors.UnsupportedVersionError():
            remedy = "use brokers of Apache Kafka 2.1 or later"
        case errors.ConfigError():
            remedy = "correct the setting that is named"
        case _:
            remedy = "check host and port, firewalls, and that security.protocol is that of the broker's listener"
    is_security = isinstance(error, errors.AuthenticationError)
    return Finding(Level.ERROR, "security" if is_security else "reach", text, remedy)


def _version(versions: Mapping[int, tuple[int, int]]) -> Finding:
    newest = "2.1"
    for key in ApiKey:
        if key in versions:
            try:
                release = first_release(key, versions[key][1])
            except KeyError:
                continue
            if release is not None:
                newest = max(newest, release, key=_release)
    has = "with" if ConsumerGroupHeartbeatRequest.api.key in versions else "without"
    text = f"Apache Kafka {newest} or later, {has} the consumer protocol (KIP-848)"
    return Finding(Level.OK, "versions", text)


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split("."))


async def _advertised(client: ClusterClient, metadata: ClusterMetadata) -> AsyncIterator[Finding]:
    known = set(client.config.servers)
    for broker in metadata.brokers.values():
        address = broker.host, broker.port
        if address in known:
            continue
        where = f"node {broker.node_id} at {address_text(broker.host, broker.port)}"
        try:
            await client.connection(address)
        except (errors.GroupSdkError, OSError) as error:
            yield Finding(
                Level.ERROR,
                "reach",
                f"{where}, as the cluster advertises it, cannot be reached: {error}",
                "set advertised.listeners of that broker to an address that clients can reach",
            )
        else:
            yield Finding(Level.OK, "reach", f"{where} answers")


async def _cluster(client: ClusterClient, metadata: ClusterMetadata) -> AsyncIterator[Finding]:
    count = len(metadata.brokers)
    brokers = "broker" if count == 1 else "brokers"
    topic = (await client.metadata([_OFFSETS_TOPIC])).topics.get(_OFFSETS_TOPIC)
    if topic is None or topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        yield Finding(Level.OK, "topics", f"{count} {brokers}; {_OFFSETS_TOPIC} does not exist yet")
        return
    parts = len(topic.partitions)
    lost = [number for number, each in topic.partitions.items() if each.leader < 0]
    behind = [n for n, each in topic.partitions.items() if len(each.in_sync) < len(each.replicas)]
    alone = all(len(each.replicas) == 1 for each in topic.partitions.values())
    if lost:
        yield Finding(
            Level.ERROR,
            "topics",
            f"{len(lost)} of {parts} partitions of {_OFFSETS_TOPIC} have no leader: their"
            " groups have no coordinator",
            "start the brokers that have them",
        )
    elif behind:
        yield Finding(
            Level.WARNING,
            "topics",
            f"{len(behind)} of {len(topic.partitions)} partitions of {_OFFSETS_TOPIC} have a replica that is not in sync",
            "start the brokers that are down, or wait until they have caught up",
        )
    elif alone and count > 1:
        yield Finding(
            Level.WARNING,
            "topics",
            f"{_OFFSETS_TOPIC} has one replica on {count} brokers: losing a broker loses its offsets",
            "raise its replicas with kafka-reassign-partitions.sh, and offsets.topic.replication.factor to 3",
        )
    else:
        yield Finding(
            Level.OK,
            "topics",
            f"{count} {brokers}; {_OFFSETS_TOPIC} has {parts} partition{'' if parts == 1 else 's'}",
        )


async def _rights(
    client: ClusterClient, groups: Collection[str], topics: Collection[str]
) -> AsyncIterator[Finding]:
    try:
        await client.ask_any(ListGroupsRequest())
    except errors.GroupSdkError as error:
        yield Finding(Level.WARNING, "rights", f"cannot list the groups: {error}")
    for group in groups:
        yield await _right_to_group(client, group)
    if topics:
        async for finding in _rights_to_topics(client, topics):
            yield finding


async def _right_to_group(client: ClusterClient, group: str) -> Finding:
    remedy = f"allow READ of the group: kafka-acls.sh --add --allow-principal User:NAME --operation Read --group {group}"
    try:
        node = await client.coordinator(group)
        # from Kafka 2.3 on (KIP-430)
        says = await client.newest_version(node, DescribeGroupsRequest) >= _GROUP_RIGHTS
        request = DescribeGroupsRequest((group,), include_authorized_operations=says)
        answer = await client.ask(node, request)
    except errors.CoordinatorNotAvailableError as error:
        text = f"group {group!r} has no coordinator: {error}"
        return Finding(Level.ERROR, "topics", text, f"start the brokers of {_OFFSETS_TOPIC}")
    except errors.NetworkError as error:
        return Finding(Level.ERROR, "reach", str(error), "start the broker that coordinates it")
    except errors.BrokerError as error:
        is_right = error.error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED
        return Finding(Level.ERROR, "rights", str(error), remedy if is_right else "")
    found = answer.groups[0]
    if found.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return Finding(Level.ERROR, "rights", f"describing group {group!r} is not allowed", remedy)
    lacking = _lacking(found.authorized_operations, (3, 8))
    if lacking:
        return Finding(
            Level.ERROR, "rights", f"group {group!r}: {', '.join(lacking)} is not allowed", remedy
        )
    return Finding(Level.OK, "rights", f"joining group {group!r} is allowed")


async def _rights_to_topics(
    client: ClusterClient, topics: Collection[str]
) -> AsyncIterator[Finding]:
    node = min(await client.brokers())
    request = MetadataRequest(
        tuple(MetadataRequestTopic(name=each) for each in topics),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=await client.newest_version(node, MetadataRequest)
        >= _TOPIC_RIGHTS,
    )
    for topic in (await client.ask(node, request)).topics:
        name = topic.name or ""
        remedy = f"allow it: kafka-acls.sh --add --allow-principal User:NAME --operation Read --topic {name}"
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            text = f"there is no topic {name!r}, or describing it is not allowed"
            yield Finding(Level.ERROR, "rights", text, f"create it, or {remedy}")
        elif topic.error_code:
            yield Finding(
                Level.ERROR,
                "rights",
                f"topic {name!r}: {ErrorCode.of(topic.error_code).name}",
                remedy,
            )
        elif lacking := _lacking(topic.topic_authorized_operations, (3, 8)):
            text = f"topic {name!r}: {', '.join(lacking)} is not allowed"
            yield Finding(Level.ERROR, "rights", text, remedy)
        else:
            yield Finding(Level.OK, "rights", f"reading topic {name!r} is allowed")


def _lacking(allowed: int, wanted: Collection[int]) -> list[str]:
    """List the operations missing from the authorized operations bits (KIP-430)."""
    if allowed == NOT_ASKED:  # the broker does not report them
        return []
    return [_OPERATIONS[each] for each in wanted if not allowed >> each & 1]


async def _clock(client: ClusterClient, clock: Clock) -> Finding:
    """Compare this machine's clock with the timestamp of the latest commit, where that is conclusive."""
    try:
        topic = (await client.metadata([_OFFSETS_TOPIC])).topics[_OFFSETS_TOPIC]
        latest = await _latest_ms(client, sorted(topic.partitions))
    except (errors.GroupSdkError, KeyError, ValueError):
        return Finding(Level.OK, "clock", "the time of the brokers is unknown")
    ahead_ms = latest - clock.now_ms()
    if ahead_ms > _AHEAD_MS:
        return Finding(
            Level.WARNING,
            "clock",
            f"a broker wrote a record {ahead_ms / 1000:.1f} s in the future of this machine's clock",
            "set the clocks by NTP: tokens, certificates and times of offsets depend on them",
        )
    return Finding(Level.OK, "clock", "no broker is ahead of this machine's clock")


async def _latest_ms(client: ClusterClient, partitions: Collection[int]) -> int:
    from groupsdk.wire.records.batch import batches

    latest = -1
    names = [TopicPartition(_OFFSETS_TOPIC, each) for each in partitions]
    ends = await client.list_offsets(dict.fromkeys(names, -1))
    starts = await client.list_offsets(dict.fromkeys(names, -2))
    for each in names:
        if ends[each] <= starts[each]:
            continue
        data = await client.fetch(each, ends[each] - 1, max_bytes=1_000_000, max_wait_ms=0)
        for header, _ in batches(data.records or b""):
            latest = max(latest, header.max_timestamp)
    if latest < 0:
        raise ValueError("there is no record")
    return latest


async def _configs(client: ClusterClient, metadata: ClusterMetadata) -> dict[str, str]:
    node = min(metadata.brokers)
    resource = DescribeConfigsResource(_BROKER, str(node), _ASKED)
    try:
        answer = await client.ask(node, DescribeConfigsRequest((resource,)))
    except (errors.NetworkError, errors.BrokerError, errors.UnsupportedVersionError):
        return {}
    return {
        each.name: each.value
        for result in answer.results
        if not result.error_code
        for each in result.configs
        if each.value is not None
    }
