"""Set up the clients of confluent-kafka that read and write records: security, new credentials, log lines."""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final

from groupsdk.clock import Clock, SystemClock
from groupsdk.errors import ConfigError
from groupsdk.settings.config import MemberConfig
from groupsdk.settings.security import OAuthToken, SecuritySettings, checked_credentials


logger = logging.getLogger(__name__)

_REPEAT_MS: Final = 60_000
_MAX_SEEN: Final = 200
_WATCH_MS: Final = 5_000
_INTERVAL: Final = "statistics.interval.ms"
_KNOWN: Final = re.compile(r'"source" ?: ?"(configured|learned)"')
"""Of a broker with an address; the others are the group coordinator, and partitions without a leader."""
_MEASURED: Final = re.compile(r"\d+ ?ms\b|\d+ (?=identical error)")
_FAR_FUTURE_S: Final = 4_102_444_800.0  # the year 2100


def client_settings(member: MemberConfig, log: logging.Logger | None = None) -> dict[str, Any]:
    """Return the configuration of a client of confluent-kafka that reaches the same cluster as a member.

    Args:
        log: gets the client's log lines, with the group in front; None: they have no logger yet.

    Returns:
        Servers, client id, logger and security, by librdkafka's keys; it may contain secrets.

    Raises:
        ConfigError: as for `librdkafka_settings`.
    """
    servers = member.bootstrap_servers
    settings = {
        "bootstrap.servers": servers if isinstance(servers, str) else ",".join(servers),
        "client.id": member.client_id,
        **librdkafka_settings(member.security),
    }
    if log is not None:
        settings["logger"] = LibrdkafkaLog(log, f"group={member.group_id}", SystemClock())
    return settings


def librdkafka_settings(security: SecuritySettings) -> dict[str, Any]:
    """Translate security settings into the configuration of a client of confluent-kafka.

    A `sasl_credentials_provider` is called now: librdkafka has no callback for a user name and a password, but
    clients have `set_sasl_credentials`.

    Returns:
        librdkafka's configuration by its keys; it may contain secrets.

    Raises:
        ConfigError: the settings have an `ssl.SSLContext`, which librdkafka cannot use.
    """
    if security.ssl_context is not None:
        raise ConfigError(
            "ssl.context cannot be used by librdkafka, which reads and writes the records: use ssl.ca.location,"
            " ssl.certificate.location, ssl.key.location and the like"
        )
    result: dict[str, Any] = {"security.protocol": security.protocol}
    if security.uses_sasl:
        result["sasl.mechanism"] = security.mechanism
        if security.sasl_credentials_provider is not None:
            credentials = checked_credentials(security.sasl_credentials_provider())
            security = security.with_credentials(*credentials)
        for name in ("sasl_username", "sasl_password"):
            if getattr(security, name) is not None:
                result[_dotted(name)] = getattr(security, name)
        provider = _token_provider(security)
        if provider is not None:
            result["oauth_cb"] = TokenCallback(provider, keeps=security.uses_oidc)
    if security.uses_tls:
        for each in fields(security):
            value = getattr(security, each.name)
            if each.name.startswith("ssl_") and each.name != "ssl_context" and value is not None:
                result[_dotted(each.name)] = value
    return result


def _token_provider(security: SecuritySettings) -> Callable[[], str | OAuthToken] | None:
    if not security.uses_oidc:
        return security.sasl_oauth_token_provider
    # only here, so that others do not pay for loading it
    from groupsdk.settings.oidc import OidcTokenProvider

    return OidcTokenProvider(security)


class TokenCallback:
    """A token provider in the shape of confluent-kafka's `oauth_cb`, whose lifetimes are seconds since 1970.

    Args:
        keeps: whether it keeps its token, so that asking it once more costs nothing.
    """

    def __init__(self, provider: Callable[[], str | OAuthToken], *, keeps: bool = False) -> None:
        self.error: Exception | None = None
        """What the provider raised last; confluent-kafka only says that there is no token."""
        self._provider = provider
        self._keeps = keeps

    def check(self) -> None:
        """Raise at once what a client would wait for in vain for ten seconds: that there is no token to be had."""
        if self._keeps:
            self._provider()

    def __call__(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        """Return token, end of its life, principal (unused) and extensions."""
        try:
            token = self._provider()
        except Exception as error:
            self.error = error
            raise
        self.error = None
        if isinstance(token, str):
            token = OAuthToken(token)
        # librdkafka has to be told one: it asks again at 80 % of it
        lifetime_s = _FAR_FUTURE_S if token.lifetime_ms is None else token.lifetime_ms / 1000
        return token.value, lifetime_s, "", dict(token.extensions)


class BrokerWatch:
    """Detects that a client of confluent-kafka knows no broker any more, and so never connects again.

    librdkafka forgets the brokers that a Metadata response does not list, and a node that shuts down may list none. The
    client then tries `bootstrap.servers` again, or nothing for ever: librdkafka issue 5301, in 2.10 to 2.16. Without a
    broker it reports no error either. Its statistics name the brokers that it knows.
    """

    def __init__(self) -> None:
        self.lost = False
        """Whether two statistics in a row named no broker; close the client then, and create another one."""
        self._then: Callable[[str], object] | None = None
        self._silent = 0

    def settings(self, given: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """Return what a client has to be created with, for a watch of its own from now on.

        Args:
            given: the client's other settings. With a `statistics.interval.ms` of its own, the watch is as quick as
                that, and the client's own `stats_cb` is called as well.
        """
        self.lost = False
        self._silent = 0
        has_interval = str(given.get(_INTERVAL, 0)) != "0"
        self._then = given.get("stats_cb") if has_interval else None
        interval = given[_INTERVAL] if has_interval else _WATCH_MS
        return {**given, _INTERVAL: interval, "stats_cb": self.take}

    def take(self, statistics: str) -> None:
        """Look at a client's statistics (`stats_cb`), on the thread that polls it."""
        # not parsed: they have some 1,500 bytes for each partition, and the brokers come first
        self._silent = 0 if _KNOWN.search(statistics) else self._silent + 1
        self.lost = self._silent > 1
        if self._then is not None:
            self._then(statistics)


class LibrdkafkaLog:
    """Takes the log lines of a client of confluent-kafka, as its setting `logger`: repeats only now and then.

    librdkafka writes a line for each attempt to connect that failed, up to twenty a second and broker for as long as an
    outage lasts; to stderr, where it is given no logger. Lines are alike that differ in times and counts alone. The
    lines come when the client is polled, on the thread that does it.

    Args:
        who: the prefix of each line, such as "group=orders".
    """

    def __init__(self, target: logging.Logger, who: str, clock: Clock) -> None:
        self._target = target
        self._who = who
        self._clock = clock
        self._seen: dict[tuple[int, str], _Repeats] = {}

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Log a line, unless it repeats a recent one; confluent-kafka calls it as it would `logging.Logger.log`."""
        text = message % arguments if arguments else message
        now_ms = self._clock.now_ms()
        key = level, _MEASURED.sub("", text)
        seen = self._seen.pop(key, None)
        if seen is not None and now_ms < seen.silent_until_ms:
            seen.count += 1
            self._seen[key] = seen
            return
        self._seen[key] = _Repeats(now_ms + _REPEAT_MS)
        while len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        more = f" (and {seen.count} more like this one before)" if seen and seen.count else ""
        self._target.log(level, "%s: librdkafka: %s%s", self._who, text, more)


@dataclass(slots=True)
class _Repeats:
    silent_until_ms: int
    count: int = 0


class NewCredentials:
    """New credentials on their way to a client of confluent-kafka. Thread-safe.

    librdkafka keeps a user name and a password until it is given others, and only the thread that polls the client
    can do that: confluent-kafka ends the process if a callback calls the client, and makes other threads wait while
    one polls.

    Args:
        security: its `sasl_credentials_provider`, if any, is called on a thread of its own when the broker refuses
            the old credentials.
        then: the user's own `error_cb`, called with every error.
    """

    def __init__(
        self, security: SecuritySettings, then: Callable[[Any], object] | None = None
    ) -> None:
        self._provider = security.sasl_credentials_provider
        self._then = then
        self._asking = threading.Lock()
        self._waiting: tuple[str, str] | None = None
        self._taken: tuple[str, str] | None = None

    @classmethod
    def given(cls, security: SecuritySettings, settings: dict[str, Any]) -> "NewCredentials":
        """Create one for a client's settings; with a provider, it also handles the client's errors.

        Args:
            settings: the client's settings; `error_cb` is replaced if there is a provider.
        """
        if security.sasl_credentials_provider is None:
            return cls(security)
        credentials = cls(security, settings.get("error_cb"))
        settings["error_cb"] = credentials.on_error
        return credentials

    def put(self, username: str, password: str) -> None:
        """Set the credentials to pass to the client at its next poll."""
        self._waiting = username, password

    def take(self) -> tuple[str, str] | None:
        """Return the credentials that the client is to be given, once; None: there are no new ones."""
        if self._waiting is None:
            return None
        self._taken, self._waiting = self._waiting, None
        return self._taken

    def repeat(self) -> None:
        """Have another client, which takes the place of the first one, given what that one was given last."""
        if self._waiting is None:
            self._waiting = self._taken

    def on_error(self, error: Any) -> None:
        """Handle an error of the client; use this method as its `error_cb`."""
        if error.name() == "_AUTHENTICATION" and self._asking.acquire(blocking=False):
            threading.Thread(target=self._ask, name="groupsdk-credentials", daemon=True).start()
        if self._then is not None:
            self._then(error)

    def _ask(self) -> None:
        assert self._provider is not None
        try:
            self.put(*checked_credentials(self._provider()))
        except Exception as error:  # noqa: BLE001  # it is asked again at the next refusal
            # not its text, which may hold what must not be logged
            logger.warning("no new credentials for librdkafka: %s", type(error).__name__)
        finally:
            self._asking.release()


def _dotted(name: str) -> str:
    return name.replace("_", ".")
