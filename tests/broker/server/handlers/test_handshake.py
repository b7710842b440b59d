"""Tests SASL's requests where there is no SASL; tests/broker/server/test_authentication.py has the rest."""

from groupsdk.wire.messages.connection import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.broker.clients import Client


def test_a_listener_without_sasl_says_so(client: Client) -> None:
    for version in (0, 1):
        assert client.ask(SaslHandshakeRequest("PLAIN"), version).error_code == 34
    for version in range(3):
        answer = client.ask(SaslAuthenticateRequest(b"\0u\0p"), version)
        assert answer.error_code == 34
        assert "without SASL" in str(answer.error_message)
