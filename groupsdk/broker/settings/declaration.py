"""How a setting is declared: one row with its default, bounds, type and effect, as an attribute of a class."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar, cast

from groupsdk.errors import ConfigError
from groupsdk.lazy_imports import override
from groupsdk.limits import MAX_INT32


MAX_INT64: Final = 2**63 - 1
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)
"""Kafka's `ConfigDef.Type`, as DescribeConfigs numbers them."""
TRUE_FALSE: Final = {"true": True, "false": False}
_TYPES: Final[dict[type, int]] = {bool: BOOLEAN, str: STRING, int: INT, float: DOUBLE}
_LOWEST: Final = -(2**63)
T = TypeVar("T")


class Setting(NamedTuple):
    """One setting: a row of the table."""

    default: Any
    text: str
    """What it does: the documentation that DescribeConfigs returns."""
    low: float
    high: float
    choices: tuple[str, ...]
    """The values of a string; empty: any."""
    config_type: int
    topic: str
    """The topic setting whose default it is, by its dotted key; "": none."""
    group: str
    """The setting by which a group overrides it, by its dotted key; "": none."""
    dynamic: bool
    """Whether a change takes effect while the broker runs."""
    null: bool
    """Whether Kafka shows it as null while it has its default."""
    internal: bool
    """Whether it is for the broker itself, and users can neither set nor see it."""

    @property
    def kind(self) -> type:
        """The Python type of its value."""
        return type(self.default)

    def problem(self, value: Any) -> str | None:
        """Return why a value is not allowed, to follow the setting's name; None if it is."""
        if self.kind is int and (not isinstance(value, int) or isinstance(value, bool)):
            return f"must be an integer, not {value!r}"
        if self.choices:
            if value not in self.choices:
                return f"must be one of {', '.join(self.choices)}, not {value!r}"
        elif self.kind in (int, float) and not self.low <= value <= self.high:
            return f"must be from {self.low} to {self.high}, not {value}"
        return None


def setting(
    default: T,
    text: str,
    low: float | None = None,
    high: float | None = None,
    *,
    choices: tuple[str, ...] = (),
    kind: int = 0,
    topic: str = "",
    group: str = "",
    dynamic: bool = False,
    null: bool = False,
    internal: bool = False,
) -> T:
    """Declare a setting in the body of a `Settings` class, where it becomes its default.

    Args:
        low: the lowest allowed number; None: any.
        high: the highest allowed number; None: that of its type.
        kind: Kafka's type; 0: the one that follows from the default.
    """
    config_type = kind or _TYPES[type(default)]
    highest = MAX_INT32 if config_type == INT else MAX_INT64
    row = Setting(
        default,
        text,
        _LOWEST if low is None else low,
        highest if high is None else high,
        choices,
        config_type,
        topic,
        group,
        dynamic or topic != "",
        null,
        internal,
    )
    return cast("T", row)


class Settings:
    """Named settings, `group.max.size` as `group_max_size`; immutable. Subclasses declare them by `setting`.

    Not a dataclass: creating one with so many fields takes 7 ms, half as long as Python's own start.
    """

    ROWS: ClassVar[dict[str, Setting]] = {}
    """Every setting by its name with underscores, also inherited and internal ones."""

    @override
    def __init_subclass__(cls) -> None:
        own = {name: row for name, row in vars(cls).items() if isinstance(row, Setting)}
        for name, row in own.items():
            setattr(cls, name, row.default)
        inherited = [base.ROWS for base in reversed(cls.__mro__[1:]) if issubclass(base, Settings)]
        cls.ROWS = {name: row for rows in (*inherited, own) for name, row in rows.items()}

    def __init__(self, **settings: Any) -> None:
        """Create it from values by name with underscores; ConfigError if one is unknown or out of bounds."""
        for name, value in settings.items():
            if name not in self.ROWS:
                raise ConfigError(self._unknown(name))
            object.__setattr__(self, name, value)
        self._check()

    @override
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed: {name}")

    @override
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(self) == vars(other)

    @override
    def __hash__(self) -> int:
        return hash(tuple(sorted(vars(self).items())))

    @override
    def __repr__(self) -> str:
        shown = (
            f"{name}={value!r}"
            for name, value in sorted(vars(self).items())
            if self.ROWS[name].config_type != PASSWORD
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def _check(self) -> None:
        for name, value in vars(self).items():
            problem = self.ROWS[name].problem(value)
            if problem is not None:
                raise ConfigError(f"{dotted(name)} {problem}")

    @classmethod
    def of(cls, settings: Mapping[str, Any] | None = None, /, **keywords: Any) -> Self:
        """Build it from Kafka's dotted keys, keywords, or both.

        Args:
            settings: ``{"group.initial.rebalance.delay.ms": 0}``; strings are parsed like Kafka's properties.
            **keywords: ``group_initial_rebalance_delay_ms=0``; take precedence over `settings`.

        Raises:
            ConfigError: a key is unknown (with the closest known one), or a value is invalid.
        """
        values: dict[str, Any] = {}
        for key, value in {**(settings or {}), **keywords}.items():
            name = key.replace(".", "_")
            row = cls.ROWS.get(name)
            if row is None or row.internal:
                raise ConfigError(cls._unknown(key))
            values[name] = read_value(key, row.kind, value)
        return cls(**values)

    def changed(self, **changes: Any) -> Self:
        """Return a copy with some settings changed, by name with underscores. Raise ConfigError as `__init__`."""
        return type(self)(**{**vars(self), **changes})

    def as_texts(self) -> dict[str, str]:
        """Return all settings as Kafka shows them, by dotted key; secrets and internal ones are omitted."""
        return {
            dotted(name): value_text(getattr(self, name))
            for name, row in self.ROWS.items()
            if row.config_type != PASSWORD and not row.internal
        }

    @classmethod
    def _unknown(cls, key: str) -> str:
        from difflib import get_close_matches  # only needed for an error

        known = [dotted(name) for name, row in cls.ROWS.items() if not row.internal]
        name = "listeners" if key in ("host", "port") else key  # as one calls it elsewhere
        close = get_close_matches(name.replace("_", "."), known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"unknown broker setting {key}{hint}"


def dotted(name: str) -> str:
    """Return the dotted name of a setting, as Kafka writes it."""
    return name.replace("_", ".")


def value_text(value: Any) -> str:
    """Format a value as Kafka shows it: booleans in lower case, lists with commas."""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_value(key: str, kind: type, value: Any) -> Any:
    """Parse a value that may be a string, as in a properties file, or a list; ConfigError on another type."""
    given = value.strip() if isinstance(value, str) else value
    if kind is str and isinstance(given, str):
        return given
    if kind is str and isinstance(given, (list, tuple)):
        return ",".join(str(each) for each in given)
    if kind is bool:
        read = given if isinstance(given, bool) else TRUE_FALSE.get(str(given).lower())
        if read is not None:
            return read
    elif kind in (int, float) and not isinstance(given, bool):
        try:
            number = kind(given)
        except (TypeError, ValueError):
            number = None
        if number is not None and (isinstance(given, str) or number == given):
            return number
    names = {str: "a string", bool: "true or false", int: "an integer", float: "a number"}
    raise ConfigError(f"{key} must be {names[kind]}, not {value!r}")
