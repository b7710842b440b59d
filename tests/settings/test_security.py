"""Test which security settings fit together, and what is said about those that do not."""

import sys
from typing import Any

import pytest

from groupsdk.errors import ConfigError
from groupsdk.settings.security import OAuthToken, SecuritySettings


SECRET = "s3cr3t-do-not-show"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"security_protocol": "ssl"},
        {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": ""},
        {"ssl_endpoint_identification_algorithm": "none"},
        {
            "security_protocol": "sasl_ssl",
            "sasl_mechanism": "plain",
            "sasl_username": "a",
            "sasl_password": "b",
        },
        {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": lambda: "abc",
        },
    ],
)
def test_settings_that_fit_together(settings: dict[str, Any]) -> None:
    SecuritySettings(**settings).validate()


SASL = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "alice"}


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"security_protocol": "TLS"}, "security_protocol is 'TLS'.*PLAINTEXT, SSL"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_mechanism: one of PLAIN"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"},
            "sasl_mechanism is 'GSSAPI'",
        ),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "PLAIN needs sasl_username"),
        ({**SASL}, "PLAIN needs sasl_password"),
        ({**SASL, "sasl_password": ""}, "PLAIN needs sasl_password"),
        ({**SASL, "sasl_password": SECRET + "\0"}, "sasl_password holds a NUL"),
        (
            {**SASL, "sasl_password": SECRET, "sasl_oauth_token_provider": lambda: "abc"},
            "sasl_oauth_token_provider is set, but sasl_mechanism=PLAIN",
        ),
        ({**SASL, "sasl_mechanism": "OAUTHBEARER"}, "needs sasl_oauth_token_provider"),
        (
            {**SASL, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": "abc"},
            "must be callable",
        ),
        (
            {**SASL, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: "abc"},
            "sasl_username is set, but sasl_mechanism=OAUTHBEARER",
        ),
        (
            {"sasl_password": SECRET},
            "sasl_password is set, but security_protocol=PLAINTEXT.*SASL_SSL",
        ),
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism is set, but security_protocol=PLAINTEXT"),
        (
            {"security_protocol": "SSL", "sasl_password": SECRET},
            "sasl_password is set, but security_protocol=SSL",
        ),
        ({"ssl_ca_location": "x"}, "ssl_ca_location is set, but security_protocol=PLAINTEXT"),
        ({"ssl_key_password": SECRET}, "ssl_key_password is set, but security_protocol=PLAINTEXT"),
        (
            {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": "ldap"},
            "ssl_endpoint_identification_algorithm is 'ldap'",
        ),
        ({"security_protocol": "SSL", "ssl_ca_location": "x", "ssl_ca_pem": "y"}, "both set"),
        (
            {"security_protocol": "SSL", "ssl_key_location": "x"},
            "ssl_key_location is set without ssl_certificate_location",
        ),
        (
            {"security_protocol": "SSL", "ssl_key_password": SECRET},
            "ssl_key_password is set without ssl_certificate_location",
        ),
        ({"security_protocol": "SSL", "ssl_context": "yes"}, "must be an ssl.SSLContext, not str"),
    ],
)
def test_settings_that_do_not_fit_are_named_with_a_remedy(
    settings: dict[str, Any], match: str
) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        SecuritySettings(**settings).validate()
    assert SECRET not in str(caught.value)


def test_the_repr_shows_no_secret() -> None:
    text = repr(
        SecuritySettings(
            security_protocol="SASL_SSL",
            sasl_mechanism="PLAIN",
            sasl_username="alice",
            sasl_password=SECRET,
            ssl_key_password=SECRET,
        )
    )
    assert SECRET not in text
    assert "alice" in text


def test_the_repr_of_a_token_shows_no_secret() -> None:
    text = repr(OAuthToken(SECRET, lifetime_ms=5, extensions={"trace": SECRET}))
    assert SECRET not in text
    assert "lifetime_ms=5" in text


def test_every_secret_is_kept_out_of_the_repr() -> None:
    settings = {
        "sasl_password": SECRET,
        "ssl_key_password": SECRET,
        "ssl_ca_pem": SECRET,
        "ssl_context": SECRET,
        "sasl_oauth_token_provider": SECRET,
    }
    assert SECRET not in repr(SecuritySettings(**settings))  # type: ignore[arg-type]  # any value will do


@pytest.mark.parametrize(
    ("protocol", "tls", "sasl"),
    [
        ("plaintext", False, False),
        ("Ssl", True, False),
        ("SASL_plaintext", False, True),
        ("sasl_ssl", True, True),
    ],
)
def test_names_are_taken_in_upper_and_lower_case(protocol: str, tls: bool, sasl: bool) -> None:
    settings = SecuritySettings(security_protocol=protocol, sasl_mechanism="scram-sha-256")
    assert settings.protocol == protocol.upper()
    assert settings.mechanism == "SCRAM-SHA-256"
    assert settings.uses_tls is tls
    assert settings.uses_sasl is sasl
    assert SecuritySettings().mechanism is None


def test_a_context_of_ones_own_wins_over_files_that_do_not_fit() -> None:
    class Context:
        def wrap_bio(self) -> None: ...

    SecuritySettings(
        security_protocol="SSL", ssl_context=Context(), ssl_ca_location="x", ssl_ca_pem="y"
    ).validate()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("security_protocol", None),
        ("security_protocol", 5),
        ("sasl_mechanism", 5),
        ("sasl_username", b"alice"),
        ("sasl_password", 5),
        ("ssl_ca_location", b"x"),
        ("ssl_ca_pem", b"x"),
        ("ssl_certificate_location", 5),
        ("ssl_endpoint_identification_algorithm", None),
    ],
)
def test_values_of_the_wrong_type_are_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be a string, not {type(value).__name__}"):
        SecuritySettings(**{name: value}).validate()


def test_other_credentials_for_the_same_connection() -> None:
    before = SecuritySettings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password="old",
    )
    after = before.with_credentials("bob", SECRET)
    assert (after.sasl_username, after.sasl_password) == ("bob", SECRET)
    assert SECRET not in repr(after)
    provided = SecuritySettings(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_credentials_provider=lambda: ("alice", SECRET),
    )
    provided.validate()
    assert provided.with_credentials("bob", "b").sasl_credentials_provider is None


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "security.protocol is PLAINTEXT, sasl.mechanism not set"),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": lambda: "abc",
            },
            "sasl.mechanism OAUTHBEARER; PLAIN and SCRAM take them",
        ),
        ({**SASL, "sasl_password": "old"}, "sasl_password holds a NUL character"),
    ],
)
def test_credentials_that_cannot_be_used(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as raised:
        SecuritySettings(**settings).with_credentials("bob", f"{SECRET}\0")
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"sasl_username": "a"}, "sasl_username and sasl_credentials_provider are both set"),
        ({"sasl_credentials_provider": "a"}, "must be callable without arguments"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "needs sasl_oauth_token_provider"),
        ({"security_protocol": "SSL", "sasl_mechanism": None}, "does not use it"),
    ],
)
def test_a_provider_of_credentials_that_does_not_fit(settings: dict[str, Any], text: str) -> None:
    given = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_credentials_provider": lambda: ("a", SECRET),
        **settings,
    }
    with pytest.raises(ConfigError, match=text):
        SecuritySettings(**given).validate()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "scram-sha-512"])
def test_scram_without_its_package_is_refused_with_what_to_install(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    user = SecuritySettings(**given, sasl_username="u", sasl_password="p")
    provided = SecuritySettings(**given, sasl_credentials_provider=lambda: ("u", "p"))
    user.validate()
    monkeypatch.setitem(sys.modules, "scramp", None)
    for settings in (user, provided):
        with pytest.raises(ConfigError, match=r"pip install 'groupsdk\[scram\]'"):
            settings.validate()
