"""Test how coordinators are made and read, for threads and for asyncio alike."""

import gc
import inspect
import pydoc
from typing import Any

import pytest
from typing_extensions import override

from groupsdk import (
    AbstractCoordinator,
    AsyncAbstractCoordinator,
    AsyncGroupMember,
    GroupMember,
)
from groupsdk.clock import ManualClock
from groupsdk.errors import ConfigError
from groupsdk.member.events import RejoinRequested
from groupsdk.settings.config import MemberConfig
from groupsdk.types import NO_GENERATION
from tests.drivers.views import GENERATION, view
from tests.drivers.virtual import START_MS, FakeHost, User, config


class Threads(AbstractCoordinator):
    protocol_type = "work"

    @override
    def metadata(self) -> list[tuple[str, bytes]]:
        return [("v0", b"")]

    @override
    def perform_assignment(self, leader_id: str, protocol: str, members: Any) -> dict[str, bytes]:
        return {}

    @override
    def on_join_complete(self, *_: object) -> None: ...


class Asyncio(AsyncAbstractCoordinator):
    protocol_type = "work"

    @override
    async def metadata(self) -> list[tuple[str, bytes]]:
        return [("v0", b"")]

    @override
    def perform_assignment(self, leader_id: str, protocol: str, members: Any) -> dict[str, bytes]:
        return {}

    @override
    async def on_join_complete(self, *_: object) -> None: ...


KINDS: list[type[Threads | Asyncio]] = [Threads, Asyncio]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_settings_come_as_keys_keywords_or_both(kind: Any) -> None:
    for coordinator in (
        kind({"bootstrap.servers": "a:1", "group.id": "g", "session.timeout.ms": "9000"}),
        kind(bootstrap_servers="a:1", group_id="g", session_timeout_ms=9_000),
        kind({"bootstrap.servers": "a:1", "group.id": "x"}, group_id="g", session_timeout_ms=9_000),
        kind(MemberConfig(bootstrap_servers="a:1", group_id="g", session_timeout_ms=9_000)),
    ):
        config = coordinator._groupsdk_handle.config
        assert config.group_id == "g"
        assert config.session_timeout_ms == 9_000


def test_wrong_settings_of_a_coordinator_are_refused(kind: Any) -> None:
    with pytest.raises(ConfigError, match=r"did you mean group\.id"):
        kind(bootstrap_servers="a:1", groupid="g")
    with pytest.raises(ConfigError, match="not both"):
        kind(config(), group_id="g")


def test_coordinator_reads_the_state_of_its_member(kind: Any) -> None:
    clock = ManualClock(5)
    coordinator = kind(config(), clock=clock)
    assert coordinator.generation() == NO_GENERATION
    assert coordinator.generation_if_stable() is None
    assert coordinator.member_id() == ""
    coordinator._groupsdk_handle.mailbox.publish(view(handled=1))
    assert coordinator.generation() == GENERATION
    assert coordinator.generation_if_stable() == GENERATION
    assert coordinator.member_id() == "member-1"
    assert coordinator.snapshot().stable
    assert coordinator.events() == ()
    clock.advance(9_995)
    assert coordinator.generation_if_stable() is None


def test_coordinator_forwards_calls_of_any_thread_to_its_member(kind: Any) -> None:
    coordinator = kind(config(), clock=ManualClock(START_MS))
    member = coordinator._groupsdk_member
    member._groupsdk_handle.host = host = FakeHost(
        config(), ManualClock(), member._groupsdk_handle.mailbox
    )
    coordinator.request_rejoin("new metadata")
    assert host.posted == [RejoinRequested("new metadata")]
    before = member._groupsdk_handle.mailbox.version
    coordinator.wakeup()
    assert member._groupsdk_handle.mailbox.version == before + 1


def test_the_member_calls_the_coordinator_and_does_not_keep_it(kind: Any) -> None:
    coordinator = kind(config())
    assert coordinator._groupsdk_member._callbacks.on_join_complete == coordinator.on_join_complete
    host = FakeHost(config(), ManualClock(), coordinator._groupsdk_handle.mailbox)
    coordinator._groupsdk_handle.open_host = lambda *_: host
    coordinator._groupsdk_handle._start()
    gc.collect()
    gc.disable()
    try:
        del coordinator
        assert host.told_to == ["abandon"], "it refers to itself"
    finally:
        gc.enable()


def test_callbacks_that_may_be_left_out_do_nothing(kind: Any) -> None:
    coordinator = kind(config())
    assert coordinator.on_join_prepare(1, "m") is None
    assert coordinator.on_assignment_skipped("m", "v0", {}) is None
    assert coordinator.on_leave_prepare() is None


def test_the_kind_of_group_may_be_said_when_it_is_made(kind: Any) -> None:
    class Sharder(kind.__mro__[1]):  # type: ignore[misc]  # has none in the class
        metadata = kind.metadata
        perform_assignment = kind.perform_assignment
        on_join_complete = kind.on_join_complete

        def __init__(self, name: str) -> None:
            self.protocol_type = name
            super().__init__(config())

    assert Sharder("shards").protocol_type == "shards"


@pytest.mark.parametrize(
    "name", ["protocol_type", "metadata", "perform_assignment", "on_join_complete"]
)
@pytest.mark.parametrize("base", [AbstractCoordinator, AsyncAbstractCoordinator])
def test_missing_callback_is_named(base: Any, name: str) -> None:
    members = {
        each: getattr(User, each, "work")
        for each in ("protocol_type", "metadata", "perform_assignment", "on_join_complete")
    }
    del members[name]
    incomplete = type("Incomplete", (base,), members)
    with pytest.raises(TypeError, match=name):
        incomplete(config())


def test_a_subclass_that_forgets_to_call_init_is_told(kind: Any) -> None:
    class Forgetful(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            self.shards = 8

    forgetful = Forgetful()
    assert repr(forgetful) == "<Forgetful, not initialized>"
    for call in (forgetful.generation, forgetful.snapshot, forgetful.wakeup):
        with pytest.raises(
            AttributeError, match=r"Forgetful.__init__ must call super\(\).__init__"
        ):
            call()


def test_help_describes_every_method() -> None:
    for offered in (GroupMember, AsyncGroupMember, AbstractCoordinator, AsyncAbstractCoordinator):
        shown = pydoc.plain(pydoc.render_doc(offered))
        for name, method in inspect.getmembers(offered, inspect.isfunction):
            if not name.startswith("_"):
                doc = inspect.getdoc(method)
                assert doc, f"{offered.__name__}.{name}"
                assert doc.splitlines()[0] in shown, f"{offered.__name__}.{name}"


def test_its_repr_says_who_it_is(kind: Any) -> None:
    coordinator = kind(config(), clock=ManualClock(START_MS))
    assert repr(coordinator) == f"<{kind.__name__} group='group' member='' generation=-1 unjoined>"
    coordinator._groupsdk_handle.mailbox.publish(view(handled=1))
    assert "member='member-1' generation=3 stable>" in repr(coordinator)
