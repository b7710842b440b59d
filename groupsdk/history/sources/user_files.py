"""Read the files with which a user supplements a log, or declares fleets and objectives; errors name the file and what would be right."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from groupsdk.errors import ConfigError


_MOST_BYTES: Final = 4 * 1024 * 1024


def read_topic_names(path: str) -> list[tuple[str, str]]:
    """Read topic ids and names from JSON lines; ConfigError for an unreadable file, or a line without topic_id and topic."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        return [(str(row["topic_id"]), str(row["topic"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"--topics {path} must have JSON lines with topic_id and topic: {error!r}"
        ) from error


def read_toml(path: str, what: str) -> dict[str, Any]:
    """Read a file; ConfigError if it cannot be read, is too large or is not TOML. `what` names it in the error."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{what} {path} cannot be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{what} {path} is larger than {_MOST_BYTES >> 20} MiB")
    try:
        return tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{what} {path} is not TOML: {error}") from error


def table(path: str, where: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: {where} must be a table, not {given!r}")
    return given


def tables(path: str, where: str, given: Any) -> Sequence[Any]:
    if not isinstance(given, list):
        raise ConfigError(f"{path}: {where} must be tables [[{where}]], not {given!r}")
    return given


def known(path: str, where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
            raise ConfigError(f"{path}: {key!r} of {where} is not known; {hint}")
