"""Test what the caller of a member sees of the network, through the public class and a real thread."""

import gc
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from groupsdk.errors import (
    AuthenticationError,
    ConfigError,
    EngineError,
    MemberClosedError,
    ResolveError,
    UnsupportedVersionError,
)
from groupsdk.wire.schema import ApiKey
from tests.drivers.engine.rig import STRANGER, USERS
from tests.support.plain_workers import PlainWorker
from tests.support.scripted_broker import ScriptedBroker, refusing_port
from tests.support.scripted_steps import KAFKA_4_3, Versions
from tests.support.workers import eventually


def worker(servers: str, **settings: Any) -> PlainWorker:
    defaults: dict[str, Any] = {"group_id": "g", "retry_backoff_ms": 20, "retry_backoff_max_ms": 40}
    return PlainWorker(bootstrap_servers=servers, **{**defaults, **settings})


def test_a_name_that_does_not_resolve_is_raised_at_once() -> None:
    with worker("no-such-host.invalid:9092") as member:
        with pytest.raises(ResolveError, match=r"no-such-host\.invalid"):
            member.ensure_active_group(timeout=60)
        with pytest.raises(ResolveError):  # and again: the caller may have mended it
            member.ensure_active_group(timeout=60)


def test_nobody_there_is_no_error_and_the_snapshot_says_why() -> None:
    with refusing_port() as port, worker(f"127.0.0.1:{port}") as member:
        assert member.ensure_active_group(timeout=0.5) is False
        eventually(lambda: member.snapshot().trouble)
        snapshot = member.snapshot()
        assert snapshot.coordinator is None
        assert snapshot.trouble is not None
        assert f"cannot connect to 127.0.0.1:{port}: Connection refused" in snapshot.trouble


def test_a_broker_that_is_too_old_is_named_with_what_it_lacks() -> None:
    versions: Versions = {k: v for k, v in KAFKA_4_3.items() if k is not ApiKey.JOIN_GROUP}
    with (
        ScriptedBroker(versions=versions) as broker,
        worker(broker.address) as member,
        pytest.raises(UnsupportedVersionError, match=r"JoinGroupRequest .* does not have it"),
    ):
        member.ensure_active_group(timeout=60)


def test_a_dead_server_among_two(broker: ScriptedBroker) -> None:
    with refusing_port() as port, worker(f"127.0.0.1:{port},{broker.address}") as member:
        assert member.ensure_active_group(timeout=60)
        assert member.snapshot().trouble is None


@pytest.mark.parametrize(
    "place",
    [
        "groupsdk.drivers.engine.connect.check_versions",
        "groupsdk.drivers.engine.engine.send_request",
        "groupsdk.drivers.engine.connection.correlation_id_of",
        "groupsdk.member.machine.MembershipMachine.handle",
    ],
)
def test_a_bug_is_raised_at_the_callers_next_call_and_every_one_after(
    place: str, broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*_: object, **__: object) -> Any:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(place, bug)
    member = worker(broker.address)
    for _ in range(3):
        with pytest.raises(EngineError, match="ZeroDivisionError: a bug") as caught:
            member.ensure_active_group(timeout=60)
        assert caught.value.fatal
    with pytest.raises(EngineError):
        member.poll()
    assert member.snapshot().stable is False
    member.close(timeout=5)


def test_a_token_provider_that_ends_its_thread_does_not_hang_the_caller(
    broker: ScriptedBroker,
) -> None:
    def provider() -> str:
        raise SystemExit(1)

    member = worker(
        broker.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=provider,
    )
    with member, pytest.raises(Exception, match="sasl_oauth_token_provider raised"):
        member.ensure_active_group(timeout=60)


OPEN_FILES = Path("/proc/self/fd")


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="counts open files as Linux shows them")
def test_fifty_members_opened_and_closed_leave_no_file_and_no_thread(
    broker: ScriptedBroker,
) -> None:
    def cycle(number: int) -> None:
        with worker(broker.address, group_id=f"g{number}") as member:
            assert member.ensure_active_group(timeout=60)

    known = set(threading.enumerate())

    def left() -> tuple[int, set[threading.Thread]]:
        broker.wait_for(lambda: broker.connected == 0)
        gc.collect()
        return len(os.listdir(OPEN_FILES)), set(threading.enumerate()) - known  # noqa: PTH208  # only counted

    cycle(0)
    before = left()
    for number in range(1, 51):
        cycle(number)
    assert left() == before


def test_two_hundred_members_in_one_process(broker: ScriptedBroker) -> None:
    members = [worker(broker.address, group_id=f"g{number}") for number in range(200)]
    before = set(threading.enumerate())
    try:
        for member in members:
            member.poll()
        for member in members:
            assert member.ensure_active_group(timeout=60)
        # a thread each, and none that a name server or the like was asked on
        assert len(set(threading.enumerate()) - before) <= len(members)
        broker.wait_for(lambda: broker.connected == 200)
    finally:
        for member in members:
            member.close(timeout=5)


@pytest.mark.parametrize("heartbeat", ["thread", "process"])
def test_credentials_can_be_changed_in_a_member(heartbeat: str) -> None:
    settings = STRANGER | {"heartbeat": heartbeat}
    with ScriptedBroker(passwords=USERS) as broker:
        with worker(broker.address, **settings) as member:
            with pytest.raises(AuthenticationError, match="refused PLAIN"):
                member.ensure_active_group(timeout=60)
            member.set_sasl_credentials("user", "right")
            assert member.ensure_active_group(timeout=60)
        with worker(broker.address, group_id="h", **settings) as member:
            member.set_sasl_credentials("user", "right")  # before there is an engine
            assert member.ensure_active_group(timeout=60)
            with pytest.raises(ConfigError, match="NUL"):
                member.set_sasl_credentials("user", "\0")
        with pytest.raises(MemberClosedError):
            member.set_sasl_credentials("user", "right")
