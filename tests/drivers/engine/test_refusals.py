"""Tests brokers that close connections on the first request: who is to blame, and when that is said."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.drivers.engine.refusals import (
    FirstRequestRefusals,
    FirstRequestRefusedError,
    TlsRefusedError,
    most_telling,
)
from groupsdk.errors import AuthenticationError, DisconnectedError, TlsError
from groupsdk.settings.security import SecuritySettings
from tests.support.wrong_ports import LISTENERS, PASSWORD, USER, WRONG, check_wrong_port


REFUSED = FirstRequestRefusedError("closed")
DOWN = DisconnectedError("Connection refused")


@pytest.fixture(scope="module")
def ca_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The authority of the broker's certificate, which is beside it."""
    directory = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    server = authority.issue_cert("127.0.0.1")
    server.private_key_and_cert_chain_pem.write_to_path(str(directory / "server.pem"))
    return directory / "ca.pem"


@pytest.fixture(scope="module")
def broker(ca_file: Path) -> Iterator[EmbeddedBroker]:
    """A broker with a port of each protocol."""
    settings = {
        "listeners": ",".join(f"{each}://127.0.0.1:0" for each in LISTENERS),
        "ssl.keystore.location": str(ca_file.with_name("server.pem")),
        "sasl.enabled.mechanisms": "PLAIN",
    }
    with EmbeddedBroker(settings, users={USER: PASSWORD}) as running:
        yield running


@pytest.mark.parametrize(("protocol", "listener"), list(WRONG))
def test_wrong_port_error_names_the_setting(
    broker: EmbeddedBroker, ca_file: Path, protocol: str, listener: str
) -> None:
    check_wrong_port(protocol, listener, broker.bootstrap_servers_of(listener), ca_file)


def test_a_broker_that_goes_down_is_no_wrong_setting() -> None:
    refusals = FirstRequestRefusals(SecuritySettings())
    for _ in range(9):  # never three in a row
        refusals.check([REFUSED])
        refusals.check([REFUSED])
        refusals.check([REFUSED, DOWN])
    refusals.give_up(DOWN)
    refusals.answered()
    for _ in range(9):
        refusals.check([REFUSED])
    refusals.give_up(REFUSED)
    refusals.explain(DOWN)


@pytest.mark.parametrize(
    ("error", "kind"), [(REFUSED, AuthenticationError), (TlsRefusedError("closed"), TlsError)]
)
def test_the_third_refusal_in_a_row_is_a_wrong_setting(
    error: FirstRequestRefusedError, kind: type[AuthenticationError]
) -> None:
    refusals = FirstRequestRefusals(SecuritySettings())
    for _ in range(2):  # it counts again from the start
        refusals.check([error])
        refusals.check([error, error])
        with pytest.raises(AuthenticationError) as raised:
            refusals.check([error])
        assert type(raised.value) is kind
    with pytest.raises(AuthenticationError) as raised:
        refusals.give_up(error)
    assert type(raised.value) is kind


def test_a_port_is_not_blamed_by_a_client_that_uses_sasl() -> None:
    FirstRequestRefusals(SecuritySettings(security_protocol="SASL_PLAINTEXT")).explain(DOWN)
    with pytest.raises(FirstRequestRefusedError, match="SASL_PLAINTEXT"):
        FirstRequestRefusals(SecuritySettings()).explain(DOWN)


def test_of_several_brokers_the_one_that_refused_tells_least() -> None:
    assert most_telling([REFUSED, DOWN, REFUSED]) is DOWN
    assert most_telling([REFUSED, REFUSED]) is REFUSED
