"""Tests the TLS context of listeners; tests/broker/server/test_authentication.py connects to them."""

import ssl
from pathlib import Path

import pytest
import trustme

from groupsdk.broker.server.node import server_context
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.errors import ConfigError


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Writes certificates, once in one file and once apart from the key."""
    authority = trustme.CA()
    made = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    made.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    made.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    made.cert_chain_pems[0].write_to_path(str(tmp_path / "chain.pem"))
    authority.issue_cert("other").private_key_pem.write_to_path(str(tmp_path / "other.pem"))
    return tmp_path


def context(files: Path, **settings: str) -> ssl.SSLContext:
    """Makes a context; settings name files."""
    given = {
        key: value if key == "ssl_client_auth" else str(files / value)
        for key, value in settings.items()
    }
    return server_context(BrokerConfig.of(given))


def test_certificate_and_key_in_one_file_or_two(files: Path) -> None:
    one = context(files, ssl_keystore_location="both.pem")
    assert one.minimum_version is ssl.TLSVersion.TLSv1_2
    assert one.verify_mode is ssl.CERT_NONE
    context(files, ssl_keystore_location="chain.pem", ssl_key_location="key.pem")


def test_clients_may_be_asked_for_certificates(files: Path) -> None:
    for wanted, mode in (("required", ssl.CERT_REQUIRED), ("requested", ssl.CERT_OPTIONAL)):
        made = context(
            files,
            ssl_keystore_location="both.pem",
            ssl_truststore_location="ca.pem",
            ssl_client_auth=wanted,
        )
        assert made.verify_mode is mode


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ssl_keystore_location": "none.pem"},
        {"ssl_keystore_location": "chain.pem"},
        {"ssl_keystore_location": "chain.pem", "ssl_key_location": "other.pem"},
        {"ssl_keystore_location": "both.pem", "ssl_client_auth": "required"},
        {
            "ssl_keystore_location": "both.pem",
            "ssl_client_auth": "required",
            "ssl_truststore_location": "none.pem",
        },
    ],
)
def test_missing_tls_setting_is_named(files: Path, settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.(keystore|truststore)\.location"):
        context(files, **settings)
