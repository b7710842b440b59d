"""Record the same work with and without a change: `python -m tests.history.recording.with_and_without DIRECTORY [GROUP ...]`.

Starts a real broker twice and plays the same scenes on it, at first without what the history advises and then with it.
DIRECTORY gets `without` and `with`, each with the segments that the broker wrote. `tests/history/test_with_and_without.py` holds what the
advice says of the first ones to what the second ones show.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from groupsdk.testing import LocalKafka
from tests.history.recording.peers import Peer, Settings, start
from tests.history.recording.record import keep, settle, sleep, together, topics_with_records


SESSION_MS: Final = 4_000
LONG_MS: Final = 45_000
_FROZEN_S: Final = 9.0
_DELAYS_MS: Final = {"without": 0, "with": 6_000}
_WORK_S: Final = 2.5


@dataclass
class Crew:
    """One group, which does its work with the change or without it."""

    group: str
    servers: str
    changed: bool
    there: dict[str, Peer] = field(default_factory=dict)
    session_ms: int = SESSION_MS
    assignor: str = "range"
    library: str = "librdkafka"
    static: bool = False
    slow: dict[str, float] = field(default_factory=dict)
    """Members that work for so many seconds on what they have read."""

    def join(self, name: str, *, settled: bool = True) -> None:
        """Let a member come."""
        settings = Settings(
            self.servers,
            self.group,
            name,
            ("orders",),
            assignor=self.assignor,
            session_ms=self.session_ms,
            instance=f"i-{name}" if self.static else None,
            pause_s=self.slow.get(name, 0.0),
        )
        self.there[name] = start(self.library, settings)
        if settled:
            self.settle()

    def leave(self, name: str, *, settled: bool = True) -> None:
        """Let a member stop; a static one does not say so."""
        self.there.pop(name).close()
        if settled and not self.static:
            self.settle()

    def replace(self, name: str, away_s: float) -> None:
        """Let a member stop, and come back after so many seconds, whatever the group does."""
        self.leave(name, settled=False)
        sleep(away_s)
        self.join(name, settled=False)
        sleep(2 * _WORK_S)

    def kill(self, name: str) -> None:
        """Kill a member, which never comes back."""
        self.there.pop(name).kill()

    def restart(self, name: str) -> None:
        """Let a member stop, and come back."""
        self.leave(name)
        self.join(name)

    def settle(self) -> None:
        """Wait until the group has the members that it should have, and let them work a little."""
        settle(self.servers, self.group, len(self.there))
        sleep(_WORK_S)


def static_membership(crew: Crew) -> None:
    """Restart each of three members twice."""
    crew.static = crew.changed
    for name in ("a", "b", "c"):
        crew.join(name)
    for name in ("a", "b", "c", "a", "b", "c"):
        crew.restart(name)


def longer_session(crew: Crew) -> None:
    """Stop a member of three for nine seconds, four times."""
    crew.session_ms = LONG_MS if crew.changed else SESSION_MS
    for name in ("a", "b", "c"):
        crew.join(name)
    for name in ("a", "b", "a", "b"):
        peer = crew.there[name]
        peer.freeze()
        sleep(_FROZEN_S)
        peer.thaw()
        crew.settle()


def initial_delay(crew: Crew) -> None:
    """Start five members three seconds apart; the broker waits for them, or does not."""
    for name in ("a", "b", "c", "d", "e"):
        crew.join(name, settled=False)
        sleep(3)
    crew.settle()


def restart_together(crew: Crew) -> None:
    """Deploy four members, twice: all at once, or one after the other."""
    names = ("a", "b", "c", "d")
    for name in names:
        crew.join(name)
    for _ in range(2):
        if not crew.changed:
            for name in names:
                crew.restart(name)
            # the next deployment is another day
            continue
        for name in names:
            crew.leave(name, settled=False)
        crew.settle()
        for name in names:
            crew.join(name, settled=False)
        crew.settle()


def come_and_go(crew: Crew) -> None:
    """Let members come and go beside two that stay."""
    for name in ("m", "n", "a", "z"):
        crew.join(name)
    for name in ("a", "z", "a"):
        crew.leave(name)
        crew.join(f"{name}-again")
        crew.leave(f"{name}-again")
        crew.join(name)


def other_assignor(crew: Crew) -> None:
    """Do so with `sticky`, or with `range`."""
    crew.library = "kafka-python"
    crew.assignor = "sticky" if crew.changed else "range"
    come_and_go(crew)


def cooperative(crew: Crew) -> None:
    """Do so with the cooperative protocol, or with `range`."""
    crew.assignor = "cooperative-sticky" if crew.changed else "range"
    come_and_go(crew)


SCENES: Final[dict[str, Callable[[Crew], None]]] = {
    scene.__name__.replace("_", "-"): scene
    for scene in (
        *(static_membership, longer_session, initial_delay),
        *(restart_together, other_assignor, cooperative),
    )
}
"""The scenes by their groups, which are named as the advice."""


def static_quick(crew: Crew) -> None:
    """Restart members that are back after a second, beside one that takes its time to rejoin; each change, without ids, stops all."""
    crew.static, crew.session_ms = crew.changed, 10_000
    crew.slow = {"slow": 4.5}
    for name in ("slow", "a", "b"):
        crew.join(name)
    for name in ("a", "b", "a", "b", "a", "b"):
        crew.replace(name, 1)


def static_long(crew: Crew) -> None:
    """Restart members that are back after eight seconds; with ids nobody has their partitions meanwhile."""
    crew.static, crew.session_ms = crew.changed, 10_000
    for name in ("a", "b", "c"):
        crew.join(name)
    for name in ("a", "b", "c", "a"):
        crew.replace(name, 8)


def static_scaled(crew: Crew) -> None:
    """Restart two members, which are back after a second, and let three go for good, as an autoscaler does."""
    crew.static, crew.session_ms = crew.changed, 10_000
    for name in ("a", "b", "c", "d", "e"):
        crew.join(name)
    for name in ("a", "b"):
        crew.replace(name, 1)
    for name in ("c", "d", "e"):
        crew.leave(name, settled=False)
        sleep(12)


def session_pauses(crew: Crew) -> None:
    """Stop members for nine seconds, beside one that takes its time to rejoin; with the short session each pause is two rebalances."""
    crew.session_ms = 30_000 if crew.changed else SESSION_MS
    crew.slow = {"slow": 4.5}
    for name in ("slow", "a", "b"):
        crew.join(name)
    for name in ("a", "b", "a", "b"):
        peer = crew.there[name]
        peer.freeze()
        sleep(_FROZEN_S)
        peer.thaw()
        sleep(10)


def session_crashes(crew: Crew) -> None:
    """Stop two members for five seconds, and kill three that never come back; a longer session keeps their partitions from others."""
    crew.session_ms = 10_000 if crew.changed else SESSION_MS
    for name in ("a", "b", "c", "d", "e"):
        crew.join(name)
    for name in ("a", "b"):
        peer = crew.there[name]
        peer.freeze()
        sleep(5)
        peer.thaw()
        sleep(8)
    for name in ("c", "d", "e"):
        crew.kill(name)
        sleep(14)


def deployed(crew: Crew) -> None:
    """Deploy three members, each away for a second: all at once, or one after the other, beside one that takes its time to rejoin."""
    crew.session_ms = 10_000
    names = ("a", "b", "c")
    crew.slow = {"slow": 4.5}
    for name in ("slow", *names):
        crew.join(name)
    if not crew.changed:
        for name in names:
            crew.replace(name, 1)
        return
    for name in names:
        crew.leave(name, settled=False)
    sleep(1)
    for name in names:
        crew.join(name, settled=False)
    sleep(4 * _WORK_S)


def cooperative_slow(crew: Crew) -> None:
    """Let members come and go beside one that takes its time to rejoin: with `range` all wait for it."""
    crew.assignor = "cooperative-sticky" if crew.changed else "range"
    crew.session_ms = 10_000
    crew.slow = {"slow": 4.5}
    for name in ("slow", "a", "b"):
        crew.join(name)
    for name in ("a", "b", "a"):
        crew.replace(name, 6)


PRICED: Final[dict[str, tuple[str, Callable[[Crew], None]]]] = {
    "static-quick": ("static_membership", static_quick),
    "static-long": ("static_membership", static_long),
    "static-scaled": ("static_membership", static_scaled),
    "session-pauses": ("longer_session", session_pauses),
    "session-crashes": ("longer_session", session_crashes),
    "deployed": ("restart_together", deployed),
    "cooperative-slow": ("cooperative", cooperative_slow),
}
"""Scenes by their groups, with the advice whose price they show: their members work and are away for as long either way."""


def _play(scene: Callable[[Crew], None], crew: Crew) -> None:
    try:
        scene(crew)
    finally:
        for peer in crew.there.values():
            peer.close()


def record(out: Path, way: str, groups: list[str]) -> None:
    """Make one of the two logs."""
    properties = {
        "offsets.topic.num.partitions": "2",
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": str(_DELAYS_MS[way]),
    }
    with LocalKafka(properties=properties, data_dir=out / "kafka") as kafka:
        servers = kafka.bootstrap_servers
        scenes = SCENES | {group: scene for group, (_, scene) in PRICED.items()}
        crews = [Crew(each, servers, way == "with") for each in groups]
        with topics_with_records(servers):
            together(partial(_play, scenes[each.group], each) for each in crews)
    keep(out / "kafka", out / "segments")


def main() -> None:
    """Take the arguments."""
    out, *groups = sys.argv[1:]
    for way in _DELAYS_MS:
        place = Path(out) / way
        place.mkdir(parents=True)
        record(place, way, groups or list(SCENES))


if __name__ == "__main__":
    main()
