"""Keep secrets of configurations out of what is stored, shown and logged: config providers, and masks.

Providers and the form of variables are Kafka's (`FileConfigProvider`, `DirectoryConfigProvider`,
`EnvVarConfigProvider`, KIP-297, KIP-421). A variable is kept as it was written, and resolved where it is used.
"""

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.store.config_backing_store import Config
from groupsdk.errors import ConfigError
from groupsdk.settings.properties import parse_properties


MASK: Final = "[hidden]"
"""The text shown in place of a secret, as in Kafka."""
_PREFIX: Final = "config.providers"
_CLASSES: Final = {
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "directory",
    "EnvVarConfigProvider": "env",
}
_KINDS: Final = tuple(_CLASSES.values())
_PARAMETERS: Final = {
    "file": "allowed.paths",
    "directory": "allowed.paths",
    "env": "allowlist.pattern",
}
_VARIABLE: Final = re.compile(r"\$\{([^}:]+):(?:([^}:]*):)?([^}]*)\}")
_WITHIN: Final = re.compile(r"\$\{(?:([^}:]*):)?+(?:([^}:]*):)?([^}]*)\}")
"""Variables in a text, and lookalikes: a search that skipped those would try each "${" within them again, in quadratic time."""
_SECRET_KEY: Final = re.compile(
    r"(password|passwd|pwd|secret|token|passphrase|credential|(api|access|private|secret)[._-]?key|jaas[._-]?config)s?$",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"(://[^/\s:@]*:)([^/\s@]+)(@)")
_MAX_BYTES: Final = 1_000_000
_LEAST: Final = 4
"""Shorter values are not looked for in messages: they would be found everywhere."""


@dataclass(frozen=True, slots=True)
class _Provider:
    kind: str
    allowed: str | None = None
    """Paths with commas between them, or a pattern of names; None: all."""

    def get(self, path: str, key: str) -> str:
        """Return a value. Raises OSError, KeyError or ValueError if there is none, or it may not be read."""
        if self.kind == "env":
            if self.allowed is not None and re.fullmatch(self.allowed, key) is None:
                raise ValueError("not allowed by allowlist.pattern")
            return os.environ[key]
        if self.kind == "directory" and (not key or key in (".", "..") or "/" in key):
            raise ValueError("the key must be the name of a file in the directory")
        file = Path(path, key) if self.kind == "directory" else Path(path)
        text = self._read(file)
        return text if self.kind == "directory" else parse_properties(text, path)[key]

    def _read(self, file: Path) -> str:
        # where links lead is what counts
        place = file.resolve()
        if self.allowed is not None and not any(
            place.is_relative_to(Path(each.strip()).resolve()) for each in self.allowed.split(",")
        ):
            raise ValueError("not allowed by allowed.paths")
        with place.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ValueError(f"the file has more than {_MAX_BYTES} bytes")
        return data.decode()


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration with its variables resolved; never to be stored or shown."""

    config: Config = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)
    """The variables, such as "${file:/etc/x:password}", by the values that they have."""

    def secrets(self, keys: Collection[str]) -> set[str]:
        """Return the values to mask in errors: those of variables, and the secrets of `secrets_of`."""
        return {*self.variables, *secrets_of(self.config, keys)}

    def unresolved(self, value: Any) -> Any:
        """Return a JSON value with its resolved secrets, at any depth, replaced by their variables, so that it may be stored."""
        if not self.variables:
            return value
        longest = sorted(self.variables, key=len, reverse=True)
        pattern = re.compile("|".join(map(re.escape, longest)))
        return _mapped(value, lambda text: pattern.sub(lambda m: self.variables[m[0]], text))


@dataclass(frozen=True, slots=True)
class ConfigProviders:
    """The providers of the variables in configurations (KIP-297). Build it with `take`; by default there are none."""

    providers: Mapping[str, _Provider] = field(default_factory=dict)

    @classmethod
    def take(cls, settings: dict[str, Any]) -> Self:
        """Remove `config.providers` and the keys below it from settings, and build the providers."""
        names = [each.strip() for each in str(settings.pop(_PREFIX, "")).split(",")]
        providers: dict[str, _Provider] = {}
        for name in filter(None, names):
            given = str(settings.pop(f"{_PREFIX}.{name}.class", name))
            kind = _CLASSES.get(given.rpartition(".")[2], given)
            if kind not in _KINDS:
                raise ConfigError(
                    f"{_PREFIX}.{name}.class must be one of {', '.join(_CLASSES)}, not {given!r}"
                )
            allowed = settings.pop(f"{_PREFIX}.{name}.param.{_PARAMETERS[kind]}", None)
            providers[name] = _Provider(kind, None if allowed is None else str(allowed))
        return cls(providers)

    def resolve(self, config: Config) -> Resolved:
        """Return a configuration with its variables resolved.

        Raises ConnectorConfigError if a variable has no value, or no provider; the message holds no value.
        """
        variables: dict[str, str] = {}
        resolved = {
            key: _replaced(value, lambda m, key=key: self._value(key, m, variables))  # type: ignore[misc]  # of a lambda with a default
            for key, value in config.items()
        }
        return Resolved(resolved, variables)

    def resolve_payload(self, value: Any) -> Any:
        """Return a task's payload with its variables, at any depth, resolved; those of unknown providers stay."""
        if not self.providers:
            return value

        def one(match: re.Match[str]) -> str:
            return (
                self._value("task.payload", match, {}) if match[1] in self.providers else match[0]
            )

        return _mapped(value, lambda text: _replaced(text, one))

    def _value(self, field_name: str, match: re.Match[str], variables: dict[str, str]) -> str:
        name, path, key = match[1], match[2] or "", match[3]
        provider = self.providers.get(name)
        if provider is None:
            if name not in _KINDS:
                return match[0]
            raise ConnectorConfigError(
                field_name,
                f"{match[0]}: this worker has no configuration provider {name!r}: set {_PREFIX}={name}",
            )
        try:
            value = provider.get(path, key)
        except KeyError:
            raise ConnectorConfigError(field_name, f"{match[0]}: there is no such value") from None
        except UnicodeDecodeError:
            raise ConnectorConfigError(field_name, f"{match[0]}: not UTF-8") from None
        except ConfigError:
            # not which line it is: that may hold a secret
            raise ConnectorConfigError(field_name, f"{match[0]}: not a properties file") from None
        except OSError as error:
            raise ConnectorConfigError(field_name, f"{match[0]}: {error.strerror}") from None
        except ValueError as error:
            raise ConnectorConfigError(field_name, f"{match[0]}: {error}") from None
        if value:
            variables[value] = match[0]
        return value


NO_PROVIDERS: Final = ConfigProviders()


def has_variables(config: Config) -> bool:
    """Return whether a configuration contains variables of a known provider."""
    return any(
        match[1] in _KINDS
        for value in config.values()
        for match in _WITHIN.finditer(value, 0, value.rfind("}") + 1)
    )


def _replaced(text: str, value: Callable[[re.Match[str]], str]) -> str:
    # beyond the last "}" there is none, and each "${" would be looked through to the end
    end = text.rfind("}") + 1
    return _WITHIN.sub(value, text[:end]) + text[end:]


def masked(config: Mapping[str, Any], secrets: Collection[str] = ()) -> dict[str, Any]:
    """Return a connector's or task's configuration as it may be shown; `secrets` are further keys whose values are secrets."""
    return {key: _shown(key, value, secrets) for key, value in config.items()}


def unmasked(config: Config, before: Config, secrets: Collection[str] = ()) -> dict[str, str]:
    """Return a configuration that was shown with masks and comes back, with the stored secrets in their places.

    Raises ConnectorConfigError if a mask is where no secret was hidden.
    """
    shown = masked(before, secrets)
    result = dict(config)
    for key, value in config.items():
        if MASK in str(value):
            if shown.get(key) != value:
                raise ConnectorConfigError(
                    key, f"{MASK} does not replace a stored secret: set the value itself"
                )
            result[key] = before[key]
    return result


def secrets_of(config: Config, keys: Collection[str] = ()) -> set[str]:
    """Return the values of a configuration that are secrets, logins within URLs included.

    A value that is only a variable is not a secret.
    """
    secrets = {value for key, value in config.items() if _is_secret(key, keys)}
    secrets |= {match[2] for value in config.values() for match in _LOGIN.finditer(value)}
    return {each for each in secrets if not _VARIABLE.fullmatch(each)}


def conceal(text: str, secrets: Iterable[str]) -> str:
    """Return a message with secrets masked, also in the form that `repr` gives them; those too short to be recognised are left."""
    forms = {form for each in secrets if len(each) >= _LEAST for form in (each, repr(each)[1:-1])}
    if not forms:
        return text
    return re.sub("|".join(map(re.escape, sorted(forms, key=len, reverse=True))), MASK, text)


def _is_secret(key: str, secrets: Collection[str]) -> bool:
    return key in secrets or _SECRET_KEY.search(key) is not None


def _shown(key: str, value: Any, secrets: Collection[str]) -> Any:
    if key == "task.payload" and isinstance(value, str):
        try:
            return json.dumps(_shown("", json.loads(value), secrets), sort_keys=True)
        except (ValueError, RecursionError):
            return MASK
    if _is_secret(key, secrets) and value not in ("", None):
        # a variable tells nobody anything
        return value if isinstance(value, str) and _VARIABLE.fullmatch(value) else MASK
    if isinstance(value, dict):
        return masked(value, secrets)
    if isinstance(value, list):
        return [_shown("", each, secrets) for each in value]
    if not isinstance(value, str):
        return value
    return _LOGIN.sub(lambda m: m[0] if _VARIABLE.fullmatch(m[2]) else m[1] + MASK + m[3], value)


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(each, change) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(each, change) for each in value]
    return value
