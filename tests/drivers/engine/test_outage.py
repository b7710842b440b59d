"""Test what a member costs while its coordinator is not to be had: connections, handshakes, lines in the log."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from groupsdk.errors import AuthenticationError, ConfigError, GroupSdkError, NetworkError
from groupsdk.member.events import CredentialsChanged
from groupsdk.wire.schema import ApiKey
from tests.drivers.engine.rig import USER, USERS, Rig, config, provided, run
from tests.support.scripted_broker import ScriptedBroker, refusing_port
from tests.support.scripted_steps import fail


def test_a_coordinator_that_is_down_costs_no_handshake_with_the_others_each_time() -> None:
    """As while a cluster has not noticed yet that one of its nodes was killed."""

    async def work(port: int) -> None:
        with ScriptedBroker(passwords=USERS) as asked, ScriptedBroker(passwords=USERS) as own:
            asked.coordinator = (own.host, own.port)
            async with Rig(config(asked.address, **USER)) as rig:
                await rig.active()
                asked.coordinator = ("127.0.0.1", port)
                handshakes = len(asked.seen(ApiKey.SASL_HANDSHAKE))
                own.stop()
                lookups = len(asked.seen(ApiKey.FIND_COORDINATOR))
                await rig.wait(lambda _: len(asked.seen(ApiKey.FIND_COORDINATOR)) >= lookups + 12)
                made = len(asked.seen(ApiKey.SASL_HANDSHAKE)) - handshakes
                assert made <= 4, f"{made} handshakes for 12 questions"

    with refusing_port() as port:
        run(work(port))


async def test_a_coordinator_that_is_none_is_asked_who_is_over_the_same_connection(
    broker: ScriptedBroker,
) -> None:
    """As in a rolling restart: a node that gives its groups up still takes connections."""
    async with Rig(config(broker.address)) as rig:
        await rig.active()
        assert broker.accepted == 1
        broker.script(ApiKey.HEARTBEAT, *[fail(16)] * 4)
        lookups = len(broker.seen(ApiKey.FIND_COORDINATOR))
        await rig.wait(lambda _: len(broker.seen(ApiKey.FIND_COORDINATOR)) >= lookups + 4)
        beats = rig.heartbeats
        await rig.wait(lambda _: rig.heartbeats > beats)
        assert broker.accepted == 1
        await rig.leave()
    await asyncio.to_thread(broker.wait_for, lambda: broker.connected == 0)


async def test_a_member_whose_password_was_changed_goes_on_with_the_new_one() -> None:
    """It is still in its group: only the connection was refused, and the next one is not for minutes."""
    with ScriptedBroker(passwords=USERS) as broker:
        async with Rig(config(broker.address, **USER)) as rig:
            await rig.active()
            broker._passwords = {"user": "changed"}
            broker.drop_connections()
            await rig.failed()
            assert isinstance(rig.failures[-1], AuthenticationError)
            beats = rig.heartbeats
            rig.post(CredentialsChanged("user", "changed"))
            await rig.wait(lambda _: rig.heartbeats > beats)
            assert rig.view is not None
            assert rig.view.trouble is None
            assert len(broker.seen(ApiKey.JOIN_GROUP)) == 2, "of the two-step join at the start"


@pytest.mark.usefixtures("patient")
async def test_refused_credentials_are_not_tried_at_every_node_for_ever() -> None:
    with ScriptedBroker(passwords=USERS) as one, ScriptedBroker(passwords=USERS) as two:
        one.brokers = two.brokers = tuple((each.host, each.port) for each in (one, two))
        two.coordinator = (one.host, one.port)
        async with Rig(config(f"{one.address},{two.address}", **USER)) as rig:
            await rig.active()
            for each in (one, two):
                each._passwords = {"user": "changed"}
                each.drop_connections()
            tried = len(one.seen(ApiKey.SASL_AUTHENTICATE)) + len(
                two.seen(ApiKey.SASL_AUTHENTICATE)
            )
            await rig.failed(5)
            # one attempt at one node each, and ever longer waits between them
            now = len(one.seen(ApiKey.SASL_AUTHENTICATE)) + len(two.seen(ApiKey.SASL_AUTHENTICATE))
            assert now - tried <= len(rig.failures) + 1
            assert rig._engine._machine._access._discovery._refusals >= 5


async def test_a_provider_is_asked_for_each_connection() -> None:
    passwords = ["first", "second"]

    def provider() -> tuple[str, str]:
        return "user", passwords[0]

    with ScriptedBroker(passwords={"user": "first"}) as broker:
        async with Rig(config(broker.address, **provided(provider))) as rig:
            await rig.active()
            broker._passwords = {"user": passwords.pop()}
            passwords[0] = "second"
            beats = rig.heartbeats
            broker.drop_connections()
            await rig.wait(lambda _: rig.heartbeats > beats + 1)
            assert rig.failures == []


@pytest.mark.parametrize(
    ("provider", "error", "text"),
    [
        (lambda: 1 / 0, AuthenticationError, "sasl_credentials_provider raised ZeroDivisionError"),
        (lambda: ("user",), ConfigError, "sasl_credentials_provider returned tuple, not"),
        (lambda: "user:s3cret", ConfigError, "sasl_credentials_provider returned str, not"),
        (lambda: ("user", ""), ConfigError, "sasl_password"),
    ],
)
async def test_a_provider_that_fails_is_told(
    provider: Callable[[], Any], error: type[GroupSdkError], text: str
) -> None:
    with ScriptedBroker(passwords=USERS) as broker:
        async with Rig(config(broker.address, **provided(provider))) as rig:
            told = await rig.failed()
            assert isinstance(told, error)
            assert text in str(told)
            assert "s3cret" not in str(told)


async def test_a_provider_that_says_that_its_failure_passes_is_asked_again_and_nothing_is_raised() -> (
    None
):
    answers: list[tuple[str, str] | Exception] = [
        NetworkError("the vault is sealed"),
        NetworkError("the vault is slow"),
        ("user", "right"),
    ]

    def provider() -> tuple[str, str]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        answers.append(answer)
        return answer

    with ScriptedBroker(passwords=USERS) as one, ScriptedBroker(passwords=USERS) as two:
        async with Rig(config(f"{one.address},{two.address}", **provided(provider))) as rig:
            await rig.active()
            assert rig.failures == []
            assert "sasl_credentials_provider: the vault is sealed" in rig.troubles[0]
