"""Test that what the library keeps in the objects of users' classes is not in the way of what users keep there."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groupsdk import (
    AbstractCoordinator,
    AsyncAbstractCoordinator,
    AsyncShardWorker,
    GroupMembers,
    ShardWorker,
)
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect import Connector
from groupsdk.consumer import RebalanceListener


pytestmark = pytest.mark.timeout(120)

BASES = (AbstractCoordinator, AsyncAbstractCoordinator, ShardWorker, AsyncShardWorker)
PLAUSIBLE = [
    "member",
    "members",
    "lock",
    "config",
    "settings",
    "state",
    "thread",
    "threads",
    "clock",
    "closed",
    "engine",
    "handle",
    "engine_handle",
    "host",
    "loop",
    "task",
    "tasks",
    "driver",
    "alone",
    "run",
    "drive",
    "shards",
    "shard_membership",
    "owner",
    "leases",
    "callbacks",
    "worker",
    "client",
    "queue",
    "stop",
    "session",
    "generation",
    "leader",
    "assignment",
    "group",
    "group_id",
    "started",
    "running",
    "pause",
    "timeout",
    "leave_timeout_ms",
    "besides",
    "outcome",
    "carry_out",
    "start_beside",
    "wait",
    "wake",
    "poll",
]


def own_names(base: type) -> Callable[..., Any]:
    """Return a class with attributes of its own, before and after those of the base are made."""

    def keep(mine: object) -> None:
        for name in PLAUSIBLE:
            for attribute in (f"_{name}", f"_{base.__name__}__{name}"):
                setattr(mine, attribute, object())

    def init(mine: Any, **settings: Any) -> None:
        keep(mine)
        super(made, mine).__init__(**settings)
        keep(mine)

    def assign(_: object, leader: str, protocol: str, members: GroupMembers) -> dict[str, bytes]:
        return dict.fromkeys(members, b"")

    body: dict[str, Any] = {"__init__": init, "protocol_type": "mine"}
    if "Shard" in base.__name__:
        body["shards"] = lambda _: ["a", "b"]
    else:
        body |= {
            "metadata": lambda _: {"v1": b""},
            "perform_assignment": assign,
            "on_join_complete": lambda *_: None,
        }
    made: Any = type("Mine", (base,), body)
    keep(made)
    return made  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.mark.parametrize("base", BASES)
async def test_attributes_of_any_plausible_name_are_the_users(
    base: type, broker: EmbeddedBroker, group_id: str
) -> None:
    mine = own_names(base)(bootstrap_servers=broker.bootstrap_servers, group_id=group_id)

    async def done(result: Any) -> Any:
        return await result if inspect.isawaitable(result) else result

    while not await done(mine.ensure_active_group(10.0)):
        pass
    while "Shard" in base.__name__ and not mine.leases():
        await done(mine.poll(0.1))
    mine.request_rejoin("test")
    await done(mine.poll(0.1))
    await done(mine.leave_group("test"))
    await done(mine.close())


@pytest.mark.parametrize("base", [*BASES, Connector, RebalanceListener])
def test_all_that_the_library_keeps_has_its_name(base: type) -> None:
    names = {name for each in base.__mro__[:-1] for name in vars(each) if name[:1] == "_"}
    of_python = {"_abc_impl", "_is_protocol", "_is_runtime_protocol"}
    names = {name for name in names - of_python if not name.startswith("__")}
    assert [name for name in names if not name.startswith("_groupsdk_")] == []


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("call", ["poll", "ensure_active_group", "close", "snapshot", "wakeup"])
def test_one_that_forgets_to_call_init_is_told_at_each_call(base: type, call: str) -> None:
    forgetful = own_names(base)
    forgetful.__init__ = lambda _: None  # type: ignore[method-assign, misc, assignment]

    async def do() -> None:
        result = getattr(forgetful(), call)()
        if inspect.isawaitable(result):
            await result

    with pytest.raises(AttributeError, match=r"Mine.__init__ must call super\(\).__init__"):
        asyncio.run(do())
