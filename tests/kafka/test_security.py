"""Encryption, authentication and authorization of members, on real brokers that ask for them."""

import base64
import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groupsdk import OAuthToken
from groupsdk.errors import (
    AuthenticationError,
    GroupAuthorizationError,
    GroupSdkError,
    TlsError,
)
from groupsdk.testing import LocalKafka
from groupsdk.wire.schema import ApiKey
from tests.support.groups import describe_group
from tests.support.proxy import FaultProxy
from tests.support.workers import (
    TIMEOUT_S,
    Driven,
    RecordingMember,
    await_stable,
    eventually,
)


StartKafka = Callable[..., LocalKafka]

PASSWORD = "alice-secret"
WRONG_PASSWORD = "wr0ng-s3cret"
_PASSWORDS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def _part(content: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def _token(lifetime_s: int = 3_600, subject: str = "alice") -> str:
    """Return an unsigned token, as test brokers take them."""
    now_s = time.time_ns() // 1_000_000_000
    claims = {"sub": subject, "iat": now_s - 7_200, "exp": now_s + lifetime_s}
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


class _Secrets:
    """Values that must show up nowhere."""

    def __init__(self) -> None:
        self.values = [PASSWORD, WRONG_PASSWORD, "mallory-secret"]

    def token(self, lifetime_s: int = 3_600) -> str:
        """Return a new token, which is a secret too."""
        token = _token(lifetime_s)
        self.values.append(token)
        # Its middle part is as good as the whole.
        self.values.append(token.split(".")[1])
        return token

    def check(self, text: str) -> None:
        """Fail if one of them is in `text`, as it is or in base64."""
        for value in self.values:
            assert value not in text
            assert base64.b64encode(value.encode()).decode() not in text


@pytest.fixture(autouse=True)
def secrets(caplog: pytest.LogCaptureFixture) -> Iterator[_Secrets]:
    """Look after each test whether a secret is in the log, at its most talkative."""
    caplog.set_level(logging.DEBUG)
    secrets = _Secrets()
    yield secrets
    for record in caplog.records:
        secrets.check(record.getMessage())
        secrets.check(logging.Formatter().format(record))


NewMember = Callable[..., RecordingMember]


@pytest.fixture
def new_member(secure_kafka: LocalKafka, group_id: str) -> Iterator[NewMember]:
    """Make members of the test's group, over the listener that their security protocol names."""
    with contextlib.ExitStack() as stack:

        def make(security_protocol: str, **settings: Any) -> RecordingMember:
            defaults: dict[str, Any] = {
                "bootstrap_servers": secure_kafka.bootstrap_servers_of(security_protocol),
                "security_protocol": security_protocol,
                "group_id": group_id,
            }
            if security_protocol.endswith("SSL") and "ssl_ca_pem" not in settings:
                defaults["ssl_ca_location"] = str(secure_kafka.ca_file)
            member = RecordingMember(**(defaults | settings))
            stack.callback(member.close, 1.0)
            return member

        yield make


def _alice(mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "sasl_mechanism": mechanism,
        "sasl_username": "alice",
        "sasl_password": password,
    }


def _refusal(member: RecordingMember, kind: type[GroupSdkError], secrets: _Secrets) -> str:
    """Return the text of the error that the member's caller is given, which holds no secret."""
    with pytest.raises(kind) as raised:
        member.ensure_active_group(TIMEOUT_S)
    assert member.generation_if_stable() is None
    error: BaseException | None = raised.value
    while error is not None:
        secrets.check(f"{error} {error!r}")
        error = error.__cause__ or error.__context__
    secrets.check(f"{member!r} {member.snapshot()!r} {member.events()!r} {member.metrics()!r}")
    return str(raised.value)


class TestJoins:
    def test_member_joins_over_tls(self, new_member: NewMember) -> None:
        with Driven(new_member("SSL")) as one, Driven(new_member("PLAINTEXT")) as two:
            await_stable(one, two)
            assert not one.errors

    @pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
    @pytest.mark.parametrize("mechanism", _PASSWORDS)
    def test_with_a_password(self, new_member: NewMember, protocol: str, mechanism: str) -> None:
        assert new_member(protocol, **_alice(mechanism)).ensure_active_group(TIMEOUT_S)

    @pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
    @pytest.mark.parametrize("kind", ["str", "OAuthToken"])
    def test_with_a_token(
        self, new_member: NewMember, secrets: _Secrets, protocol: str, kind: str
    ) -> None:
        value = secrets.token()
        member = new_member(
            protocol,
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=lambda: value if kind == "str" else OAuthToken(value),
        )
        assert member.ensure_active_group(TIMEOUT_S)

    def test_members_of_all_listeners_are_one_group(
        self, secure_kafka: LocalKafka, new_member: NewMember, group_id: str
    ) -> None:
        scram = _alice("SCRAM-SHA-512")
        with (
            Driven(new_member("PLAINTEXT")) as one,
            Driven(new_member("SSL")) as two,
            Driven(new_member("SASL_PLAINTEXT", **scram)) as three,
            Driven(new_member("SASL_SSL", **scram)) as four,
        ):
            await_stable(one, two, three, four)
            seen = describe_group(secure_kafka.bootstrap_servers_of("PLAINTEXT"), group_id)
            assert len(seen.member_ids) == 4


class TestCredentialsRefused:
    @pytest.mark.parametrize("mechanism", _PASSWORDS)
    def test_wrong_password_is_refused(
        self, new_member: NewMember, secrets: _Secrets, mechanism: str
    ) -> None:
        member = new_member("SASL_PLAINTEXT", **_alice(mechanism, WRONG_PASSWORD))
        text = _refusal(member, AuthenticationError, secrets)
        assert mechanism in text
        # Not in a loop behind the caller's back: a second call tries again, and is told again.
        assert mechanism in _refusal(member, AuthenticationError, secrets)

    @pytest.mark.parametrize("mechanism", _PASSWORDS)
    def test_unknown_user_is_refused(
        self, new_member: NewMember, secrets: _Secrets, mechanism: str
    ) -> None:
        member = new_member("SASL_PLAINTEXT", **(_alice(mechanism) | {"sasl_username": "nobody"}))
        assert mechanism in _refusal(member, AuthenticationError, secrets)

    def test_expired_token_is_refused(self, new_member: NewMember, secrets: _Secrets) -> None:
        expired = secrets.token(lifetime_s=-60)
        member = new_member(
            "SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=lambda: expired,
        )
        assert "OAUTHBEARER" in _refusal(member, AuthenticationError, secrets)

    def test_a_token_provider_that_raises(self, new_member: NewMember, secrets: _Secrets) -> None:
        def provider() -> str:
            raise RuntimeError("the token service is down")

        member = new_member(
            "SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=provider
        )
        with pytest.raises(AuthenticationError, match="RuntimeError") as raised:
            member.ensure_active_group(TIMEOUT_S)
        # Its text may hold a secret, so it is not repeated; who handles the error can look at the cause.
        assert "the token service is down" not in str(raised.value)
        assert "the token service is down" in str(raised.value.__cause__)

    def test_a_mechanism_that_is_not_offered(
        self, plain_only: LocalKafka, group_id: str, secrets: _Secrets
    ) -> None:
        with RecordingMember(
            bootstrap_servers=plain_only.bootstrap_servers,
            group_id=group_id,
            security_protocol="SASL_PLAINTEXT",
            **_alice("SCRAM-SHA-256"),
        ) as member:
            text = _refusal(member, AuthenticationError, secrets)
        assert "sasl.mechanism SCRAM-SHA-256" in text
        assert "it offers PLAIN" in text


class TestWrongDoor:
    def test_an_authority_that_is_not_trusted(
        self, new_member: NewMember, secrets: _Secrets
    ) -> None:
        text = _refusal(new_member("SSL", ssl_ca_location=None), TlsError, secrets)
        assert "ssl_ca_location" in text

    def test_host_that_the_certificate_does_not_name_is_refused(
        self, secure_kafka: LocalKafka, new_member: NewMember, secrets: _Secrets
    ) -> None:
        _, _, port = secure_kafka.bootstrap_servers_of("SSL").rpartition(":")
        # The same address under a name that is not in the certificate.
        member = new_member("SSL", bootstrap_servers=f"127.1:{port}")
        text = _refusal(member, TlsError, secrets)
        assert "127.1" in text
        assert "certificate" in text

    def test_which_may_be_allowed(self, secure_kafka: LocalKafka, new_member: NewMember) -> None:
        _, _, port = secure_kafka.bootstrap_servers_of("SSL").rpartition(":")
        member = new_member(
            "SSL",
            bootstrap_servers=f"127.1:{port}",
            ssl_endpoint_identification_algorithm="none",
        )
        assert member.ensure_active_group(TIMEOUT_S)

    @pytest.mark.parametrize(
        ("speaks", "to"),
        [
            ("PLAINTEXT", "SSL"),
            ("SASL_PLAINTEXT", "SASL_SSL"),
            ("SSL", "PLAINTEXT"),
            ("SASL_SSL", "SASL_PLAINTEXT"),
            ("PLAINTEXT", "SASL_PLAINTEXT"),
            ("SSL", "SASL_SSL"),
            ("SASL_PLAINTEXT", "PLAINTEXT"),
            ("SASL_SSL", "SSL"),
        ],
    )
    def test_security_protocol_of_another_listener_is_refused(
        self,
        secure_kafka: LocalKafka,
        new_member: NewMember,
        secrets: _Secrets,
        speaks: str,
        to: str,
    ) -> None:
        member = new_member(
            speaks,
            bootstrap_servers=secure_kafka.bootstrap_servers_of(to),
            **(_alice("PLAIN") if speaks.startswith("SASL") else {}),
        )
        text = _refusal(member, AuthenticationError, secrets)
        assert "security.protocol" in text.replace("_", ".")


_MALLORY = {
    "sasl_mechanism": "PLAIN",
    "sasl_username": "mallory",
    "sasl_password": "mallory-secret",
}


class TestAuthorization:
    def test_member_without_permission_for_the_group_is_refused(
        self, new_member: NewMember, secrets: _Secrets, group_id: str
    ) -> None:
        member = new_member("SASL_PLAINTEXT", **_MALLORY)
        text = _refusal(member, GroupAuthorizationError, secrets)
        assert group_id in text

    def test_and_may_try_again_once_he_may(
        self, new_member: NewMember, secrets: _Secrets, rights: Callable[[bool], None]
    ) -> None:
        member = new_member("SASL_PLAINTEXT", **_MALLORY)
        _refusal(member, GroupAuthorizationError, secrets)
        rights(True)
        assert member.ensure_active_group(TIMEOUT_S)

    def test_a_right_that_is_taken_away_from_a_member(
        self, new_member: NewMember, rights: Callable[[bool], None], group_id: str
    ) -> None:
        rights(True)
        # The session outlasts the test: it is a heartbeat that brings the news.
        with Driven(new_member("SASL_PLAINTEXT", session_timeout_ms=60_000, **_MALLORY)) as driven:
            generation = await_stable(driven)
            rights(False)
            # Kafka's own client repeats the heartbeat without a word; here the caller learns of it.
            error = eventually(lambda: driven.errors and driven.errors[0])
            assert isinstance(error, GroupAuthorizationError)
            assert group_id in str(error)
            rights(True)
            assert await_stable(driven) == generation


@pytest.fixture(scope="module")
def reauthentication_proxy() -> Iterator[FaultProxy]:
    """The way to `plain_only`."""
    with FaultProxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def plain_only(kafka_installed: None, reauthentication_proxy: FaultProxy) -> Iterator[LocalKafka]:
    """A broker that offers PLAIN alone, and wants new credentials every other second (KIP-368)."""
    listener = "listener.name.sasl_plaintext."
    with LocalKafka(
        listeners="SASL_PLAINTEXT",
        advertised={"SASL_PLAINTEXT": [reauthentication_proxy.address]},
        properties={
            f"{listener}sasl.enabled.mechanisms": "PLAIN",
            f"{listener}plain.connections.max.reauth.ms": "2000",
        },
    ) as kafka:
        reauthentication_proxy.connect_to(kafka.nodes[0].address("SASL_PLAINTEXT"))
        yield kafka


class TestReauthentication:
    def test_keeps_the_membership_when_the_sessions_of_connections_are_short(
        self,
        plain_only: LocalKafka,
        reauthentication_proxy: FaultProxy,
        group_id: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        proxy = reauthentication_proxy
        with Driven(
            RecordingMember(
                bootstrap_servers=plain_only.bootstrap_servers,
                group_id=group_id,
                security_protocol="SASL_PLAINTEXT",
                **_alice("PLAIN"),
            )
        ) as driven:
            generation = await_stable(driven)
            callbacks = list(driven.member.callbacks)

            def three_in_time() -> bool:
                said = len(caplog.records)
                before = len(proxy.seen(ApiKey.SASL_AUTHENTICATE.value))
                eventually(
                    lambda: len(proxy.seen(ApiKey.SASL_AUTHENTICATE.value)) >= before + 3,
                    proxy.counts,
                )
                # The broker never had to close a connection.
                lines = [each.getMessage() for each in caplog.records[said:]]
                return not any("lost the group coordinator" in line for line in lines)

            # A machine that stalls where one is due makes it late.
            eventually(three_in_time)
            assert await_stable(driven) == generation
            assert driven.member.callbacks == callbacks
            assert not driven.errors
