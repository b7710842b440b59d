"""Tests that requests for delegation tokens are refused as by a Kafka that has them disabled."""

from collections.abc import Iterator

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.error_code import ErrorCode
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.create_acls import AclCreation, CreateAclsRequest
from groupsdk.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from groupsdk.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from groupsdk.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from groupsdk.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from groupsdk.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from groupsdk.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.clients import Client, connect


NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
DISABLED = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
USERS = {"alice": "alice-secret", "mallory": "mallory-secret"}
_CREATE_TOKENS, _USER, _ALLOW, _LITERAL = 13, 7, 3, 3


@pytest.fixture
def secure_broker() -> Iterator[EmbeddedBroker]:
    """A broker with a listener for users; alice may do everything."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "authorizer.class.name": "standard",
        "super.users": "User:alice",
    }
    with EmbeddedBroker(settings, users=USERS) as running:
        yield running


def log_in(client: Client, user: str) -> Client:
    """Authenticates a connection as one of `USERS`."""
    assert client.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
    message = f"\0{user}\0{USERS[user]}".encode()
    assert client.ask(SaslAuthenticateRequest(message), 2).error_code == 0
    return client


def created(code: int, user: str, owner: str, version: int) -> CreateDelegationTokenResponse:
    """Builds the answer to a request for a token that is refused."""
    requester = ("User", user) if version >= 3 else ("", "")
    time = no_time(code)
    return CreateDelegationTokenResponse(code, "User", owner, *requester, time, time, time)


def no_time(code: int) -> int:
    """Returns the time in a refusal: Kafka's brokers and its controller have different ones."""
    return 0 if code == DISABLED else -1


def check_every_version(client: Client, user: str, code: int) -> None:
    """Sends each request in each version as a user who is refused."""
    for version in (1, 2, 3):
        of_mine = CreateDelegationTokenRequest(max_lifetime_ms=-1)
        assert client.ask(of_mine, version) == created(code, user, user, version)
        for owners in (None, (), (DescribeDelegationTokenOwner("User", "bob"),)):
            asked = DescribeDelegationTokenRequest(owners)
            assert client.ask(asked, version) == DescribeDelegationTokenResponse(code)
    for version in (1, 2):
        renewed = client.ask(RenewDelegationTokenRequest(b"hmac", 1_000), version)
        assert renewed == RenewDelegationTokenResponse(code, no_time(code))
        expired = client.ask(ExpireDelegationTokenRequest(b"hmac", -1), version)
        assert expired == ExpireDelegationTokenResponse(code, no_time(code))


def check_reasons(client: Client, user: str, of_bob: int) -> None:
    """Asks for a token of bob, and for one with a renewer that is not a user."""
    answer = client.ask(CreateDelegationTokenRequest("User", "bob", max_lifetime_ms=-1), 3)
    assert answer == created(of_bob, user, "bob", 3)
    renewers = (CreatableRenewers("Group", "admins"),)
    answer = client.ask(CreateDelegationTokenRequest(None, None, renewers, -1), 3)
    assert answer == created(ErrorCode.INVALID_PRINCIPAL_TYPE, user, user, 3)


def test_a_client_without_a_name_may_not_ask(client: Client) -> None:
    check_every_version(client, "ANONYMOUS", NOT_ALLOWED)
    answer = client.ask(CreateDelegationTokenRequest("User", "bob"), 3)
    assert answer == created(NOT_ALLOWED, "ANONYMOUS", "bob", 3)


def test_kafka_refuses_a_client_without_a_name_the_same(kafka: LocalKafka) -> None:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    with Client((host, int(port))) as client:
        test_a_client_without_a_name_may_not_ask(client)


def check_users(alice: Client, mallory: Client) -> None:
    """Asks as a super user, and as a user who gets the right to create tokens of bob."""
    check_every_version(alice, "alice", DISABLED)
    check_reasons(alice, "alice", DISABLED)
    check_every_version(mallory, "mallory", DISABLED)
    check_reasons(mallory, "mallory", ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


def test_a_user_is_told_that_tokens_are_disabled(secure_broker: EmbeddedBroker) -> None:
    servers = secure_broker.bootstrap_servers_of("SASL_PLAINTEXT")
    host, _, port = servers.rpartition(":")
    address = (host, int(port))
    with Client(address) as alice, Client(address) as mallory:
        check_users(log_in(alice, "alice"), log_in(mallory, "mallory"))
        of_bob = AclCreation(
            _USER, "User:bob", _LITERAL, "User:mallory", "*", _CREATE_TOKENS, _ALLOW
        )
        assert alice.ask(CreateAclsRequest((of_bob,)), 3).results[0].error_code == 0
        check_reasons(mallory, "mallory", DISABLED)
    with connect(secure_broker) as nobody:
        check_every_version(nobody, "ANONYMOUS", NOT_ALLOWED)


def test_kafka_tells_a_user_the_same(secure_kafka: LocalKafka) -> None:
    host, _, port = secure_kafka.bootstrap_servers_of("SASL_PLAINTEXT").rpartition(":")
    address = (host, int(port))
    with Client(address) as alice, Client(address) as mallory:
        check_users(log_in(alice, "alice"), log_in(mallory, "mallory"))
