"""Members with heartbeat="process" on a real broker: what the child keeps up, and what it may not."""

import ctypes
import os
import signal
from pathlib import Path

import pytest

from groupsdk.errors import EngineError
from groupsdk.testing import LocalKafka
from tests.support.groups import describe_group
from tests.support.workers import TIMEOUT_S, RecordingMember, eventually


def test_native_code_that_holds_the_interpreter_for_longer_than_the_session_costs_nothing(
    kafka: LocalKafka, group_id: str
) -> None:
    with RecordingMember(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group_id,
        heartbeat="process",
        session_timeout_ms=6_000,
    ) as member:
        assert member.ensure_active_group(TIMEOUT_S)
        generation = member.generation()
        callbacks = list(member.callbacks)
        # PyDLL, unlike CDLL, keeps the interpreter's lock while the function runs.
        ctypes.PyDLL(None).usleep(8_000_000)
        assert member.ensure_active_group(TIMEOUT_S)
        assert member.generation_if_stable() == generation
        assert member.callbacks == callbacks
        assert describe_group(kafka.bootstrap_servers, group_id).state == "Stable"


def test_a_child_that_is_killed_is_told_to_the_caller(kafka: LocalKafka, group_id: str) -> None:
    member = RecordingMember(
        bootstrap_servers=kafka.bootstrap_servers, group_id=group_id, heartbeat="process"
    )
    with member:
        before = set(_children())
        assert member.ensure_active_group(TIMEOUT_S)
        (child,) = set(_children()) - before
        os.kill(child, signal.SIGKILL)
        with pytest.raises(EngineError, match="SIGKILL"):
            eventually(lambda: member.poll(0.05) and False)
        assert member.generation_if_stable() is None
        with pytest.raises(EngineError):
            member.ensure_active_group(TIMEOUT_S)


def _children() -> list[int]:
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
