"""Test how assignors are found."""

import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from assignors.range import RangeAssignor
from assignors.registry import (
    ENTRY_POINT_GROUP,
    known_assignors,
    resolve,
)
from groupsdk.assignment import AssignorLike, PartitionAssignor, resolve_assignor
from groupsdk.errors import ConfigError


PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
SHIPPED = ["cooperative-sticky", "lag", "range", "roundrobin", "sticky", "weighted"]


class Mine(RangeAssignor):
    """An assignor of somebody else."""

    name = "mine"


class NeedsMore(RangeAssignor):
    """An assignor that cannot be created without arguments."""

    def __init__(self, more: int) -> None:
        self.more = more


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """Stands for what installed packages declare; the test adds to it."""
    points: list[EntryPoint] = []

    def entry_points(*, group: str, name: str | None = None) -> EntryPoints:
        found = EntryPoints(points).select(group=group)
        return found if name is None else found.select(name=name)

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    module = ModuleType("somebody_elses")
    module.Mine = Mine  # type: ignore[attr-defined] # what a module that is imported would have
    monkeypatch.setitem(sys.modules, "somebody_elses", module)
    return points


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_ones_by_name(name: str) -> None:
    assert resolve(name).name == name
    assert resolve(name) is not resolve(name)


def test_shipped_ones_are_declared_for_other_programs_too() -> None:
    # read from the project, as the tests may run where it was installed before a name was added
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    places = project["entry-points"][ENTRY_POINT_GROUP]

    assert sorted(places) == SHIPPED
    for name, place in places.items():
        assert type(resolve(name)) is type(resolve(place))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("org.apache.kafka.clients.consumer.RangeAssignor", "range"),
        ("org.apache.kafka.clients.consumer.RoundRobinAssignor", "roundrobin"),
        ("org.apache.kafka.clients.consumer.StickyAssignor", "sticky"),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "cooperative-sticky"),
    ],
)
def test_by_the_names_of_kafkas_classes(name: str, expected: str) -> None:
    assert resolve(name).name == expected


def test_by_class_and_by_anything_that_makes_one() -> None:
    assert isinstance(resolve(Mine), Mine)
    assert isinstance(resolve(lambda: Mine()), Mine)


def test_an_instance_comes_back_as_it_is() -> None:
    mine = Mine()

    assert resolve(mine) is mine


def test_assignor_named_by_module_and_class_is_resolved() -> None:
    assert isinstance(resolve("assignors.range:RangeAssignor"), RangeAssignor)


def test_assignor_declared_by_a_package_is_resolved_and_listed(declared: list[EntryPoint]) -> None:
    # with an extra, as entry points may have
    declared.append(EntryPoint("mine", "somebody_elses:Mine [more]", ENTRY_POINT_GROUP))

    assert isinstance(resolve("mine"), Mine)
    assert known_assignors() == sorted([*SHIPPED, "mine"])


def test_a_package_cannot_replace_a_shipped_one(declared: list[EntryPoint]) -> None:
    declared.append(EntryPoint("range", "somebody_elses:Mine", ENTRY_POINT_GROUP))

    assert resolve("range").name == "range"
    assert known_assignors() == SHIPPED


def test_a_name_that_two_packages_declare(declared: list[EntryPoint]) -> None:
    declared.append(EntryPoint("mine", "somebody_elses:Mine", ENTRY_POINT_GROUP))
    declared.append(EntryPoint("mine", "another:Mine", ENTRY_POINT_GROUP))

    with pytest.raises(ConfigError, match="'mine' is declared more than once: another:Mine, some"):
        resolve("mine")


@pytest.mark.parametrize(
    ("assignor", "problem"),
    [
        (
            "rnage",
            r"no assignor 'rnage' \(did you mean 'range'\?\): known are cooperative-sticky, ",
        ),
        (
            "",
            r"no assignor '': known are cooperative-sticky, lag, range, roundrobin, sticky, weighted",
        ),
        ("gone:Mine", "assignor 'gone:Mine' cannot be imported from gone:Mine: No module"),
        ("assignors.range:Gone", "assignor 'assignors.range:Gone' cannot be imported"),
        (":", "assignor ':' cannot be imported"),
        (
            "collections:Counter",
            r"'collections:Counter' is not an assignor: Counter\(\) lacks name",
        ),
        (NeedsMore, "assignor NeedsMore cannot be created without arguments: .*'more'"),
        (dict, "dict is not an assignor: {} lacks name, version"),
        (
            7,
            "7 is not an assignor: it lacks name, version, supported_protocols, subscription_user_data",
        ),
    ],
)
def test_unknown_assignor_is_refused_with_the_reason(assignor: object, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        resolve(cast("AssignorLike", assignor))


class Wrapped:
    """An assignor that hands on to another what it does not do itself."""

    def __init__(self) -> None:
        self._inner = resolve("range")

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@pytest.mark.parametrize("resolver", [resolve, resolve_assignor])
def test_assignor_may_hand_on_to_another(resolver: Callable[[Any], PartitionAssignor]) -> None:
    """On every Python: `isinstance` with a protocol looks at no `__getattr__` from 3.12 on."""
    wrapped: Any = Wrapped()
    assert resolver(wrapped) is wrapped
    assert resolver(Wrapped).name == "range"
