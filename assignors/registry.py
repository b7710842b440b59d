"""Find assignors by name, class or instance."""

from collections.abc import Callable
from difflib import get_close_matches
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final

from groupsdk.assignment import AssignorLike, PartitionAssignor, is_assignor, missing_parts
from groupsdk.errors import ConfigError


if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP: Final = "groupsdk.assignors"
"""The entry point group of installed assignors, read by `resolve`: name to `package.module:Class`."""

# also declared in pyproject.toml; listed here for use without installing the project
_SHIPPED: Final = {
    "range": "assignors.range:RangeAssignor",
    "roundrobin": "assignors.roundrobin:RoundRobinAssignor",
    "sticky": "assignors.sticky:StickyAssignor",
    "cooperative-sticky": "assignors.cooperative_sticky:CooperativeStickyAssignor",
    "weighted": "assignors.weighted:WeightedAssignor",
    "lag": "assignors.lag:LagAssignor",
}

_KAFKA_PACKAGE = "org.apache.kafka.clients.consumer."
_KAFKA_CLASSES: Final = {
    f"{_KAFKA_PACKAGE}RangeAssignor": "range",
    f"{_KAFKA_PACKAGE}RoundRobinAssignor": "roundrobin",
    f"{_KAFKA_PACKAGE}StickyAssignor": "sticky",
    f"{_KAFKA_PACKAGE}CooperativeStickyAssignor": "cooperative-sticky",
}


def known_assignors() -> list[str]:
    """List the names known to `resolve`: the built-in assignors and those of installed packages."""
    return sorted({*_SHIPPED, *(point.name for point in _declared())})


def _declared() -> "list[EntryPoint]":
    # slow to import, and not needed for the built-in assignors
    from importlib.metadata import entry_points

    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.value)


def resolve(assignor: AssignorLike) -> PartitionAssignor:
    """Resolve a name, class or instance to an assignor.

    Args:
        assignor: a name ("range", or one that an installed package declares as an entry point of `groupsdk.assignors`), the
            name of one of Kafka's classes ("org.apache.kafka.clients.consumer.RangeAssignor"), a place
            ("package.module:Class"), a class, or an assignor, which comes back as it is.

    Raises:
        ConfigError: the name is unknown, the class cannot be imported, or the result is not an assignor.
    """
    if isinstance(assignor, str):
        return _made(_found(assignor), repr(assignor))
    if is_assignor(assignor):
        return assignor
    if callable(assignor):
        return _made(assignor, getattr(assignor, "__qualname__", repr(assignor)))
    raise ConfigError(
        f"{assignor!r} is not an assignor: it lacks {_lacking(assignor)}; see groupsdk.assignment.PartitionAssignor"
    )


def _found(name: str) -> object:
    # an installed package must not replace the built-in assignors
    place = _SHIPPED.get(_KAFKA_CLASSES.get(name, name))
    if place is None:
        declared = [point for point in _declared() if point.name == name]
        if len({point.value for point in declared}) > 1:
            places = ", ".join(point.value for point in declared)
            raise ConfigError(f"assignor {name!r} is declared more than once: {places}")
        if declared:
            return _loaded(name, declared[0].value, declared[0].load)
        place = name
    if ":" not in place:
        raise ConfigError(_unknown(name))
    return _loaded(name, place, lambda: resolve_name(place))


def _loaded(name: str, place: str, load: Callable[[], object]) -> object:
    try:
        return load()
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"assignor {name!r} cannot be imported from {place}: {error}") from error


def _unknown(name: str) -> str:
    known = known_assignors()
    close = get_close_matches(name, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return (
        f"no assignor {name!r}{hint}: known are {', '.join(known)}; "
        "or give a place (package.module:Class), a class or an assignor"
    )


def _made(maker: object, what: str) -> PartitionAssignor:
    made = maker
    if callable(maker) and not is_assignor(maker):
        try:
            made = maker()
        except TypeError as error:
            raise ConfigError(
                f"assignor {what} cannot be created without arguments: {error}"
            ) from error
    if not is_assignor(made):
        raise ConfigError(f"{what} is not an assignor: {made!r} lacks {_lacking(made)}")
    return made


def _lacking(thing: object) -> str:
    return ", ".join(missing_parts(thing))
