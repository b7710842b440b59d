"""Build the configuration of a test broker: fast start, no log cleaning, short delays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from groupsdk.testing.ports import LOOPBACK


CONTROLLER = "CONTROLLER"
INTERNAL = "INTERNAL"
"""The listener for brokers and for `Probe`; always PLAINTEXT, never advertised to clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLayout:
    """The ports and the data directory of one node; `advertised` is what clients are given by listener name."""

    node_id: int
    data_dir: str
    controller_port: int
    internal_port: int
    listener_ports: Mapping[str, int]
    advertised: Mapping[str, tuple[str, int]] = field(default_factory=dict)


_TUNING = {
    # Each thread and buffer costs start time, and a test broker has a handful of clients.
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "num.replica.fetchers": "1",
    # The cleaner alone holds a buffer of 128 MiB.
    "log.cleaner.enable": "false",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # A commit waits for this long otherwise, for others to share its write.
    "group.coordinator.append.linger.ms": "0",
}

_FOR_TESTS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "auto.create.topics.enable": "false",
}

SESSION_TIMEOUT = "broker.session.timeout.ms"
ON_RESTART = {SESSION_TIMEOUT: "3000"}
"""Properties of a node that is started again: the controller refuses the new process for as long as it takes the old
one for alive; before Kafka 4.3 after an orderly end, too."""

# The only broker of a cluster has nobody to fail over to: a machine that halts for seconds costs it its partitions for nothing.
_ALONE = {SESSION_TIMEOUT: "30000", "broker.heartbeat.interval.ms": "500"}

_FAIL_OVER = {
    # Fail-over of a group takes about as long. The default is 9 s.
    SESSION_TIMEOUT: "3000",
    "broker.heartbeat.interval.ms": "500",
    # The defaults are 1 s, 2 s, 1 s and 30 s.
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "1500",
    "controller.quorum.election.backoff.max.ms": "500",
    "replica.lag.time.max.ms": "3000",
}


def _replication(nodes: int) -> dict[str, str]:
    factor = str(min(3, nodes))
    return {
        # Several partitions, so that the groups of a cluster have different coordinators.
        "offsets.topic.num.partitions": "1" if nodes == 1 else "3",
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": "1",
        "default.replication.factor": factor,
        "min.insync.replicas": "1",
    }


def node_properties(
    layout: NodeLayout,
    *,
    protocols: Mapping[str, str],
    voters: Sequence[tuple[int, int]],
) -> dict[str, str]:
    """Return the properties of one node that is broker and controller; voters are ids with controller ports."""
    listeners = {INTERNAL: (LOOPBACK, layout.internal_port)}
    listeners |= {name: (LOOPBACK, port) for name, port in layout.listener_ports.items()}
    advertised = listeners | dict(layout.advertised)

    def urls(addresses: Mapping[str, tuple[str, int]]) -> str:
        return ",".join(f"{name}://{host}:{port}" for name, (host, port) in addresses.items())

    security = {CONTROLLER: "PLAINTEXT", INTERNAL: "PLAINTEXT", **protocols}
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(layout.node_id),
        "controller.quorum.voters": ",".join(f"{n}@{LOOPBACK}:{port}" for n, port in voters),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": INTERNAL,
        "listeners": urls({CONTROLLER: (LOOPBACK, layout.controller_port), **listeners}),
        "advertised.listeners": urls(advertised),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in security.items()),
        "log.dirs": layout.data_dir,
    }
    properties |= _TUNING | _FOR_TESTS | _replication(len(voters))
    return properties | (_FAIL_OVER if len(voters) > 1 else _ALONE)


def _escaped(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "".join(c if " " <= c <= "~" else f"\\u{ord(c):04x}" for c in plain)


def properties_text(properties: Mapping[str, str]) -> str:
    """Return `properties` in the form of a Java properties file."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in properties.items())
