"""`groupsdk broker`: run a broker until it is told to stop."""

import asyncio
import gc
import logging
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.cli.command import Command
from groupsdk.cli.connection import split_pairs
from groupsdk.cli.page import cluster_page, page_families, page_options, serve_page
from groupsdk.cli.process import STOP_SIGNALS, log_level_option
from groupsdk.errors import ConfigError
from groupsdk.printable import address_text
from groupsdk.settings.properties import read_properties, read_text


if TYPE_CHECKING:
    from groupsdk.broker.server.broker import Broker
    from groupsdk.http.settings import HttpSettings
    from groupsdk.telemetry.openmetrics import Family
    from groupsdk.web.page import ClusterPage


logger = logging.getLogger(__name__)
_DEFAULT_ADDRESS: Final = "127.0.0.1:9092"
_METRICS_S: Final = 10.0
FIRST_GROUP: Final = (
    "groupsdk.broker.coordinators",
    "groupsdk.broker.coordinator.group.shard",
    *(
        f"groupsdk.broker.server.handlers.{name}"
        for name in ("cluster", "fetch", "groups", "list_offsets", "offsets")
    ),
)
"""The modules that the first requests of the first group need."""
COLLECTED_AFTER: Final = (10_000, 2, 280)
"""As for `gc.set_threshold`: a broker makes many objects at once and hardly any cycles.

The objects of one large request live until it is answered. A collection of the young generations looks at 40,000 of
them at most; one of 400,000 would hold the loop for 60 to 90 ms.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """The options of `groupsdk broker`, each field under its option's name; the command's help describes them."""

    listen: str = _DEFAULT_ADDRESS
    advertise: str | None = None
    data_dir: Path | None = None
    topics: Sequence[str] = ()
    nodes: int = 1
    first_node_id: int = 1
    config: Sequence[str] = ()
    """Files of settings."""
    settings: Sequence[str] = ()
    """KEY=VALUE pairs; they override those of `config`."""
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    users: Path | None = None


@click.command(
    cls=Command,
    examples=[
        ("groupsdk broker --topic orders:4", "on 127.0.0.1:9092, in memory"),
        ("groupsdk broker --data-dir /tmp/kafka --nodes 3", "three nodes that keep their data"),
        ("groupsdk broker --topic orders:4 --web 127.0.0.1:8080", "with a live web page"),
        ("groupsdk broker --set group.max.size=10 --config server.properties", "with settings"),
    ],
)
@click.option(
    "--listen",
    default=_DEFAULT_ADDRESS,
    show_default=True,
    metavar="HOST:PORT",
    envvar="GROUPSDK_LISTEN",
    help="Where to listen; port 0 takes a free one. With --nodes, separate one address for each node by commas. "
    "An address that others can reach needs TLS and users.",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="The address that clients connect to; with --nodes, one for each node, separated by commas.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    envvar="GROUPSDK_DATA_DIR",
    help="The directory for all data; by default, data is kept in memory.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME[:PARTITIONS]",
    help="A topic to create if it does not exist; repeatable.",
)
@click.option("--nodes", type=int, default=1, show_default=True, help="The number of nodes.")
@click.option(
    "--first-node-id",
    type=int,
    default=1,
    show_default=True,
    metavar="ID",
    help="The id of the first node; the others have the following ids.",
)
@click.option(
    "--config",
    "--properties",
    multiple=True,
    metavar="FILE",
    envvar="GROUPSDK_BROKER_CONFIG",
    help="A properties file with broker settings, such as server.properties.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A Kafka broker setting, such as group.max.size=10; repeatable.",
)
@click.option("--tls-certificate", metavar="PEM", help="Enable TLS with this certificate chain.")
@click.option("--tls-key", metavar="PEM", help="The private key, if it is in another file.")
@click.option(
    "--tls-client-ca", metavar="PEM", help="Require client certificates that this CA signed."
)
@click.option(
    "--users",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file with a name:password per line: clients must authenticate (PLAIN or SCRAM).",
)
@page_options
@log_level_option("info")
def broker(page: "HttpSettings | None", **options: Any) -> None:
    """Run a Kafka broker for local work and tests, until SIGTERM or SIGINT; SIGUSR1 logs its groups.

    With --web, a live page shows its groups, and /metrics counts them for Prometheus.
    """
    given = BrokerOptions(**options)
    if page is not None and (given.users is not None or given.tls_certificate is not None):
        raise ConfigError(
            "--web cannot log in to a broker with --users or TLS: start `groupsdk watch --web` beside it, with a"
            " user's credentials"
        )
    made, topics = broker_of(given)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(made, topics, page))


def broker_of(options: BrokerOptions) -> "tuple[Broker, dict[str, int]]":
    """Build the broker that the options describe; return it unstarted, and the partition counts of the topics to create."""
    from groupsdk.broker.server.broker import Broker

    users = {} if options.users is None else read_users(options.users)
    settings: dict[str, Any] = {"group.initial.rebalance.delay.ms": 0}
    settings.update(_listener_settings(options, with_users=bool(users)))
    for each in options.config:
        settings.update(read_properties(each))
    settings.update(split_pairs("--set", options.settings))
    made = Broker(
        BrokerConfig.of(settings),
        nodes=options.nodes,
        first_node_id=options.first_node_id,
        data_dir=options.data_dir,
        users=users,
    )
    return made, dict(_topic(text) for text in options.topics)


def _loop_factory() -> Any:
    try:
        import uvloop  # type: ignore[import-not-found,unused-ignore]  # optional: an extra
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _serve(
    broker: "Broker", topics: dict[str, int], page: "HttpSettings | None" = None
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    broker.open(topics)
    try:
        await broker.serve()
        loop.add_signal_handler(signal.SIGUSR1, partial(_log_groups, broker))
        # in a thread and while it serves: as part of the first request it would hold the loop for a quarter of a second
        for name in FIRST_GROUP:
            await asyncio.to_thread(import_module, name)
        limit_collections()
        with ExitStack() as stack:
            if page is not None:
                shown = cluster_page({"bootstrap.servers": _own_address(broker)})
                server = serve_page(shown, page, partial(_metrics, broker, loop, shown))
                # it starts and stops by waiting for its thread, which asks this loop
                await asyncio.to_thread(stack.enter_context, server)
            await stopped.wait()
            logger.info("stopping")
            await asyncio.to_thread(stack.close)
    finally:
        broker.close()
        # the connections that were cut have still to notice
        await asyncio.sleep(0)
    logger.info("stopped")


def limit_collections() -> None:
    """Set the garbage collector of a process in which nothing but a broker runs, so that it does not hold the loop long."""
    # what was loaded until now stays; to go through it again and again takes a tenth of all time
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)
    gc.callbacks.append(keep_survivors)


def keep_survivors(phase: str, info: Mapping[str, int]) -> None:
    """Exempt what has survived a full collection from further ones: they would take longer with each group and topic.

    They are still freed when nothing refers to them. What becomes a cycle later stays in memory: of a broker's objects
    only the transport of a connection with TLS does, some 1 KB.
    """
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


def _own_address(broker: "Broker") -> str:
    pairs = [node.endpoint(node.listener_names[0]) for node in broker.nodes.values()]
    return ",".join(address_text(host, port) for host, port in pairs)


def _metrics(
    broker: "Broker", loop: asyncio.AbstractEventLoop, page: "ClusterPage"
) -> "list[Family]":
    """Return the metrics of the broker and of its groups.

    To be called on any thread but the loop's, where they are counted.
    """
    from groupsdk.broker.inspection import group_metrics
    from groupsdk.telemetry.registry import broker_families

    async def counted() -> Mapping[str, int]:
        return group_metrics(broker.cluster)

    found = asyncio.run_coroutine_threadsafe(counted(), loop).result(_METRICS_S)
    return [*broker_families(found, {}), *page_families(page)]


def _log_groups(broker: "Broker") -> None:
    """Log the counts of groups, and how far each one is that has members or waits for some."""
    from groupsdk.broker.coordinator.consumer.views import ConsumerGroupView
    from groupsdk.broker.inspection import group_metrics, group_statuses, group_views

    cluster = broker.cluster
    logger.info(", ".join(f"{name}={value}" for name, value in group_metrics(cluster).items()))
    views = group_views(cluster)
    for group_id, status in sorted(group_statuses(cluster).items()):
        view = views[group_id]
        members = view.members
        if members or status.waiting_for:
            logger.info(
                "group=%s %s=%d: %s since %s, members %s, waiting for %s until %s",
                *(group_id, "epoch" if isinstance(view, ConsumerGroupView) else "generation"),
                *(status.generation_id, status.state.value, status.since_ms),
                ", ".join(
                    f"{each.member_id} (joined {each.joined_ms})" for each in members.values()
                )
                or "none",
                ", ".join(status.waiting_for) or "nobody",
                status.until_ms,
            )


def _listener_settings(options: BrokerOptions, *, with_users: bool) -> dict[str, Any]:
    tls = options.tls_certificate is not None
    if not tls and (options.tls_key or options.tls_client_ca):
        raise ConfigError("--tls-key and --tls-client-ca need --tls-certificate")
    protocol = {
        (False, False): "PLAINTEXT",
        (True, False): "SSL",
        (False, True): "SASL_PLAINTEXT",
        (True, True): "SASL_SSL",
    }[tls, with_users]
    settings: dict[str, Any] = {"listeners": _of_all_nodes("--listen", protocol, options.listen)}
    if options.advertise is not None:
        advertised = _of_all_nodes("--advertise", protocol, options.advertise)
        settings["advertised.listeners"] = advertised
    if tls:
        settings["ssl.keystore.location"] = options.tls_certificate
        settings["ssl.key.location"] = options.tls_key or ""
    if options.tls_client_ca:
        settings["ssl.truststore.location"] = options.tls_client_ca
        settings["ssl.client.auth"] = "required"
    return settings


def _of_all_nodes(option: str, protocol: str, addresses: str) -> str:
    found = []
    for each in map(str.strip, addresses.split(",")):
        _, colon, port = each.rpartition(":")
        if "://" in each or not (
            colon and port.isascii() and port.isdigit() and int(port) < 65_536
        ):
            raise ConfigError(
                f"{option} must be HOST:PORT with a port of 0 to 65535, such as {_DEFAULT_ADDRESS}, not {each!r}"
            )
        found.append(f"{protocol}://{each}")
    return ",".join(found)


def read_users(path: Path) -> dict[str, str]:
    """Read the passwords by name from a file of `name:password` lines; empty ones and those that start with # are skipped.

    Raises ConfigError if a line is not of this form, or there is none; the message does not contain the line.
    """
    users = {}
    for number, line in _lines(path):
        name, colon, password = line.partition(":")
        if not (name and colon and password):
            raise ConfigError(f"{path}, line {number}: not of the form name:password")
        users[name] = password
    if not users:
        raise ConfigError(f"{path} names no user")
    return users


def _lines(path: Path) -> Iterable[tuple[int, str]]:
    for number, line in enumerate(read_text(path, "--users").splitlines(), start=1):
        text = line.strip()
        if text and not text.startswith("#"):
            yield number, text


def _topic(text: str) -> tuple[str, int]:
    name, colon, count = text.partition(":")
    if colon and not (count.isascii() and count.isdigit() and int(count) > 0):
        raise ConfigError(
            f"--topic {text}: the number of partitions must be a positive integer, not {count!r}"
        )
    return name, int(count) if colon else 1
