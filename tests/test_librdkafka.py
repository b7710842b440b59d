"""Tests what librdkafka is told of a member's security."""

import ssl

import pytest

from groupsdk.errors import ConfigError
from groupsdk.librdkafka import librdkafka_settings
from groupsdk.security import OAuthToken, SecuritySettings


def test_plain_text_needs_nothing_else() -> None:
    assert librdkafka_settings(SecuritySettings()) == {"security.protocol": "PLAINTEXT"}


def test_tls_and_a_password() -> None:
    security = SecuritySettings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="u",
        sasl_password="secret",
        ssl_ca_location="/ca.pem",
    )
    assert librdkafka_settings(security) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "secret",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "https",
    }


@pytest.mark.parametrize(
    ("token", "lifetime_s", "extensions"),
    [("text", 4_102_444_800.0, {}), (OAuthToken("text", 5_000, {"k": "v"}), 5.0, {"k": "v"})],
)
def test_a_token_provider(
    token: str | OAuthToken, lifetime_s: float, extensions: dict[str, str]
) -> None:
    security = SecuritySettings(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=lambda: token,
    )
    told = librdkafka_settings(security)["oauth_cb"]("")
    assert told == ("text", lifetime_s, "", extensions)


def test_an_ssl_context_is_of_no_use() -> None:
    security = SecuritySettings(security_protocol="SSL", ssl_context=ssl.create_default_context())
    with pytest.raises(ConfigError, match=r"ssl\.context cannot be used by librdkafka"):
        librdkafka_settings(security)
