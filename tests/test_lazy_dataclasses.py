"""Compare dataclasses whose methods are generated on first use with those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
import sys
import threading
from collections.abc import Callable
from dataclasses import KW_ONLY, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import pytest
from typing_extensions import override

from groupsdk import lazy_dataclasses
from groupsdk.lazy_dataclasses import dataclass
from tests.support.interrupts import everywhere


T = TypeVar("T")
Decorate = Callable[..., Any]


class Kinds(NamedTuple):
    """The same classes, made by one of the decorators."""

    point: Any
    marked: Any
    derived: Any
    generic: Any
    careful: Any
    own: Any
    empty: Any
    named: Any


def kinds(dataclass: Decorate) -> Kinds:
    @dataclass(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: "int" = 2
        unit: ClassVar[str] = "cm"
        tags: tuple[str, ...] = field(default=(), kw_only=True, repr=False)

        @property
        def twice(self) -> int:
            return self.x * 2

    @dataclass(frozen=True, slots=True)
    class Marked:
        """Fields of all sorts."""

        name: str
        seen: list[int] = field(default_factory=list, compare=False, hash=False)
        _: KW_ONLY
        late: int = 0

    @dataclass(frozen=True, slots=True)
    class Derived(Point):
        """Another field after those of its base."""

        z: int = 3

    @dataclass(frozen=True, slots=True)
    class Box(Generic[T]):
        """Holds something."""

        item: T

        def __class_getitem__(cls, item: object) -> Any:
            return super().__class_getitem__(item)  # type: ignore[misc]

    @dataclass(frozen=True, slots=True)
    class Careful:
        """Looks at what it is given."""

        share: float

        def __post_init__(self) -> None:
            if not 0 <= self.share <= 1:
                raise ValueError(f"share must be from 0 to 1, not {self.share}")

    @dataclass(frozen=True, slots=True)
    class Own:
        """Has methods of its own."""

        number: int

        @override
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.number % 10 == other.number % 10

        @override
        def __repr__(self) -> str:
            return f"own {self.number}"

    @dataclass(frozen=True, slots=True)
    class Empty:
        """Has no fields."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named(Point):
        """Fields after those of its base, given by name."""

        weight: float
        label: str = "none"

    return Kinds(Point, Marked, Derived, Box, Careful, Own, Empty, Named)


BOTH: dict[str, Decorate] = {
    "ours": lazy_dataclasses._lazy_dataclass,
    "theirs": dataclasses.dataclass,
}


def outcomes(what: Callable[[Kinds], object]) -> tuple[object, object]:
    """Return what a use comes to with either decorator, in words where it raises."""

    def outcome(dataclass: Decorate) -> object:
        try:
            return what(kinds(dataclass))
        except (TypeError, ValueError, AttributeError) as error:
            return f"{type(error).__name__}: {error}"

    return outcome(BOTH["ours"]), outcome(BOTH["theirs"])


USES: dict[str, Callable[[Kinds], object]] = {
    "positions": lambda k: repr(k.point(1, 3)),
    "keywords": lambda k: repr(k.derived(x=1, z=2, tags=("a",))),
    "tags": lambda k: k.derived(1, tags=("a",)).tags,
    "too few": lambda k: k.point(),
    "too many": lambda k: k.point(1, 2, 3),
    "unknown": lambda k: k.point(1, w=2),
    "equal": lambda k: (k.point(1) == k.point(1, 2), k.point(1) == k.point(2)),
    "another class": lambda k: k.derived(1) == k.point(1),
    "not compared": lambda k: k.marked("a", [1]) == k.marked("a", [2]),
    "hash": lambda k: hash(k.point(1)) == hash(k.point(1, 2)),
    "hash of a list": lambda k: hash(k.generic([])),
    "set": lambda k: len({k.point(1), k.point(1), k.derived(1)}),
    "factory": lambda k: k.marked("a").seen is not k.marked("a").seen,
    "assign": lambda k: setattr(k.point(1), "x", 2),
    "delete": lambda k: delattr(k.derived(1), "x"),
    "no dictionary": lambda k: hasattr(k.derived(1), "__dict__"),
    "slots": lambda k: [each.__slots__ for each in (k.point, k.marked, k.derived, k.empty)],
    "property": lambda k: k.derived(4).twice,
    "constant": lambda k: k.point.unit,
    "replace": lambda k: repr(dataclasses.replace(k.derived(1, tags=("b",)), z=9)),
    "as a dictionary": lambda k: dataclasses.asdict(k.derived(1)),
    "fields": lambda k: [
        (each.name, each.default, each.kw_only, each.compare)
        for kind in k
        for each in dataclasses.fields(kind)
    ],
    "match": lambda k: [each.__match_args__ for each in k],
    "copy": lambda k: copy.copy(k.point(1)) == k.point(1),
    "deep copy": lambda k: repr(copy.deepcopy(k.marked("a", [1], late=3))),
    "signature": lambda k: [str(inspect.signature(each)) for each in k],
    "checked": lambda k: k.careful(2.0),
    "checked replace": lambda k: dataclasses.replace(k.careful(0.5), share=7.0),
    "own methods": lambda k: (k.own(1) == k.own(11), repr(k.own(4)), hash(k.own(1)) is None),
    "empty": lambda k: (repr(k.empty()), k.empty() == k.empty(), len({k.empty(), k.empty()})),
    "alias": lambda k: repr(k.generic[int](4)),
    "by name": lambda k: repr(k.named(1, weight=2.0)),
    "by name only": lambda k: k.named(1, 2, 3.0),
    "name left out": lambda k: k.named(1),
    "names": lambda k: [(each.__name__, each.__qualname__, each.__doc__) for each in k],
    "qualified methods": lambda k: k.point(1) and k.point.__init__.__qualname__,
    "parameters": lambda k: k.point.__dataclass_params__.frozen,
    "is one": lambda k: dataclasses.is_dataclass(k.point),
}


@pytest.mark.parametrize("use", USES)
def test_lazy_dataclass_behaves_as_the_standard_one(use: str) -> None:
    ours, theirs = outcomes(USES[use])
    assert ours == theirs


@lazy_dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """At the top of a module, where pickle finds it."""

    number: int
    rest: tuple[int, ...] = ()


def test_lazy_dataclass_can_be_pickled() -> None:
    sent = Sent(1, (2, 3))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        if protocol >= 2:
            assert pickle.loads(pickle.dumps(sent, protocol)) == sent


def test_no_other_attribute_can_be_set() -> None:
    # CPython 3.11 raises a TypeError about super() here
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'w'"):
        Sent(1).w = 2  # type: ignore[attr-defined]


def test_a_method_is_generated_by_its_first_use() -> None:
    point = kinds(BOTH["ours"]).point
    stub = point.__dict__["__init__"]
    assert point(1).x == 1
    assert point.__dict__["__init__"] is not stub
    compared = point.__dict__["__eq__"]
    assert point(1) == point(1)
    assert point.__dict__["__eq__"] is not compared


def test_threads_may_be_the_first_to_use_it_at_once() -> None:
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            point = kinds(BOTH["ours"]).point
            start = threading.Barrier(4)
            found: list[object] = []

            def use(point: Any, start: threading.Barrier, found: list[object]) -> None:
                start.wait()
                found.append((str(inspect.signature(point)), hash(point(1)), repr(point(1))))

            threads = [threading.Thread(target=use, args=(point, start, found)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(found) == 4
            assert len(set(found)) == 1
    finally:
        sys.setswitchinterval(interval_s)


def test_ctrl_c_in_its_first_use_is_no_other_error_and_leaves_it_usable() -> None:
    places = 0

    def run(block: Callable[[], Any]) -> None:
        @dataclass(frozen=True, slots=True)
        class Mine:
            x: int
            y: int = field(default=2)

        with block():
            Mine(1)
        assert Mine(1) == Mine(1, 2)

    for _ in everywhere(run, ("lazy_dataclasses.py", "dataclasses.py")):
        places += 1
    assert places > 50


def test_other_dataclasses_are_refused() -> None:
    with pytest.raises(TypeError, match="frozen dataclasses with slots"):
        lazy_dataclasses._lazy_dataclass(frozen=True, slots=False)
