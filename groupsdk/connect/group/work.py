"""The work that workers share: connectors and tasks, their weights, and their standbys.

The group's protocol knows nothing of standbys, so its bytes stay Connect's. The leader decides about them after
each round, from what it gave to whom, and says so in one record of the status topic, which Kafka Connect's own
workers pass over. Members that cannot run standbys ignore it too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.limits import MAX_INT64
from groupsdk.utf16 import utf16_key, utf16_sorted
from groupsdk.wire.connect_protocol import ConnectorTaskId


@dataclass(frozen=True, slots=True)
class Work:
    """Connectors and tasks, each in an order that its creator chose."""

    connectors: Sequence[str] = ()
    tasks: Sequence[ConnectorTaskId] = ()

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def __len__(self) -> int:
        return len(self.connectors) + len(self.tasks)

    def minus(self, other: "Work") -> "Work":
        connectors, tasks = set(other.connectors), set(other.tasks)
        return Work(
            tuple(each for each in self.connectors if each not in connectors),
            tuple(each for each in self.tasks if each not in tasks),
        )

    def plus(self, other: "Work") -> "Work":
        """Return this, followed by what only `other` contains."""
        return Work(
            tuple(dict.fromkeys((*self.connectors, *other.connectors))),
            tuple(dict.fromkeys((*self.tasks, *other.tasks))),
        )


NO_WORK: Final = Work()


@dataclass(frozen=True, slots=True)
class ClusterAssignment:
    """The result of a round of an assignor, by member id: assigned and revoked work."""

    assigned: Mapping[str, Work]
    """The work that each member gets in addition; with the eager assignor, all of its work."""
    revoked: Mapping[str, Work]
    """The work that each member is to give up; members that give nothing up are left out."""
    held: Mapping[str, Work]
    """The work of each member after the round."""
    delay_ms: int = 0
    """In how many milliseconds all are to join again; 0 for not at all."""


def tasks_sorted(tasks: Iterable[ConnectorTaskId]) -> list[ConnectorTaskId]:
    """Sort as Kafka does: connectors by UTF-16 code units, then by number."""
    listed = list(tasks)
    plain = all(map(str.isascii, {name for name, _ in listed}))
    return sorted(
        listed, key=None if plain else lambda each: (utf16_key(each.connector), each.task)
    )


WEIGHT_KEY: Final = "task.weight"
"""In a task's configuration its weight; in a connector's, that of its tasks which have none of their own."""
ONE: Final = 1_000
"""A weight of 1 as it is counted: in thousandths, so that sums are exact."""
LEAST: Final = 0.001
GREATEST: Final = 1_000_000


def weight_of(config: Mapping[str, str]) -> int | None:
    """Return the weight in a configuration, in thousandths; None if there is none.

    Raises ConnectorConfigError if it is not a number from 0.001 to 1,000,000.
    """
    text = config.get(WEIGHT_KEY)
    return None if text is None else counted(text)


def counted(weight: object) -> int:
    """Return a weight in thousandths, rounded."""
    try:
        number = float(weight) if isinstance(weight, str | int | float) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or isinstance(weight, bool) or not LEAST <= number <= GREATEST:
        raise ConnectorConfigError(
            WEIGHT_KEY, f"must be a number from {LEAST} to {GREATEST:,}, not {weight!r}"
        )
    return round(number * ONE)


REPLICAS_KEY: Final = "standby.replicas"
"""In a connector's configuration: how many other workers keep each of its tasks warm."""
STANDBYS_KEY: Final = "groupsdk-standbys"
MAX_REPLICAS: Final = 10

Standbys = Mapping[ConnectorTaskId, Sequence[str]]
"""The ids of the members that keep each task warm, the best first."""


@dataclass(frozen=True, slots=True)
class StandbyRecord:
    generation: int = -1
    """The leader's fencing token; the greater one is right."""
    standbys: Standbys = field(default_factory=dict)

    def value(self) -> dict[str, Any]:
        """Return the stored form; member ids, which are long, appear once."""
        members = utf16_sorted({each for ids in self.standbys.values() for each in ids})
        places = {member: place for place, member in enumerate(members)}
        connectors: dict[str, dict[str, list[int]]] = {}
        for task, ids in self.standbys.items():
            connectors.setdefault(task.connector, {})[str(task.task)] = [places[m] for m in ids]
        return {"generation": self.generation, "members": members, "tasks": connectors}

    @classmethod
    def of(cls, value: object) -> "StandbyRecord | None":
        try:
            return cls._read(value) if isinstance(value, Mapping) else None
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            return None

    @classmethod
    def _read(cls, value: Mapping[str, Any]) -> "StandbyRecord":
        generation, members = value["generation"], [str(each) for each in value["members"]]
        # a greater one than any leader's would stand for ever
        if not isinstance(generation, int) or generation > MAX_INT64:
            raise TypeError("generation")
        standbys: dict[ConnectorTaskId, tuple[str, ...]] = {}
        for name, tasks in value["tasks"].items():
            for number, places in tasks.items():
                if any(each < 0 for each in places[:MAX_REPLICAS]):
                    raise ValueError("members")
                ids = tuple(members[each] for each in places[:MAX_REPLICAS])
                standbys[ConnectorTaskId(str(name), int(number))] = ids
        return cls(generation, standbys)


def replicas_of(config: Mapping[str, str]) -> int:
    """Return the number of standbys for each of a connector's tasks, from 0, the default, to `MAX_REPLICAS`."""
    text = config.get(REPLICAS_KEY, "0")
    if not (text.isdecimal() and text.isascii() and len(text) < 4) or int(text) > MAX_REPLICAS:
        raise ConnectorConfigError(
            REPLICAS_KEY, f"must be an integer from 0 to {MAX_REPLICAS}, not {text!r}"
        )
    return int(text)


def choose_standbys(
    held: Mapping[str, Work], replicas: Mapping[str, int], before: Standbys
) -> dict[ConnectorTaskId, tuple[str, ...]]:
    """Choose the members for standbys: never a task's owner, balanced, and the ones `before` if possible.

    A connector's tasks get `replicas` each, if there are as many members. A task without an owner keeps those that are still members.
    """
    owners = {task: member for member, work in held.items() for task in work.tasks}
    most = max(0, len(held) - 1)
    wanted = {
        task: min(replicas.get(task.connector, 0), most)
        for task in tasks_sorted({*owners, *before})
    }
    chosen: dict[ConnectorTaskId, list[str]] = {}
    loads = dict.fromkeys(utf16_sorted(held), 0)
    for task, count in wanted.items():
        there = [m for m in dict.fromkeys(before.get(task, ())) if m in held]
        kept = [member for member in there if member != owners.get(task)][:count]
        if kept or (count and task in owners):
            chosen[task] = kept
            for member in kept:
                loads[member] += 1
    # where an owner's tasks go when it dies: to as many members as possible
    pair_counts = Counter((owners.get(task), each) for task, ids in chosen.items() for each in ids)
    for task, kept in chosen.items():
        owner = owners.get(task)
        while owner is not None and len(kept) < wanted[task]:
            able = [each for each in loads if each != owner and each not in kept]
            best = min(
                able, key=lambda each: (pair_counts[owner, each], loads[each])
            )  # used at once
            kept.append(best)
            loads[best] += 1
            pair_counts[owner, best] += 1
    _level(chosen, loads, owners)
    return {task: tuple(kept) for task, kept in chosen.items()}


def _level(
    chosen: dict[ConnectorTaskId, list[str]],
    loads: dict[str, int],
    owners: Mapping[ConnectorTaskId, str],
) -> None:
    """Move standbys from members with many to members with at least two fewer.

    Ends, as each move lowers the sum of the squares of the loads.
    """
    by_member: dict[str, list[ConnectorTaskId]] = {member: [] for member in loads}
    for task, ids in chosen.items():
        for member in ids:
            by_member[member].append(task)
    while (move := _next_move(chosen, by_member, owners)) is not None:
        task, giver, taker = move
        chosen[task][chosen[task].index(giver)] = taker
        by_member[giver].remove(task)
        by_member[taker].append(task)


def _next_move(
    chosen: Mapping[ConnectorTaskId, Sequence[str]],
    by_member: Mapping[str, Sequence[ConnectorTaskId]],
    owners: Mapping[ConnectorTaskId, str],
) -> tuple[ConnectorTaskId, str, str] | None:
    ascending = sorted(by_member, key=lambda each: len(by_member[each]))
    for giver in reversed(ascending):
        for taker in ascending:
            if len(by_member[giver]) - len(by_member[taker]) < 2:
                break
            for task in by_member[giver]:
                if owners.get(task) != taker and taker not in chosen[task]:
                    return task, giver, taker
    return None
