"""Test SASL over a connection: refusals, token providers that fail, sessions that end."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groupsdk.drivers.engine.connect import Connector
from groupsdk.drivers.engine.sasl import Scram
from groupsdk.errors import (
    AuthenticationError,
    ConfigError,
    DisconnectedError,
    GroupSdkError,
    RequestTimeoutError,
    UnsupportedVersionError,
    WireError,
)
from groupsdk.settings.security import OAuthToken
from groupsdk.wire.messages.connection import SaslAuthenticateResponse, SaslHandshakeResponse
from groupsdk.wire.schema import ApiKey
from tests.drivers.engine.rig import WAIT_S, Rig, config, run
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_steps import KAFKA_4_3, Step, Versions, cut, hang_up, raw


PASSWORD = "s3cr3t-password"
TOKEN = "s3cr3t.to.ken"

PLAIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "user",
    "sasl_password": PASSWORD,
}


def bearer(provider: Callable[[], Any]) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
    }


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker(passwords={"user": PASSWORD, "bearer": TOKEN}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def _no_secret_is_shown(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    for record in caplog.get_records("call"):
        assert "s3cr3t" not in record.getMessage()


def attempt(broker: ScriptedBroker, **settings: Any) -> GroupSdkError | None:
    """Open a connection; return the error, if there is one."""
    caught: list[GroupSdkError] = []

    async def work() -> None:
        connector = Connector(config("unused:1", **settings))
        try:
            connection = await connector.open(broker.host, broker.port)
            assert connection.usable
        except GroupSdkError as error:
            caught.append(error)
        finally:
            await connector.close()

    run(work())
    assert "s3cr3t" not in str(caught)
    return caught[0] if caught else None


def test_plain_and_bearer_are_let_in(broker: ScriptedBroker) -> None:
    assert attempt(broker, **PLAIN) is None
    assert attempt(broker, **bearer(lambda: TOKEN)) is None
    assert attempt(broker, **bearer(lambda: OAuthToken(TOKEN))) is None


def test_a_wrong_password(broker: ScriptedBroker) -> None:
    error = attempt(broker, **{**PLAIN, "sasl_password": "s3cr3t-other"})
    assert isinstance(error, AuthenticationError)
    assert "refused PLAIN: Authentication failed" in str(error)


def test_a_mechanism_that_the_broker_does_not_offer(broker: ScriptedBroker) -> None:
    error = attempt(broker, **{**PLAIN, "sasl_mechanism": "SCRAM-SHA-256"})
    assert isinstance(error, AuthenticationError)
    assert "does not accept sasl.mechanism SCRAM-SHA-256; it offers PLAIN, OAUTHBEARER" in str(
        error
    )


def test_a_broker_without_sasl_over_kafka_requests() -> None:
    versions: Versions = {k: v for k, v in KAFKA_4_3.items() if k is not ApiKey.SASL_AUTHENTICATE}
    with ScriptedBroker(versions=versions, passwords={"user": PASSWORD}) as broker:
        error = attempt(broker, **PLAIN)
        assert isinstance(error, UnsupportedVersionError)
        assert "SaslAuthenticateRequest" in str(error)
        assert broker.seen(ApiKey.SASL_HANDSHAKE) == []


@pytest.mark.parametrize("api", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
def test_a_broker_that_stops_in_the_middle_of_the_exchange(
    api: ApiKey, broker: ScriptedBroker
) -> None:
    for step in (hang_up(), cut(1), cut(9)):
        broker.script(api, step)
        error = attempt(broker, **PLAIN)
        assert isinstance(error, DisconnectedError)
        assert "closed the connection during the PLAIN exchange" in str(error)
    broker.script(api, Step(silent=True))
    error = attempt(broker, **PLAIN, socket_connection_setup_timeout_ms=1_000)
    assert isinstance(error, RequestTimeoutError)
    assert "still authenticating" in str(error)
    broker.script(api, raw(b"\0\0\0\5hello"))
    assert isinstance(attempt(broker, **PLAIN), WireError)


def test_a_broker_that_never_ends_the_exchange(broker: ScriptedBroker) -> None:
    """SCRAM with a broker that answers the first message over and over."""
    scram = {**PLAIN, "sasl_mechanism": "SCRAM-SHA-256"}
    handshake = Step(answer=SaslHandshakeResponse(mechanisms=("SCRAM-SHA-256",)))
    for auth_bytes in (
        b"",
        b"garbage",
        b"r=x,s=y,i=z",
        b"\xff\xfe",
        b"r=,s=,i=4096",
        b"v=" + b"A" * 3_000,
        b"," * 4_000,
        b"e=other-error",
        b"m=ext,r=x,s=QQ==,i=4096",
    ):
        broker.script(ApiKey.SASL_HANDSHAKE, handshake)
        answer = SaslAuthenticateResponse(auth_bytes=auth_bytes)
        broker.script(ApiKey.SASL_AUTHENTICATE, *[Step(answer=answer)] * 20)
        before = len(broker.seen(ApiKey.SASL_AUTHENTICATE))
        assert isinstance(attempt(broker, **scram), AuthenticationError)
        steps = len(broker.seen(ApiKey.SASL_AUTHENTICATE)) - before
        assert steps <= 3
        broker._scripts.clear()


def test_bearer_refused_in_the_exchange_says_what_the_broker_said(broker: ScriptedBroker) -> None:
    told = SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')
    broker.script(ApiKey.SASL_AUTHENTICATE, Step(answer=told), Step(error=58))
    error = attempt(broker, **bearer(lambda: TOKEN))
    assert isinstance(error, AuthenticationError)
    assert "invalid_token" in str(error)


def test_the_brokers_words_are_escaped(broker: ScriptedBroker) -> None:
    told = SaslAuthenticateResponse(error_code=58, error_message="no\x1b[2J\nERROR forged")
    broker.script(ApiKey.SASL_AUTHENTICATE, Step(answer=told))
    assert r"refused PLAIN: no\x1b[2J\x0aERROR forged" in str(attempt(broker, **PLAIN))


# Token providers.


@pytest.mark.parametrize(
    "raised",
    [ValueError, OSError, SystemExit, KeyboardInterrupt, StopIteration, asyncio.CancelledError],
)
def test_a_provider_that_raises_fails_the_attempt(
    raised: type[BaseException], broker: ScriptedBroker
) -> None:
    def provider() -> str:
        raise raised("s3cr3t detail")

    error = attempt(broker, **bearer(provider))
    assert isinstance(error, AuthenticationError)
    assert "sasl_oauth_token_provider raised" in str(error)
    assert error.__cause__ is not None


def test_an_error_of_ours_that_a_provider_raises_is_passed_on(broker: ScriptedBroker) -> None:
    def provider() -> str:
        raise ConfigError("no client id")

    error = attempt(broker, **bearer(provider))
    assert isinstance(error, ConfigError)


@pytest.mark.parametrize("token", [None, b"bytes", 7, "", "two words", "s3cr3t\n"])
def test_a_provider_that_returns_no_token(token: Any, broker: ScriptedBroker) -> None:
    error = attempt(broker, **bearer(lambda: token))
    assert isinstance(error, ConfigError)
    assert "sasl_oauth_token_provider returned" in str(error)


def test_an_expired_token_is_refused_by_the_broker(broker: ScriptedBroker) -> None:
    error = attempt(broker, **bearer(lambda: OAuthToken("s3cr3t.expired", lifetime_ms=1)))
    assert isinstance(error, AuthenticationError)
    assert "refused OAUTHBEARER" in str(error)


async def test_a_provider_that_blocks_holds_one_thread_and_not_the_loop(
    broker: ScriptedBroker,
) -> None:
    gate, asked = threading.Event(), []

    def provider() -> str:
        asked.append(threading.current_thread())
        gate.wait(WAIT_S)
        return TOKEN

    settings = bearer(provider)
    connector = Connector(config("x:1", **settings, socket_connection_setup_timeout_ms=100))
    waited = 0
    while waited < 5:  # on a slow machine, an attempt may not even get as far as the provider
        with pytest.raises(RequestTimeoutError) as raised:
            await connector.open(broker.host, broker.port)
        waited += "still authenticating" in str(raised.value)
    assert len(asked) == 1
    gate.set()
    await asyncio.to_thread(asked[0].join)
    await asyncio.sleep(0)
    settings["socket_connection_setup_timeout_ms"] = 5_000
    connector._config = config("x:1", **settings)
    assert (await connector.open(broker.host, broker.port)).usable
    await connector.close()


async def test_a_provider_that_raises_costs_neither_the_member_nor_its_membership(
    broker: ScriptedBroker,
) -> None:
    """As in Kafka's client it fails the caller's call, who may call again."""
    broken = threading.Event()

    def provider() -> str:
        if broken.is_set():
            raise ConnectionError("the identity provider is down")
        return TOKEN

    async with Rig(config(broker.address, **bearer(provider))) as rig:
        generation = (await rig.active()).generation
        broken.set()
        broker.drop_connections()
        error = await rig.failed()
        assert isinstance(error, AuthenticationError)
        assert "raised ConnectionError" in str(error)
        broken.clear()
        told = rig.heartbeats
        view = await rig.wait(lambda _: rig.heartbeats > told + 2)
        assert view.generation == generation
        assert len(rig.assignments) == 1


async def test_a_wrong_password_is_told_at_every_call_and_not_tried_without_one(
    broker: ScriptedBroker,
) -> None:
    """Refused credentials are not repeated behind the caller's back: that may lock the user out."""
    other = f"{broker.address},localhost:{broker.port}"
    settings = {**PLAIN, "sasl_password": "s3cr3t-other"}
    async with Rig(config(other, **settings)) as rig:
        await rig.failed(3)
        assert {type(error) for error in rig.failures} == {AuthenticationError}
        attempts = len(broker.seen(ApiKey.SASL_AUTHENTICATE))
        assert attempts <= len(rig.failures) + 1


# The end of a session (KIP-368).


def test_a_new_connection_brings_credentials_before_the_session_ends() -> None:
    lifetime_ms = 300

    async def work(broker: ScriptedBroker) -> None:
        async with Rig(config(broker.address, **PLAIN)) as rig:
            generation = (await rig.active()).generation
            view = await rig.wait(lambda _: broker.accepted >= 4)
            assert view.generation == generation
            assert rig.failures == []
            assert rig.troubles == []
            assert len(rig.assignments) == 1

    with ScriptedBroker(passwords={"user": PASSWORD}, session_lifetime_ms=lifetime_ms) as broker:
        run(work(broker))
        for number in range(1, broker.accepted + 1):
            seen = [each for each in broker.seen() if each.connection == number]
            begun = next((s.at_ms for s in seen if s.api is ApiKey.SASL_AUTHENTICATE), None)
            # sent before the end; not, as it may be on a busy machine, seen before it
            late = [s for s in seen if begun is not None and s.at_ms > begun + 2 * lifetime_ms]
            assert not late


def test_a_session_that_ends_at_once_does_not_make_a_member_spin() -> None:
    async def work(broker: ScriptedBroker) -> None:
        async with Rig(config(broker.address, **PLAIN)) as rig:
            await rig.wait(lambda _: rig.heartbeats >= 5)

    with ScriptedBroker(passwords={"user": PASSWORD}, session_lifetime_ms=1) as broker:
        run(work(broker))
        requests = [s for s in broker.seen() if s.api not in (ApiKey.API_VERSIONS, 17, 36)]
        assert broker.accepted <= len(requests)


def test_scram_computes_off_the_loop(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million iterations must not delay another task, and so no heartbeat."""
    threads: list[str] = []
    original = Scram.respond

    def respond(self: Scram, challenge: bytes) -> bytes | None:
        threads.append(threading.current_thread().name)
        return original(self, challenge)

    monkeypatch.setattr(Scram, "respond", respond)
    handshake = SaslHandshakeResponse(mechanisms=("SCRAM-SHA-256",))
    broker.script(ApiKey.SASL_HANDSHAKE, Step(answer=handshake))
    first = SaslAuthenticateResponse(auth_bytes=b"r=bad,s=QUJD,i=4096")
    broker.script(ApiKey.SASL_AUTHENTICATE, Step(answer=first))
    scram = {**PLAIN, "sasl_mechanism": "SCRAM-SHA-256"}
    assert isinstance(attempt(broker, **scram), AuthenticationError)
    assert threads == ["groupsdk-blocking"]
