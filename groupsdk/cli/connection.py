"""The options of every command that talks to a cluster, and the settings that follow from them.

A setting is taken from the first place that has it: an option, the environment, the file of `--config`.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from groupsdk.cli.command import SecondsRange, together
from groupsdk.cli.output import waiting
from groupsdk.errors import ConfigError
from groupsdk.settings.config import ALIASES, MemberConfig
from groupsdk.settings.properties import read_properties
from groupsdk.settings.security import SASL_MECHANISMS, SECURITY_PROTOCOLS, SecuritySettings


if TYPE_CHECKING:
    from groupsdk.admin.cluster import ClusterClient

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

logger = logging.getLogger(__name__)

_DEFAULT_TIMEOUT_S: Final = 15.0
SERVERS_HINT: Final = "bootstrap.servers is missing: give --bootstrap-servers HOST:PORT, or set GROUPSDK_BOOTSTRAP_SERVERS"
_OPTIONS: Final = (
    ("security_protocol", "--security-protocol", "The security protocol of the brokers' listener."),
    ("sasl_mechanism", "--sasl-mechanism", "The SASL mechanism of the client."),
    ("sasl_username", "--sasl-username", "The user; GROUPSDK_SASL_PASSWORD holds the password."),
    ("ssl_ca_location", "--ssl-ca-location", "File or directory of trusted certificates, PEM."),
    ("ssl_certificate_location", "--ssl-certificate-location", "The client's certificate, PEM."),
    ("ssl_key_location", "--ssl-key-location", "The key of the client's certificate, PEM."),
)
_CHOICES: Final = {"security_protocol": SECURITY_PROTOCOLS, "sasl_mechanism": SASL_MECHANISMS}
_SECRETS: Final = ("sasl_password", "ssl_key_password", "sasl_oauthbearer_client_secret")
"""Settings that are taken from the environment but have no option: other users see a command line."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How a command reaches the cluster."""

    settings: dict[str, Any]
    timeout_s: float
    """For how long retriable failures are retried."""
    others: dict[str, str] = field(default_factory=dict)
    """The other keys of the --config file, such as those of a consumer."""

    def run(self, work: "Callable[[ClusterClient], Awaitable[T]]", *, writes: bool = False) -> T:
        """Open a client of the cluster, run a coroutine with it on an event loop of its own, close it, and return the result.

        A person at a terminal is told what is waited for, unless the coroutine itself `writes`.
        """
        # only for those that talk to a cluster
        import asyncio

        from groupsdk.admin.cluster import ClusterClient

        async def with_client() -> T:
            async with ClusterClient(self.settings, timeout_s=self.timeout_s) as client:
                with nullcontext() if writes else self.waiting():
                    return await work(client)

        self.check()
        return asyncio.run(with_client())

    def waiting(self) -> AbstractContextManager[None]:
        """Tell a person at a terminal which cluster is waited for, within a coroutine."""
        servers = self.settings["bootstrap.servers"]
        return waiting(
            f"groupsdk: waiting for {servers}, for up to {self.timeout_s:g} s; Ctrl-C ends it"
        )

    def check(self) -> None:
        """Raise ConfigError unless it is known where the cluster is."""
        if not self.settings.get("bootstrap.servers"):
            raise ConfigError(SERVERS_HINT)


def connection_options(function: F) -> F:
    from functools import wraps

    @wraps(function)
    def called(
        *args: Any,
        bootstrap_servers: str | None,
        config: str | None,
        settings: tuple[str, ...],
        timeout: float,
        **rest: Any,
    ) -> Any:
        options = {name: rest.pop(name) for name, _, _ in _OPTIONS}
        options |= {name: rest.pop(name) for name in _SECRETS}
        options["bootstrap_servers"] = bootstrap_servers
        found, others = gather_settings(config, settings, options)
        return function(*args, connection=Connection(found, timeout, others), **rest)

    undecorated: Any = called
    result: F = _connection_options(undecorated)
    return result


bootstrap_option: Final = click.option(
    "--bootstrap-servers",
    "--bootstrap-server",
    metavar="HOST:PORT,...",
    envvar="GROUPSDK_BOOTSTRAP_SERVERS",
    help="The brokers to connect to first.",
)
settings_options: Final = together(
    click.option(
        "--config",
        "--command-config",
        metavar="FILE",
        envvar="GROUPSDK_CONFIG",
        help="A properties file with Kafka client settings.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="A Kafka client setting, such as request.timeout.ms=5000; repeatable.",
    ),
)
"""A command receives them as `config` and `settings`."""


_connection_options: Final = together(
    bootstrap_option,
    settings_options,
    *(
        click.option(
            option,
            name,
            type=click.Choice(_CHOICES[name], case_sensitive=False) if name in _CHOICES else None,
            envvar=f"GROUPSDK_{name.upper()}",
            help=text,
        )
        for name, option, text in _OPTIONS
    ),
    click.option(
        "--timeout",
        type=SecondsRange(0.1, 86_400),
        default=_DEFAULT_TIMEOUT_S,
        show_default=True,
        metavar="SECONDS",
        envvar="GROUPSDK_TIMEOUT",
        help="How long retriable failures are retried, in seconds.",
    ),
    *(
        click.option(
            f"--{name.replace('_', '-')}", name, envvar=f"GROUPSDK_{name.upper()}", hidden=True
        )
        for name in reversed(_SECRETS)
    ),
)


def gather_settings(
    path: str | None, pairs: Sequence[str], options: dict[str, str | None]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Join the settings of a file, of `--set` and of options, each over those before it.

    Settings of the file that mean nothing to a connection, such as a consumer's, are returned apart.
    """
    found: dict[str, Any] = {}
    others: dict[str, str] = {}
    if path is not None:
        # translates Java's own forms: sasl.jaas.config, PEM stores
        from groupsdk.connect.java_settings import take_java

        known = {each.name for each in (*fields(MemberConfig), *fields(SecuritySettings))}
        known |= ALIASES.keys()
        taken = take_java(read_properties(path))
        known.discard("group_id")
        for key, value in taken.items():
            (found if key.replace(".", "_") in known else others)[key] = value
        if others.keys() - {"group.id"}:
            names = ", ".join(sorted(others.keys() - {"group.id"}))
            logger.info("%s: ignoring settings that do not concern connections: %s", path, names)
    found |= split_pairs("--set", pairs)
    for name, value in options.items():
        if value is not None:
            found[name.replace("_", ".")] = value
    return found, others


def split_pairs(option: str, pairs: Sequence[str]) -> dict[str, str]:
    """Split the KEY=VALUE pairs of an option; of a repeated key the last value counts."""
    found = {}
    for each in pairs:
        key, equals, value = each.partition("=")
        if not (key.strip() and equals):
            raise ConfigError(f"{option}: {each!r} is not of the form KEY=VALUE")
        found[key.strip()] = value.strip()
    return found
