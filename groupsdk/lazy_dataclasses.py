"""Frozen dataclasses with slots whose methods are generated when they are first used: `dataclass`.

The standard library's decorator compiles six functions for each class, which takes 0.4 ms. The engine of a member has
some 120 such classes (messages, events, actions), so that half of the CPU time of its import went into methods of
which a member uses few. Type checkers see `dataclasses.dataclass`.
"""

import dataclasses
import sys
from collections.abc import Callable
from contextlib import suppress
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, Final, TypeVar


T = TypeVar("T")

_FIELDS: Final = "__dataclass_fields__"
_COMPARED: Final = ("__repr__", "__eq__", "__hash__")


def _lazy_dataclass(
    *, frozen: bool, slots: bool, kw_only: bool = False
) -> Callable[[type[T]], type[T]]:
    """Return a decorator that does what ``dataclasses.dataclass(frozen=True, slots=True)`` does, method by method.

    `fields`, `replace`, `asdict`, inheritance, pickling, `match` and signatures work as they do there.
    """
    if not (frozen and slots):
        raise TypeError("only frozen dataclasses with slots: use the standard library's for others")

    def decorate(cls: type[T]) -> type[T]:
        given = {name for name in ("__init__", *_COMPARED) if cls.__dict__.get(name) is not None}
        made = _with_slots(cls, kw_only=kw_only)
        _freeze(made)
        _put_off(made, [name for name in ("__init__", *_COMPARED) if name not in given])
        return made  # type: ignore[no-any-return]  # the same class, made again with slots

    return decorate


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _lazy_dataclass


def _with_slots(cls: Any, *, kw_only: bool) -> Any:
    """Return the class again, with slots and what `dataclasses` reads from a class, but without methods."""
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        fields |= {each.name: each for each in base.__dict__.get(_FIELDS, {}).values()}
    types = {name: each.type for name, each in fields.items()} | get_annotations(cls)
    defaults = {name: cls.__dict__[name] for name in types if name in cls.__dict__}
    read: Any = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(
        _plain_class(cls, types, fields | defaults)
    )
    names = tuple(each.name for each in dataclasses.fields(read))
    parameters = read.__dataclass_params__
    parameters.init = parameters.repr = parameters.eq = parameters.frozen = True
    inherited = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
    body = {k: v for k, v in cls.__dict__.items() if k not in {*names, "__dict__", "__weakref__"}}
    body |= {
        name: getattr(read, name)
        for name in (_FIELDS, "__dataclass_params__", "__match_args__", "__replace__")
        if name not in body and hasattr(read, name)
    }
    body["__slots__"] = tuple(name for name in names if name not in inherited)
    body["__qualname__"] = cls.__qualname__
    made = type(cls)(cls.__name__, cls.__bases__, body)
    if sys.version_info >= (3, 14):
        _set_class_of_super(made)
    return made


def _set_class_of_super(made: Any) -> None:
    """Have `super()` in the methods mean the class that was made again, as in the standard library from Python 3.14 on."""
    for member in vars(made).values():
        function = getattr(member, "__func__", member)
        names = getattr(getattr(function, "__code__", None), "co_freevars", ())
        if "__class__" in names:
            function.__closure__[names.index("__class__")].cell_contents = made


def _plain_class(cls: Any, types: dict[str, Any], values: dict[str, Any]) -> Any:
    """Return a class without bases that has these fields, for the standard library to work on."""
    body = {
        "__annotations__": types,
        "__doc__": "Stands for another class.",
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    made = type(cls.__name__, (), body)
    # not in its body: up to Python 3.11, Ctrl-C in a field's `__set_name__` would be a RuntimeError
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _freeze(cls: Any) -> None:
    """Refuse assignments, and let instances be copied and pickled all the same."""
    names = tuple(each.name for each in dataclasses.fields(cls))

    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807 - assigned to the class
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807 - assigned to the class
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    def __getstate__(self: Any) -> list[Any]:  # noqa: N807 - assigned to the class
        return [getattr(self, each.name) for each in dataclasses.fields(self)]

    def __setstate__(self: Any, state: list[Any]) -> None:  # noqa: N807 - assigned to the class
        for each, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, each.name, value)

    for method in (__setattr__, __delattr__, __getstate__, __setstate__):
        if method.__name__ not in cls.__dict__:
            method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
            setattr(cls, method.__name__, method)


def _put_off(cls: Any, names: list[str]) -> None:
    """Have each of these methods generated, with those that go with it, by its first call."""
    compared = [name for name in names if name != "__init__"]

    def stub(name: str) -> Any:  # an annotation with Callable would be made for each class
        def call(self: object, *arguments: object, **keywords: object) -> object:
            if cls.__dict__[name] is call:  # another thread may have been faster
                _generate(cls, ["__init__"] if name == "__init__" else compared)
            return getattr(cls, name)(self, *arguments, **keywords)

        return call

    for name in names:
        setattr(cls, name, stub(name))
    if "__init__" in names:
        cls.__signature__ = _Signature(cls)


class _Signature:
    """Has a class's `__init__` generated before `inspect.signature` looks at that."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, instance: object, cls: Any) -> None:
        if self._cls.__dict__.get("__signature__") is self:
            _generate(self._cls, ["__init__"])


def _generate(cls: Any, names: list[str]) -> None:
    """Take methods from a class with the same fields that the standard library has made."""
    fields = dataclasses.fields(cls)
    # a `Field` carries the default, whether it is compared, and so on
    values: dict[str, Any] = {each.name: each for each in fields}
    if hasattr(cls, "__post_init__"):
        values["__post_init__"] = cls.__post_init__
    first = "__init__" in names
    made = dataclasses.dataclass(frozen=True, init=first, repr=not first, eq=not first)(
        _plain_class(cls, {each.name: each.type for each in fields}, values)
    )
    for name in names:
        setattr(cls, name, made.__dict__[name])
    if first:
        with suppress(AttributeError):  # another thread was faster
            del cls.__signature__
