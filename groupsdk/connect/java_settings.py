"""Accept the settings of Kafka Connect's worker.properties: its own keys, and those of Java clients.

What has the same meaning here is translated; what has none, such as converters, is passed over with one warning.
What secures the worker's own connections is never passed over: it is translated or refused.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from groupsdk.errors import ConfigError
from groupsdk.printable import address_text


logger = logging.getLogger(__name__)

_READ_BEFORE: Final = frozenset(
    {
        "listeners",
        "rest.advertised.host.name",
        "rest.advertised.port",
        "rest.advertised.listener",
    }
)
"""Those that say where the command answers to HTTP."""
_MEANINGLESS: Final = frozenset(
    {
        "client.dns.lookup",
        "metadata.max.age.ms",
        "metadata.recovery.strategy",
        "metadata.recovery.rebootstrap.trigger.ms",
        "worker.unsync.backoff.ms",
        "send.buffer.bytes",
        "receive.buffer.bytes",
        "connections.max.idle.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "socket.connection.setup.timeout.max.ms",
        "offset.flush.interval.ms",
        "offset.flush.timeout.ms",
        "exactly.once.source.support",
        "connector.client.config.override.policy",
        "topic.creation.enable",
        "metric.reporters",
        "admin.listeners",
        "rest.extension.classes",
        "response.http.headers.config",
        "access.control.allow.origin",
        "access.control.allow.methods",
        *_READ_BEFORE,
    }
)
"""Keys of Connect's without a meaning for a worker here; the command reads those of its listeners before."""
_PREFIXES: Final = (
    "key.converter",
    "value.converter",
    "header.converter",
    "internal.key.converter",
    "internal.value.converter",
    "plugin.",
    "metrics.",
    "producer.",
    "consumer.",
    "admin.",
    "listeners.https.",
)
"""How keys begin that are likewise."""
_TOPIC_SETTING: Final = re.compile(
    r"(config|offset|status)\.storage\.(cleanup|compression|delete|file|flush|follower|index|leader|local|max|message"
    r"|min|preallocate|remote|retention|segment|unclean)\.[a-z.]+"
)
"""Settings of the three topics (KIP-605): here they are made with the brokers' defaults."""
_LOGIN: Final = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(plain\.Plain|scram\.Scram|oauthbearer\.OAuthBearer)LoginModule"
    r"\s+required\b(.*);\s*",
    re.DOTALL,
)
_OPTION: Final = re.compile(
    r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)
_OIDC_HANDLER: Final = "OAuthBearerLoginCallbackHandler"
_STORES: Final = {
    "ssl.truststore.location": ("ssl.truststore.type", ("ssl.ca.location",)),
    "ssl.keystore.location": (
        "ssl.keystore.type",
        ("ssl.certificate.location", "ssl.key.location"),
    ),
}
_EVERYWHERE: Final = "0.0.0.0"  # an empty host's meaning in Connect; refused without a password


def take_java(given: Mapping[str, Any]) -> dict[str, Any]:
    """Translate Java's dotted settings, and drop those that do not apply here, with one warning.

    Raises ConfigError if a security setting cannot be translated.
    """
    taken = dict(given)
    _take_login(taken)
    _take_stores(taken)
    passed_over = sorted(
        key
        for key in taken
        if key in _MEANINGLESS or key.startswith(_PREFIXES) or _TOPIC_SETTING.fullmatch(key)
    )
    for key in passed_over:
        del taken[key]
    told = [key for key in passed_over if key not in _READ_BEFORE]
    if told:
        logger.warning(
            "ignoring settings of Kafka Connect that do not apply here: %s", ", ".join(told)
        )
    return taken


def rest_settings(given: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Read from Connect's `listeners` and `rest.advertised.*` where a worker listens, and the URL that it advertises.

    Only plain HTTP is served here; put TLS in front. Returns the address (host:port) of the first http:// listener, and the URL;
    None for either that is not set. Raises ConfigError if no listener is http://.
    """
    listeners = [each.strip() for each in given.get("listeners", "").split(",") if each.strip()]
    plain = [each for each in listeners if each.lower().startswith("http://")]
    if listeners and not plain:
        raise ConfigError(
            f"listeners: {', '.join(listeners)}: only http:// is supported; use a reverse proxy for TLS"
        )
    address = plain[0][len("http://") :].rstrip("/") if plain else None
    if address is not None and address.startswith(":"):
        address = _EVERYWHERE + address
    host, port = given.get("rest.advertised.host.name"), given.get("rest.advertised.port")
    if host is None and port is None:
        return address, None
    if host is None:
        host = (address or "localhost:").rpartition(":")[0]
    if port is None:
        port = (address or ":8083").rpartition(":")[2]
    return (
        address,
        f"{given.get('rest.advertised.listener', 'http').lower()}://{address_text(host.strip('[]'), port)}",
    )


def _take_login(taken: dict[str, Any]) -> None:
    """Extract user and password, or the OAuth client, from sasl.jaas.config."""
    handler = taken.get("sasl.login.callback.handler.class")
    if handler is not None and str(handler).rpartition(".")[2] == _OIDC_HANDLER:
        del taken["sasl.login.callback.handler.class"]
        if "sasl.oauthbearer.jwt.retriever.class" not in taken:
            taken.setdefault("sasl.oauthbearer.method", "oidc")
    text = taken.pop("sasl.jaas.config", None)
    if text is None:
        return
    match = _LOGIN.fullmatch(str(text))
    options = (
        {}
        if match is None
        else {
            each[0]: re.sub(r"\\(.)", r"\1", each[1] or each[2]) or each[3]
            for each in _OPTION.findall(match[2])
        }
    )
    if match is not None and match[1].endswith("OAuthBearer") and _take_client(taken, options):
        return
    if not options.keys() >= {"username", "password"}:
        # not what it holds: that may be a password
        raise ConfigError(
            "sasl.jaas.config: only PlainLoginModule and ScramLoginModule with username and password, and"
            " OAuthBearerLoginModule with clientId and clientSecret, are known here; give sasl.username and"
            " sasl.password, sasl.oauthbearer.method=oidc, or sasl.oauth.token.provider, instead"
        )
    taken.setdefault("sasl.username", options["username"])
    taken.setdefault("sasl.password", options["password"])


def _take_client(taken: dict[str, Any], options: Mapping[str, str]) -> bool:
    """Translate the OAuth client settings (KIP-768). Return whether all of them were understood.

    Without options the module only names the mechanism, and the settings say the rest (KIP-1139).
    """
    if "sasl.oauthbearer.token.endpoint.url" not in taken:
        return False
    names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
    extensions = {
        key.removeprefix("extension_"): value
        for key, value in options.items()
        if key.startswith("extension_")
    }
    if len(options) != len(extensions) + len(options.keys() & names.keys()):
        return False
    for option, name in names.items():
        if option in options:
            taken.setdefault(f"sasl.oauthbearer.{name}", options[option])
    if extensions:
        pairs = ",".join(f"{key}={value}" for key, value in extensions.items())
        taken.setdefault("sasl.oauthbearer.extensions", pairs)
    if "sasl.oauthbearer.jwt.retriever.class" not in taken:
        taken.setdefault("sasl.oauthbearer.method", "oidc")
    return True


def _take_stores(taken: dict[str, Any]) -> None:
    """Translate keystores and truststores that are PEM files."""
    for key, (type_key, names) in _STORES.items():
        kind = taken.pop(type_key, None)
        place = taken.pop(key, None)
        if place is None:
            continue
        if str(kind).upper() != "PEM":
            raise ConfigError(
                f"{key}: stores of type {kind or 'JKS'} are not supported; convert it to PEM and set"
                f" {' and '.join(names)}"
            )
        for name in names:
            taken.setdefault(name, place)
    if (pem := taken.pop("ssl.truststore.certificates", None)) is not None:
        taken.setdefault("ssl.ca.pem", pem)
