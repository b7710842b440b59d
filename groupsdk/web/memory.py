"""Remember the recent past of each group that is watched: lag, states, rebalances. Pure."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from groupsdk.admin.watching import ClusterView, Rebalance


STEP_MS: Final = 10_000
"""The time between two points of a group's lag."""
POINTS: Final = 60
"""The number of points kept: ten minutes."""
_HOUR_MS: Final = 3_600_000
_COUNT_STEP_MS: Final = 60_000
_STATES_MS: Final = 15 * 60_000
_MAX_STATES: Final = 500
_MAX_REBALANCES: Final = 50
"""So many of the last rebalances of a group are kept."""


@dataclass(slots=True)
class GroupMemory:
    """The recent past of one group."""

    lags: deque[int | None] = field(default_factory=lambda: deque(maxlen=POINTS))
    """The lag every `STEP_MS`, the newest last; None if it was unknown."""
    states: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=_MAX_STATES))
    """The states of the last minutes, with the times at which they were first seen."""
    rebalances: deque[Rebalance] = field(default_factory=lambda: deque(maxlen=_MAX_REBALANCES))
    """The rebalances that ended, the newest last."""
    counted: deque[tuple[int, int]] = field(default_factory=deque)
    """Times, a minute apart, with the number of rebalances that had ended by then."""
    ended: int = 0

    def rebalances_of_last_hour(self) -> int:
        """Return how many rebalances ended in the last hour, or since watching began."""
        return self.ended - (self.counted[0][1] if self.counted else 0)


class PageMemory:
    """Remembers every group of a cluster, a bounded amount of each. Belongs to one thread at a time."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupMemory] = {}
        self.began_ms: int | None = None
        """When watching began."""
        self._step = -1

    def note(self, view: ClusterView, lags: Mapping[str, int | None]) -> None:
        """Take the next look at the cluster, and the lag of each group; groups that are gone are forgotten."""
        if self.began_ms is None:
            self.began_ms = view.at_ms
        step, before = view.at_ms // STEP_MS, self._step
        self._step = step
        kept = {}
        for watched in view.groups:
            group_id = watched.description.group_id
            memory = self.groups.get(group_id) or GroupMemory()
            _note_lag(memory, lags.get(group_id), 1 if before < 0 else step - before)
            _note_state(memory, view.at_ms, watched.description.state)
            _count(memory, view.at_ms, view.ended.get(group_id, 0))
            kept[group_id] = memory
        for rebalance in view.just_ended:
            if rebalance.group_id in kept:
                kept[rebalance.group_id].rebalances.append(rebalance)
        self.groups = kept

    def lags(self) -> Mapping[str, tuple[int | None, ...]]:
        """Return the lag of each group over the last minutes, a point each `STEP_MS`, the newest last."""
        return {group_id: tuple(each.lags) for group_id, each in self.groups.items()}


def _note_lag(memory: GroupMemory, lag: int | None, steps: int) -> None:
    if not memory.lags:
        memory.lags.append(lag)
    elif steps <= 0:
        memory.lags[-1] = lag
    else:
        # between two looks the last known lag stands
        memory.lags.extend([memory.lags[-1]] * min(steps - 1, POINTS))
        memory.lags.append(lag)


def _note_state(memory: GroupMemory, now_ms: int, state: str) -> None:
    states = memory.states
    if not states or states[-1][1] != state:
        states.append((now_ms, state))
    while len(states) > 1 and states[1][0] < now_ms - _STATES_MS:
        states.popleft()


def _count(memory: GroupMemory, now_ms: int, ended: int) -> None:
    if ended < memory.ended:  # counted from zero again
        memory.counted.clear()
    if not memory.counted or now_ms - memory.counted[-1][0] >= _COUNT_STEP_MS:
        memory.counted.append((now_ms, ended if memory.counted else 0))
    memory.ended = ended
    while len(memory.counted) > 1 and memory.counted[1][0] <= now_ms - _HOUR_MS:
        memory.counted.popleft()
