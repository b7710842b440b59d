"""Answer every request with every error code of Kafka, over real sockets."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.errors import AuthenticationError, BrokerError, FencedInstanceIdError, broker_error
from groupsdk.member.classic.replies import ClassicReaction, reply_to
from groupsdk.member.state import MemberState
from groupsdk.wire.messages.groups import LeaveGroupResponse, MemberResponse
from groupsdk.wire.schema import ApiKey
from tests.drivers.engine.rig import Rig, config, run
from tests.support.scripted_broker import ScriptedBroker, Seen
from tests.support.scripted_steps import Step, fail


CODES = [int(code) for code in ErrorCode if code is not ErrorCode.NONE] + [999, -32_768]
"""All that Kafka has, and two that it has not."""

Check = Callable[[Rig, int], Awaitable[None]]


def every_code(broker: ScriptedBroker, api: ApiKey, check: Check, **settings: object) -> None:
    """Run one member per code, all at once, each of which gets its code for the first answer of `api`."""

    async def one(code: int) -> None:
        name = f"code {code}"
        broker.script(api, fail(code), client_id=name)
        chosen = config(broker.address, client_id=name, group_id=name, **settings)
        async with Rig(chosen) as rig:
            await check(rig, code)

    async def all_of_them() -> None:
        results = await asyncio.gather(*map(one, CODES), return_exceptions=True)
        wrong = {c: r for c, r in zip(CODES, results, strict=True) if r is not None}
        assert not wrong

    run(all_of_them())


def codes_of(rig: Rig) -> list[int]:
    return [error.code for error in rig.failures if isinstance(error, BrokerError)]


@pytest.mark.parametrize("api", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
def test_joins_after_any_error_that_allows_it(broker: ScriptedBroker, api: ApiKey) -> None:
    async def check(rig: Rig, code: int) -> None:
        reaction = reply_to(api, code).reaction
        if reaction is ClassicReaction.FENCE:
            error = await rig.failed()
            assert isinstance(error, FencedInstanceIdError)
            assert rig.view is not None
            assert rig.view.state is MemberState.UNJOINED
            return
        await rig.active()
        told = reaction is ClassicReaction.FAIL
        assert codes_of(rig) == ([code] if told else [])
        assert len(rig.failures) == told
        if told:
            text = str(rig.failures[0])
            assert rig.settings.group_id in text
            assert api.name in text

    every_code(broker, api, check)


def test_heartbeats_after_any_error_that_allows_it(broker: ScriptedBroker) -> None:
    async def check(rig: Rig, code: int) -> None:
        reaction = reply_to(ApiKey.HEARTBEAT, code).reaction
        if reaction is ClassicReaction.FENCE:
            assert isinstance(await rig.failed(), FencedInstanceIdError)
            return
        await rig.active()
        # the first heartbeat that is answered without an error comes after the one with it
        rejoins = reaction in (
            ClassicReaction.REBALANCING,
            ClassicReaction.RESET_GENERATION,
            ClassicReaction.RESET_MEMBER,
        )
        view = await rig.wait(
            lambda view: (
                view.state is MemberState.STABLE
                and not view.joining
                and view.assignment_epoch == 1 + rejoins
                and rig.heartbeats >= 1 + (reaction is ClassicReaction.REBALANCING)
            )
        )
        assert view.generation.generation_id == 1 + rejoins
        assert codes_of(rig) == ([code] if reaction is ClassicReaction.REPORT else [])

    every_code(broker, ApiKey.HEARTBEAT, check)


def test_leaves_whatever_the_answer(broker: ScriptedBroker) -> None:
    async def check(rig: Rig, code: int) -> None:
        await rig.active()
        await rig.leave()
        assert rig.failures == []

    every_code(broker, ApiKey.LEAVE_GROUP, check)


def test_leaves_whatever_the_answer_says_of_the_member(broker: ScriptedBroker) -> None:
    async def check(rig: Rig, code: int) -> None:
        answer = LeaveGroupResponse(members=(MemberResponse(member_id="m", error_code=code),))
        broker.script(ApiKey.LEAVE_GROUP, Step(answer=answer), client_id=rig.settings.client_id)
        await rig.active()
        await rig.leave()
        assert rig.failures == []

    every_code(broker, ApiKey.METADATA, check)


def test_finds_the_coordinator_after_any_error(broker: ScriptedBroker) -> None:
    async def check(rig: Rig, code: int) -> None:
        await rig.active()
        retriable = broker_error(code).retriable
        assert codes_of(rig) == ([] if retriable else [code])
        if retriable:
            assert any("FindCoordinator" in text for text in rig.troubles)
        else:
            assert "FindCoordinator of group" in str(rig.failures[0])

    every_code(broker, ApiKey.FIND_COORDINATOR, check)


def test_the_list_of_brokers_is_no_matter_of_life_and_death(broker: ScriptedBroker) -> None:
    async def check(rig: Rig, code: int) -> None:
        await rig.active()
        assert rig.failures == []
        assert rig.troubles == []

    every_code(broker, ApiKey.METADATA, check)


def test_agrees_on_versions_after_any_error(broker: ScriptedBroker) -> None:
    async def check(rig: Rig, code: int) -> None:
        await rig.active()
        passes = code == ErrorCode.UNSUPPORTED_VERSION or broker_error(code).retriable
        assert codes_of(rig) == ([] if passes else [code])

    every_code(broker, ApiKey.API_VERSIONS, check)


@pytest.mark.parametrize("api", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
def test_authentication_that_fails_is_told_once_per_attempt(api: ApiKey) -> None:
    async def check(rig: Rig, code: int) -> None:
        await rig.active()
        assert [type(error) for error in rig.failures] == [AuthenticationError]
        assert "PLAIN" in str(rig.failures[0])
        assert "pass-word" not in str(rig.failures[0])

    with ScriptedBroker(passwords={"user": "pass-word"}) as broker:
        every_code(
            broker,
            api,
            check,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username="user",
            sasl_password="pass-word",
        )


# An error that never ends: attempts are repeated, but with a backoff.

BACKOFF_MS = 100
ATTEMPTS = 12
AT_ONCE = 5
"""How many attempts may follow each other at once before the backoff starts; our table has at most 3."""

ENDLESS = [
    (api, code)
    for api, codes in {
        ApiKey.FIND_COORDINATOR: (14, 15, 16, 7, 30, 24, 82, -1),
        ApiKey.JOIN_GROUP: (14, 15, 16, 25, 27, 23, 26, 81, -1),
        ApiKey.SYNC_GROUP: (14, 15, 16, 25, 22, 27, 30, -1),
        ApiKey.HEARTBEAT: (15, 16, 25, 22, 27, 30, 14, -1),
        ApiKey.API_VERSIONS: (7, 42, -1),
    }.items()
    for code in codes
]
"""At least one code for every reaction of every table that goes on."""


async def test_no_error_makes_a_member_spin(broker: ScriptedBroker) -> None:
    async def one(api: ApiKey, code: int) -> str | None:
        name = f"{api.name} {code}"
        broker.script(api, fail(code), client_id=name, forever=True)
        chosen = config(
            broker.address,
            client_id=name,
            group_id=name,
            heartbeat_interval_ms=BACKOFF_MS,
            retry_backoff_ms=BACKOFF_MS,
            retry_backoff_max_ms=BACKOFF_MS,
        )
        async with Rig(chosen):
            await asyncio.to_thread(
                broker.wait_for, lambda: len(broker.seen(api, name)) >= ATTEMPTS, what=name
            )
            return too_fast(broker.seen(api, name)[:ATTEMPTS])

    found = await asyncio.gather(*(one(api, code) for api, code in ENDLESS))
    assert not [text for text in found if text is not None]


def too_fast(seen: list[Seen]) -> str | None:
    """Say what is wrong where so many attempts came in less time than they may."""
    took_ms = seen[-1].at_ms - seen[0].at_ms
    least_ms = (ATTEMPTS - AT_ONCE) * BACKOFF_MS * 3 // 4
    if took_ms >= least_ms:
        return None
    return f"{seen[0].client_id}: {len(seen)} requests in {took_ms} ms, not {least_ms} or more"
