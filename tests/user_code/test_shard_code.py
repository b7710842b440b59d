"""Hold the table of docs/user-code.md for shard workers, with threads and with asyncio."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.shards import ShardError
from tests.shards.crew import KINDS, SHARDS, Driven, Recorder, Worker, await_shared, tell
from tests.support.workers import eventually
from tests.user_code.misdeeds import DEEDS, HANG, SPIN, WRONG, Misdeeds, error_of


pytestmark = pytest.mark.timeout(300)
FEWER = SHARDS[1:]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(params=KINDS, ids=["threads", "asyncio"])
def kind(request: pytest.FixtureRequest) -> Callable[..., Worker]:
    made: Callable[..., Worker] = request.param
    return made


class Odd:
    """A driven worker whose callback misbehaves once."""

    def __init__(self, driven: Driven, misdeeds: Misdeeds) -> None:
        self.driven = driven
        self.recorder = driven.recorder
        self._misdeeds = misdeeds

    def arm(self, callback: str, deed: str) -> None:
        """Have the next call of a callback misbehave."""
        self._misdeeds.over.clear()
        self._misdeeds.begun[deed].clear()
        self.driven.errors.clear()

        def once(_: Any) -> Any:
            del self.recorder.hooks[callback]
            done = self._misdeeds.do(deed)
            return self.recorder.list if callback == "shards" and done is None else done

        self.recorder.hooks[callback] = once

    def change(self, callback: str) -> None:
        """Have something happen by which a callback is called."""
        if callback in ("gained", "lost"):
            self.driven.leave.set()
            self.driven.worker.wakeup()
        else:
            self.recorder.list = FEWER if self.recorder.list == SHARDS else SHARDS
            self.driven.worker.request_refresh()

    def list_all(self) -> None:
        """Have it own all shards, so that `change` takes one away."""
        self.recorder.list = SHARDS
        self.driven.worker.request_refresh()
        await_shared(self.driven)

    def has_raised(self, deed: str) -> None:
        """Wait until poll has raised what a deed makes of it."""
        expected = error_of(deed)
        eventually(
            lambda: any(isinstance(error, expected) for error in self.driven.errors),
            lambda: f"{deed}: {tell(self.driven)}",
        )

    def beats(self) -> None:
        """Wait until the worker has heartbeat a few times more."""
        before = self.driven.worker.metrics()["heartbeat-total"]
        eventually(lambda: self.driven.worker.metrics()["heartbeat-total"] > before + 2)


@pytest.fixture
def odd(
    broker: EmbeddedBroker, misdeeds: Misdeeds, kind: Callable[..., Worker], group_id: str
) -> Iterator[Odd]:
    worker = kind(
        Recorder(),
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group_id,
        heartbeat_interval_ms=20,
        release_timeout_ms=500,
    )
    with Driven(worker) as driven:
        await_shared(driven)
        yield Odd(driven, misdeeds)
        misdeeds.over.set()


@pytest.mark.parametrize("callback", ["shards", "gained"])
def test_misbehaving_shards_and_gains_stay_within_bounds(
    odd: Odd, misdeeds: Misdeeds, callback: str
) -> None:
    for deed in DEEDS:
        if (callback, deed) == ("shards", WRONG):
            continue  # a generator is a list like any other
        odd.arm(callback, deed)
        odd.change(callback)
        if deed in (HANG, SPIN):
            misdeeds.await_begun(deed)
            odd.beats()
            misdeeds.over.set()
        else:
            odd.has_raised(deed)
        await_shared(odd.driven, shards=odd.recorder.list)


def test_result_that_is_not_a_list_of_shards_is_an_error_that_says_so(odd: Odd) -> None:
    for wrong in (3, "shard-1", [""], [3], ["a", "a"], None, {"a": 1}.items()):
        odd.driven.errors.clear()
        odd.recorder.hooks["shards"] = lambda _: wrong  # noqa: B023
        odd.driven.worker.request_refresh()
        eventually(lambda: any(isinstance(error, ShardError) for error in odd.driven.errors))
        assert sorted(odd.driven.names) == sorted(SHARDS)
        del odd.recorder.hooks["shards"]


def test_misbehaving_losses_stay_within_bounds(odd: Odd, misdeeds: Misdeeds) -> None:
    """A release that hangs makes the worker lose everything."""
    for deed in DEEDS:
        odd.list_all()
        odd.arm("released", HANG)
        odd.arm("lost", deed)
        odd.change("released")
        if deed in (HANG, SPIN):
            misdeeds.await_begun(deed)
            odd.beats()
        else:
            odd.has_raised(deed)
        misdeeds.over.set()
        await_shared(odd.driven, shards=odd.recorder.list)


def test_misbehaving_releases_stay_within_bounds(odd: Odd, misdeeds: Misdeeds) -> None:
    for deed in DEEDS:
        odd.list_all()
        odd.arm("released", deed)
        odd.recorder.calls.clear()
        odd.change("released")
        if deed in (HANG, SPIN):
            misdeeds.await_begun(deed)
            eventually(lambda: odd.recorder.told("lost"))
            assert odd.driven.worker.leases() == ()
            misdeeds.over.set()
        else:
            odd.has_raised(deed)
            assert odd.recorder.told("lost") == {}
        await_shared(odd.driven, shards=FEWER)


def test_misbehaving_standbys_stay_within_bounds(
    broker: EmbeddedBroker, misdeeds: Misdeeds, kind: Callable[..., Worker], group_id: str
) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "group_id": group_id,
        "standbys": 1,
    }
    with Driven(kind(Recorder(), **settings)) as owner:
        await_shared(owner)
        for deed in DEEDS:
            stands = Driven(kind(Recorder(), **settings))
            odd = Odd(stands, misdeeds)
            odd.arm("standby gained", deed)
            with stands:
                if deed in (HANG, SPIN):
                    misdeeds.await_begun(deed)
                    await_shared(owner, stands)
                    misdeeds.over.set()
                else:
                    odd.has_raised(deed)
                eventually(partial(_ready, stands), partial(tell, owner, stands))
                odd.arm("standby released", deed)
                if deed in (HANG, SPIN):
                    misdeeds.over.set()  # `close` waits for it no longer than for a release
            await_shared(owner)


def _ready(stands: Driven) -> bool:
    standbys = stands.worker.shard_status().standbys
    return len(standbys) == len(SHARDS) // 2 and all(standbys.values())


class OddStore:
    """Misbehaves once."""

    def __init__(self, misdeeds: Misdeeds, deed: str) -> None:
        self._misdeeds = misdeeds
        self._deed: str | None = deed

    def advance(self, group_id: str, at_least: int) -> int:
        deed, self._deed = self._deed, None
        done = self._misdeeds.do(deed)
        return at_least if done is None else done


def test_misbehaving_epoch_stores_stay_within_bounds(
    broker: EmbeddedBroker, misdeeds: Misdeeds, kind: Callable[..., Worker], group_id: str
) -> None:
    for deed in DEEDS:
        worker = kind(
            Recorder(),
            bootstrap_servers=broker.bootstrap_servers,
            group_id=f"{group_id}-{deed}",
            epoch_store=OddStore(misdeeds, deed),
        )
        misdeeds.over.clear()
        with Driven(worker) as driven:
            if deed in (HANG, SPIN):
                misdeeds.await_begun(deed)
                assert driven.names == []
                misdeeds.over.set()
            else:
                Odd(driven, misdeeds).has_raised(deed)
            await_shared(driven)
