"""Say a member's security settings in librdkafka's words, for the clients that read and write records."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

from groupsdk.errors import ConfigError
from groupsdk.security import OAuthToken, SecuritySettings


_FAR_FUTURE_S: Final = 4_102_444_800.0  # the year 2100


def librdkafka_settings(security: SecuritySettings) -> dict[str, Any]:
    """Return the configuration that gives a client of confluent-kafka the same security.

    Raises:
        ConfigError: the settings hold an `ssl.SSLContext`, which librdkafka cannot use.
    """
    if security.ssl_context is not None:
        raise ConfigError(
            "ssl.context cannot be used by librdkafka, which reads and writes the records: use ssl.ca.location,"
            " ssl.certificate.location, ssl.key.location and the like"
        )
    result: dict[str, Any] = {"security.protocol": security.protocol}
    if security.uses_sasl:
        result["sasl.mechanism"] = security.mechanism
        for name in ("sasl_username", "sasl_password"):
            if getattr(security, name) is not None:
                result[_dotted(name)] = getattr(security, name)
        if security.sasl_oauth_token_provider is not None:
            result["oauth_cb"] = _oauth_callback(security.sasl_oauth_token_provider)
    if security.uses_tls:
        for each in fields(security):
            value = getattr(security, each.name)
            if each.name.startswith("ssl_") and each.name != "ssl_context" and value is not None:
                result[_dotted(each.name)] = value
    return result


def _oauth_callback(
    provider: Callable[[], str | OAuthToken],
) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    """Return the token provider in librdkafka's shape, whose lifetimes are seconds since 1970."""

    def oauth_cb(_: str) -> tuple[str, float, str, dict[str, str]]:
        token = provider()
        if isinstance(token, str):
            token = OAuthToken(token)
        # librdkafka has to be told one: it asks anew at 80 % of it
        lifetime_s = _FAR_FUTURE_S if token.lifetime_ms is None else token.lifetime_ms / 1000
        return token.value, lifetime_s, "", dict(token.extensions)

    return oauth_cb


def _dotted(name: str) -> str:
    return name.replace("_", ".")
