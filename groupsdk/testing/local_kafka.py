"""LocalKafka: a real Apache Kafka on this machine, for tests and demonstrations."""

import logging
import os
import shutil
import signal
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from groupsdk.clock import Deadline
from groupsdk.lazy_imports import override
from groupsdk.testing.errors import BrokerStartError, LocalKafkaError
from groupsdk.testing.install import Installation, install, new_cluster_id
from groupsdk.testing.jars import made_once
from groupsdk.testing.node import Node, deadline_in
from groupsdk.testing.ports import ReservedPorts
from groupsdk.testing.probe import UNKNOWN_MEMBER_ID
from groupsdk.testing.properties import (
    ON_RESTART,
    SESSION_TIMEOUT,
    NodeLayout,
    node_properties,
    properties_text,
)
from groupsdk.testing.security import ADMIN, DEFAULT_USERS, Security, listener_protocols
from groupsdk.testing.watchdog import WATCHDOG


logger = logging.getLogger(__name__)
DEFAULT_VERSION = "4.3.1"
_READY_TIMEOUT_MS = 60_000
_POLL_S = 0.02
_START_ATTEMPTS = 3
_ADDRESS_IN_USE = "Address already in use"
_COORDINATOR_LOGS = "org.apache.kafka.coordinator,kafka.coordinator.group"


def _end(nodes: list[Node], ports: ReservedPorts, scratch: Path | None, owner: int) -> None:
    """End what a LocalKafka holds; also run by the garbage collector and at exit."""
    if os.getpid() != owner:
        return
    for node in nodes:
        node.kill()
    ports.close()
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)


class LocalKafka:
    """A real Apache Kafka in KRaft mode on 127.0.0.1, started from the jars of Maven Central.

    Use it as a context manager, or call `start` and `stop`::

        with LocalKafka() as kafka:
            consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, ...})

    What it needs and keeps: a Java 17 or later, and Maven (`mvn`) for the first start of a version, which
    fetches 46 jars (43 MiB) and, once, runs a broker to record an archive of its classes (48 MiB), which
    halves the time of later starts. All is kept in `~/.cache/groupsdk` (see `groupsdk.testing.jars`). A broker
    answers in about 1.5 s and takes about 160 MiB.

    The brokers do not outlive this Python process, however it ends. All methods block; an instance is
    used by one thread at a time. Set for tests: no initial rebalance delay, session timeouts from 1 ms,
    no automatic creation of topics, no log cleaner (`properties` overrides each).

    Args:
        version: the release of Apache Kafka, such as "4.1.0".
        nodes: how many brokers, each of them controller too. With three, `__consumer_offsets` has three
            replicas and three partitions, and the groups of a dead node move to another in about 4 s.
        properties: broker properties over those that are set here.
        listeners: security protocols, one listener each, or listener name to security protocol. The
            first is that of `bootstrap_servers`.
        advertised: for a listener name the (host, port) that clients are told to connect to, one for each
            node: for a proxy in front of the brokers.
        data_dir: where data and logs are kept; what is in it is used again. A temporary directory when None.
        users: password by name, for SASL PLAIN and SCRAM. OAUTHBEARER takes unsigned tokens of anyone.
        authorizer: refuse what no ACL allows, except to `super_users` and to clients without a name (PLAINTEXT; SSL
            without a certificate).
        super_users: who may do everything where there is an authorizer.
        ssl_client_auth: "none", "requested" or "required".
        log: write the group coordinator's log at level info into `nodes[i].log_file`, not only errors.
        class_archive: whether to use, and make, the archive of loaded classes.
    """

    def __init__(
        self,
        *,
        version: str = DEFAULT_VERSION,
        nodes: int = 1,
        properties: Mapping[str, str] | None = None,
        listeners: str | Sequence[str] | Mapping[str, str] = "PLAINTEXT",
        advertised: Mapping[str, Sequence[tuple[str, int]]] | None = None,
        data_dir: Path | None = None,
        users: Mapping[str, str] = DEFAULT_USERS,
        authorizer: bool = False,
        super_users: Sequence[str] = (ADMIN,),
        ssl_client_auth: str = "none",
        log: bool = False,
        class_archive: bool = True,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"nodes must be at least 1, not {nodes}")
        self.version = version
        self._count = nodes
        self._properties = dict(properties or {})
        self._security = Security(
            protocols=listener_protocols(listeners),
            users=users,
            authorizer=authorizer,
            super_users=super_users,
            ssl_client_auth=ssl_client_auth,
        )
        self._advertised = self._checked(advertised or {})
        self._data_dir = data_dir
        self._log = log
        self._class_archive = class_archive
        self._nodes: list[Node] = []
        self._directory: Path | None = None
        self._finalizer: weakref.finalize[..., LocalKafka] | None = None

    def _checked(
        self, advertised: Mapping[str, Sequence[tuple[str, int]]]
    ) -> dict[str, tuple[tuple[str, int], ...]]:
        for name, addresses in advertised.items():
            if name not in self._security.protocols:
                raise ValueError(f"advertised names {name!r}, which is not a listener")
            if len(addresses) != self._count:
                raise ValueError(
                    f"advertised[{name!r}] needs {self._count} addresses, one per node"
                )
        return {name: tuple(addresses) for name, addresses in advertised.items()}

    @override
    def __repr__(self) -> str:
        state = "running" if any(node.running for node in self._nodes) else "not running"
        return f"LocalKafka(version={self.version!r}, nodes={self._count}, {state})"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._data_dir is None:
            self.close()
        else:
            self.stop()
            self.close()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The brokers, node id 1 first; empty before `start`."""
        return tuple(self._nodes)

    @property
    def users(self) -> Mapping[str, str]:
        """Password by user name."""
        return self._security.users

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the first listener, as advertised, in the form of `bootstrap.servers`."""
        return self.bootstrap_servers_of(next(iter(self._security.protocols)))

    def bootstrap_servers_of(self, listener: str) -> str:
        """Return the addresses of `listener`, as advertised."""
        self._require_started()
        if listener in self._advertised:
            return ",".join(f"{host}:{port}" for host, port in self._advertised[listener])
        return ",".join(node.address(listener) for node in self._nodes)

    @property
    def directory(self) -> Path:
        """Where data, logs and certificates are."""
        if self._directory is None:
            raise LocalKafkaError("not started")
        return self._directory

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that TLS clients are to trust (PEM)."""
        return self.directory / "ca.pem"

    @property
    def client_certificate_file(self) -> Path:
        """A key and certificate of that authority, for clients where `ssl_client_auth` asks (PEM)."""
        return self.directory / "client.pem"

    def start(self) -> None:
        """Start all nodes and wait until each answers and the coordinator of groups does.

        Called again after `stop` or `kill`, it starts the nodes that do not run, with the same ports and data.

        Raises:
            MissingToolError: no Java 17 or later, or no Maven.
            FetchError: the jars could not be fetched.
            BrokerStartError: a node ended or was not ready in time.
        """
        if self._nodes:
            for node in self._nodes:
                if not node.running:
                    node.start()
            self.wait_ready()
            return
        installation = prepare(self.version) if self._class_archive else install(self.version)
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._lay_out(installation)
            try:
                for node in self._nodes:
                    node.start()
                self.wait_ready()
            except BaseException as error:
                clash = isinstance(error, BrokerStartError) and _ADDRESS_IN_USE in str(error)
                self.close()
                if not clash or attempt == _START_ATTEMPTS:
                    raise
                logger.info("a port was taken by another process; trying others")
            else:
                return

    def stop(self) -> None:
        """Stop all nodes in an orderly way; the data is kept, and `start` goes on with it."""
        for node in self._nodes:
            if node.running:
                node.resume()
        # All at once: the last of a cluster would wait for the others to take its partitions over.
        for node in self._nodes:
            node.signal_if_running(signal.SIGTERM)
        for node in self._nodes:
            node.stop()

    def kill(self) -> None:
        """End all nodes at once (SIGKILL)."""
        for node in self._nodes:
            node.kill()

    def pause(self) -> None:
        """Stop all nodes from running (SIGSTOP): connections stay open and answer nothing."""
        for node in self._nodes:
            node.pause()

    def resume(self) -> None:
        """Let all nodes run on (SIGCONT)."""
        for node in self._nodes:
            node.resume()

    def restart(self) -> None:
        """Stop what runs, and start all nodes with the same ports and data; wait until they are ready."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End all nodes, give the ports back and remove the data, unless `data_dir` was given."""
        if self._finalizer is not None:
            self._finalizer()
        self._nodes = []
        self._directory = None

    def wait_ready(self, timeout_ms: int = _READY_TIMEOUT_MS) -> None:
        """Wait until the running nodes know each other, are in sync, and all groups have a coordinator that answers.

        Nodes that are killed or paused are not waited for: call it after a kill to wait for the fail-over.

        Raises:
            BrokerStartError: a node ended, or time was up; the text shows the tail of its log.
        """
        self._require_started()
        deadline = deadline_in(timeout_ms)
        awake = [node for node in self._nodes if node.pid is not None and not node.paused]
        if not awake:
            raise self._nodes[0].failure("is not running, nor is any other")
        node_ids = {node.node_id for node in awake}
        for node in awake:
            node.await_registered(node_ids, deadline)
        partitions = int(self._effective("offsets.topic.num.partitions", "1"))
        for partition in range(partitions):
            # Java's hash of one character is its code, so these groups are in partitions of their own.
            self._await_coordinator(chr(ord("a") + partition), awake, deadline)
        # Else the next node to be killed may be the only one that has the groups.
        for node in awake:
            node.await_in_sync("__consumer_offsets", node_ids, deadline)

    def coordinator_of(self, group_id: str, timeout_ms: int = _READY_TIMEOUT_MS) -> Node:
        """Return the node that coordinates a group now, once it answers for it; BrokerStartError if none does in time."""
        self._require_started()
        awake = [node for node in self._nodes if node.pid is not None and not node.paused]
        return self._await_coordinator(group_id, awake, deadline_in(timeout_ms))

    def _effective(self, key: str, default: str) -> str:
        cluster = "3" if key == "offsets.topic.num.partitions" and self._count > 1 else default
        return self._properties.get(key, cluster)

    def _require_started(self) -> None:
        if not self._nodes:
            raise LocalKafkaError(
                "LocalKafka is not started: call start() or use it in a with statement"
            )

    def _await_coordinator(self, group_id: str, awake: list[Node], deadline: Deadline) -> Node:
        by_id = {node.node_id: node for node in awake}
        problem: object = "not asked yet"
        while awake:
            try:
                with awake[0].probe() as probe:
                    found = probe.find_coordinator(group_id)
                coordinator = by_id.get(found.node_id)
                problem = f"FindCoordinator names node {found.node_id}, error {found.error_code}"
                if coordinator is not None and found.error_code == 0:
                    with coordinator.probe() as probe:
                        error_code = probe.heartbeat_error(group_id)
                    if error_code == UNKNOWN_MEMBER_ID:
                        return coordinator
                    problem = f"node {found.node_id} answers a heartbeat with error {error_code}"
            except OSError as error:
                problem = error
            if deadline.expired or not awake[0].running:
                raise awake[0].failure(f"finds no coordinator of group {group_id!r}: {problem}")
            time.sleep(_POLL_S)
        raise LocalKafkaError("no node is running")

    def _lay_out(self, installation: Installation) -> None:
        """Reserve ports, format directories and make the nodes, none of them started."""
        names = list(self._security.protocols)
        ports = ReservedPorts(self._count * (2 + len(names)))
        scratch = None
        if self._data_dir is None:
            scratch = Path(tempfile.mkdtemp(prefix="groupsdk-kafka-"))
            WATCHDOG.remove_at_end(scratch)
        else:
            self._data_dir.mkdir(parents=True, exist_ok=True)
        self._directory = scratch or self._data_dir
        nodes: list[Node] = []
        self._finalizer = weakref.finalize(self, _end, nodes, ports, scratch, os.getpid())
        self._nodes = nodes
        free = iter(ports.ports)
        layouts = [self._layout(index, free) for index in range(self._count)]
        voters = [(layout.node_id, layout.controller_port) for layout in layouts]
        secured = self._security.properties(self.directory)
        cluster_id = self._cluster_id()
        on_restart = {} if SESSION_TIMEOUT in self._properties else ON_RESTART
        # a directory that is used again had a process before
        session = on_restart if self._data_dir is not None else {}
        for layout in layouts:
            properties = node_properties(layout, protocols=self._security.protocols, voters=voters)
            file = self.directory / f"node-{layout.node_id}.properties"
            file.touch(mode=0o600)
            file.write_text(properties_text(properties | session | secured | self._properties))
            storage = Path(layout.data_dir)
            if not (storage / "meta.properties").exists():
                installation.format(storage, layout.node_id, cluster_id, self._security.scram)
            options = self._java_options(installation)
            command = installation.command("kafka.Kafka", str(file), options=options)
            log_file = self.directory / f"node-{layout.node_id}.log"
            nodes.append(Node(layout, command, log_file, on_restart=on_restart))

    def _layout(self, index: int, free: Iterator[int]) -> NodeLayout:
        return NodeLayout(
            node_id=index + 1,
            data_dir=str(self.directory / f"node-{index + 1}"),
            controller_port=next(free),
            internal_port=next(free),
            listener_ports={name: next(free) for name in self._security.protocols},
            advertised={name: addresses[index] for name, addresses in self._advertised.items()},
        )

    def _cluster_id(self) -> str:
        for meta in self.directory.glob("node-*/meta.properties"):
            for line in meta.read_text().splitlines():
                if line.startswith("cluster.id="):
                    return line.partition("=")[2]
        return new_cluster_id()

    def _java_options(self, installation: Installation) -> list[str]:
        options = [
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            # as Kafka's own configuration writes the time, so that what reads brokers' logs reads this
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=[yyyy-MM-dd HH:mm:ss,SSS]",
        ]
        if self._log:
            options += [
                f"-Dorg.slf4j.simpleLogger.log.{name}=info" for name in _COORDINATOR_LOGS.split(",")
            ]
        if self._class_archive and installation.class_archive.exists():
            options += [f"-XX:SharedArchiveFile={installation.class_archive}", "-Xlog:cds=off"]
        return options


def prepare(version: str = DEFAULT_VERSION) -> Installation:
    """Do now what the first start of a version does: fetch the jars and record the archive of classes.

    Takes seconds to minutes the first time, and nothing later.

    Raises:
        MissingToolError: no Java 17 or later, or no Maven.
        FetchError: the jars could not be fetched.
    """
    installation = install(version)
    _train(installation)
    return installation


def _train(installation: Installation) -> None:
    """Make the archive of the classes that a broker loads, unless there is one.

    Without it all works as well, only slower, so a failure is logged and no more.
    """

    def make(scratch: Path) -> None:
        logger.info(
            "recording the class data archive of Apache Kafka %s, once", installation.version
        )
        trainee = LocalKafka(version=installation.version, class_archive=False)
        trainee._lay_out(installation)  # noqa: SLF001 - of the same class
        try:
            archive = scratch / "kafka.jsa"
            for node in trainee.nodes:
                node.start(options=[f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:cds=off"])
            trainee.wait_ready()
            trainee.nodes[0].stop(_READY_TIMEOUT_MS)
            if not archive.exists():
                raise trainee.nodes[0].failure("wrote no class data archive")
        finally:
            trainee.close()

    try:
        made_once(installation.class_archive.parent, make)
    except LocalKafkaError as error:
        logger.warning("starting without a class data archive: %s", error)
