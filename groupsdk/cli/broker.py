"""`groupsdk broker`: run a broker until it is told to stop."""

import argparse
import asyncio
import gc
import logging
import signal
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from groupsdk.broker.config import BrokerConfig
from groupsdk.errors import ConfigError


if TYPE_CHECKING:
    from groupsdk.broker.server.broker import Broker


_LOG = logging.getLogger(__name__)
_DEFAULT_ADDRESS: Final = "127.0.0.1:9092"
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_COLLECTED_AFTER: Final = (20_000, 20, 20)
"""As for `gc.set_threshold`: a broker makes many objects at once and hardly a cycle."""


class BrokerCommand:
    """Run a broker in this process until SIGTERM or SIGINT."""

    name = "broker"
    help = "run a Kafka broker for local work and tests, until SIGTERM or SIGINT; SIGUSR1 logs its groups"
    sets_up_logging = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its options."""
        parser.add_argument(
            "--listen",
            default=_DEFAULT_ADDRESS,
            metavar="HOST:PORT",
            help=f"where to listen; port 0 takes a free one (default: {_DEFAULT_ADDRESS}). An address"
            " that others can reach needs TLS and users",
        )
        parser.add_argument(
            "--advertise", metavar="HOST:PORT", help="what clients are told to connect to"
        )
        parser.add_argument(
            "--data-dir", type=Path, help="where everything is kept (default: in memory only)"
        )
        parser.add_argument(
            "--topic",
            action="append",
            default=[],
            metavar="NAME[:PARTITIONS]",
            help="a topic to create where it is not there; may be given more than once",
        )
        parser.add_argument("--nodes", type=int, default=1, help="how many nodes (default: 1)")
        parser.add_argument(
            "--first-node-id",
            type=int,
            default=1,
            metavar="ID",
            help="the id of the first node; the others have those that follow (default: 1)",
        )
        parser.add_argument(
            "--config",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a broker setting of Kafka's, such as group.max.size=10; may be given more than once",
        )
        parser.add_argument("--properties", type=Path, help="a file of such settings")
        parser.add_argument("--tls-certificate", metavar="PEM", help="certificate chain, for TLS")
        parser.add_argument("--tls-key", metavar="PEM", help="its key, if that is another file")
        parser.add_argument(
            "--tls-client-ca", metavar="PEM", help="ask clients for certificates of it"
        )
        parser.add_argument(
            "--users",
            type=Path,
            metavar="FILE",
            help="name:password in each line: clients have to authenticate (PLAIN or SCRAM)",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the broker; 0 when it was told to stop.

        Raises:
            ConfigError: an option is wrong.
            GroupSdkError: the data directory cannot be used.
        """
        broker, topics = broker_of(arguments)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(broker, topics))
        return 0


def broker_of(arguments: argparse.Namespace) -> "tuple[Broker, dict[str, int]]":
    """Make the broker that the options ask for, not started, and the topics to create.

    Raises:
        ConfigError: an option is wrong.
    """
    from groupsdk.broker.server.broker import Broker

    users = {} if arguments.users is None else read_users(arguments.users)
    settings: dict[str, Any] = {"group.initial.rebalance.delay.ms": 0}
    settings.update(_listener_settings(arguments, with_users=bool(users)))
    if arguments.properties is not None:
        settings.update(read_properties(arguments.properties))
    settings.update(_pairs("--config", arguments.config))
    config = BrokerConfig.of(settings)
    broker = Broker(
        config,
        nodes=arguments.nodes,
        first_node_id=arguments.first_node_id,
        data_dir=arguments.data_dir,
        users=users,
    )
    return broker, dict(_topic(text) for text in arguments.topic)


def _loop_factory() -> Any:
    try:
        import uvloop  # type: ignore[import-not-found,unused-ignore]  # optional: an extra
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _serve(broker: "Broker", topics: dict[str, int]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    broker.open(topics)
    try:
        await broker.serve()
        loop.add_signal_handler(signal.SIGUSR1, partial(_log_groups, broker))
        # what was loaded until now stays; to go through it again and again takes a tenth of all time
        gc.freeze()
        gc.set_threshold(*_COLLECTED_AFTER)
        await stopped.wait()
        _LOG.info("stopping")
    finally:
        broker.close()
        # the connections that were cut have still to notice
        await asyncio.sleep(0)
    _LOG.info("stopped")


def _log_groups(broker: "Broker") -> None:
    """Log the counts of groups, and how far each one is that has members or waits for some."""
    from groupsdk.broker.consumer_groups.views import ConsumerGroupView
    from groupsdk.broker.inspection import group_metrics, group_statuses, group_views

    cluster = broker.cluster
    _LOG.info(", ".join(f"{name}={value}" for name, value in group_metrics(cluster).items()))
    views = group_views(cluster)
    for group_id, status in sorted(group_statuses(cluster).items()):
        view = views[group_id]
        members = view.members
        if members or status.waiting_for:
            _LOG.info(
                "group %s, %s %d: %s since %s, members %s, waiting for %s until %s",
                *(group_id, "epoch" if isinstance(view, ConsumerGroupView) else "generation"),
                *(status.generation_id, status.state.value, status.since_ms),
                ", ".join(
                    f"{each.member_id} (joined {each.joined_ms})" for each in members.values()
                )
                or "none",
                ", ".join(status.waiting_for) or "nobody",
                status.until_ms,
            )


def _listener_settings(arguments: argparse.Namespace, *, with_users: bool) -> dict[str, Any]:
    tls = arguments.tls_certificate is not None
    if not tls and (arguments.tls_key or arguments.tls_client_ca):
        raise ConfigError("--tls-key and --tls-client-ca need --tls-certificate")
    protocol = {
        (False, False): "PLAINTEXT",
        (True, False): "SSL",
        (False, True): "SASL_PLAINTEXT",
        (True, True): "SASL_SSL",
    }[tls, with_users]
    settings: dict[str, Any] = {"listeners": f"{protocol}://{arguments.listen}"}
    if arguments.advertise is not None:
        settings["advertised.listeners"] = f"{protocol}://{arguments.advertise}"
    if tls:
        settings["ssl.keystore.location"] = arguments.tls_certificate
        settings["ssl.key.location"] = arguments.tls_key or ""
    if arguments.tls_client_ca:
        settings["ssl.truststore.location"] = arguments.tls_client_ca
        settings["ssl.client.auth"] = "required"
    return settings


def read_users(path: Path) -> dict[str, str]:
    """Read a file of `name:password` lines; empty ones and those that start with # are left out.

    Raises:
        ConfigError: a line is not of this form; its text is not shown.
        OSError: the file cannot be read.
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


def read_properties(path: Path) -> dict[str, str]:
    """Read a file of `key=value` lines.

    Raises:
        ConfigError: a line is not of this form.
        OSError: the file cannot be read.
    """
    return _pairs(str(path), (line for _, line in _lines(path)))


def _lines(path: Path) -> Iterable[tuple[int, str]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if text and not text.startswith("#"):
            yield number, text


def _pairs(place: str, texts: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key.strip() and equals):
            raise ConfigError(f"{place}: {text!r} is not of the form KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs


def _topic(text: str) -> tuple[str, int]:
    name, colon, count = text.partition(":")
    if colon and not (count.isascii() and count.isdigit() and int(count) > 0):
        raise ConfigError(f"--topic {text}: {count!r} is no number of partitions")
    return name, int(count) if colon else 1
