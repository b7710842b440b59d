"""Read the file that lists the clusters of a fleet, and who owns which groups."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from groupsdk.errors import ConfigError
from groupsdk.history.sources.user_files import known, read_toml, table, tables


_SOURCES: Final = ("segments", "archive", "bootstrap_servers")
_FILES: Final = ("segments", "archive", "config", "broker_log", "topics", "end_offsets", "slos")
"""Settings with paths, which are relative to the file of the fleet."""
_TEXTS: Final = (*_FILES, "bootstrap_servers", "log_zone", "assignors", "storm")
_NUMBERS: Final = ("session_timeout",)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_REMOTE: Final = re.compile(r"[a-z][a-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """One cluster: `options` are those of `groupsdk history run`, by name without the dashes."""

    cluster_id: str
    options: Mapping[str, str]

    def arguments(self) -> list[str]:
        """Return the options as arguments of the command line."""
        return [f"--{name.replace('_', '-')}={value}" for name, value in self.options.items()]


@dataclass(frozen=True, slots=True)
class Owner:
    """Who is to be told of groups: patterns of clusters and groups (`*`, `?`, `[seq]`), a team, and how to reach it."""

    groups: str
    clusters: str
    team: str
    on_call: str


@dataclass(frozen=True, slots=True)
class Fleet:
    clusters: Sequence[ClusterSource]
    owners: Sequence[Owner]
    """The first one that matches a group owns it."""

    def owner_of(self, cluster_id: str, group_id: str) -> Owner | None:
        for owner in self.owners:
            if fnmatchcase(cluster_id, owner.clusters) and fnmatchcase(group_id, owner.groups):
                return owner
        return None


def read_fleet(path: str) -> Fleet:
    """Read a fleet's file, of TOML.

    `[clusters.NAME]` has one of `segments`, `archive` and `bootstrap_servers`, and other options of `groupsdk history run`;
    `[defaults]` those of all clusters; `[[owners]]` has `groups`, `team`, and optionally `clusters` and `on_call`. Credentials stand in
    the file that `config` names, never here. Paths are relative to the file.

    Raises:
        ConfigError: the file cannot be read or is no such file; it says where and what would be right.
    """
    content = read_toml(path, "the fleet's file")
    known(path, "the file", content, ("clusters", "defaults", "owners"))
    defaults = table(path, "defaults", content.get("defaults", {}))
    clusters = table(path, "clusters", content.get("clusters", {}))
    if not clusters:
        raise ConfigError(f"{path} lists no clusters: give each a table [clusters.NAME]")
    folder = Path(path).resolve().parent
    return Fleet(
        tuple(_cluster(path, folder, name, defaults, each) for name, each in clusters.items()),
        tuple(_owner(path, each) for each in tables(path, "owners", content.get("owners", []))),
    )


def _cluster(
    path: str, folder: Path, name: str, defaults: Mapping[str, Any], given: Any
) -> ClusterSource:
    where = f"clusters.{name}"
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{path}: {name!r} names a cluster and its directory: letters, digits and . _ - only"
        )
    options = {**defaults, **table(path, where, given)}
    known(path, where, options, (*_TEXTS, *_NUMBERS))
    if sum(each in options for each in _SOURCES) != 1:
        raise ConfigError(f"{path}: {where} needs exactly one of {', '.join(_SOURCES)}")
    found: dict[str, str] = {}
    for key, value in options.items():
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if key in _NUMBERS and not is_number:
            raise ConfigError(f"{path}: {key} of {where} must be a number, not {value!r}")
        if key in _TEXTS and not isinstance(value, str):
            raise ConfigError(f"{path}: {key} of {where} must be a text, not {value!r}")
        if key in _FILES and not _REMOTE.match(value):
            value = str(folder / value)
        found[key] = str(value)
    return ClusterSource(name, found)


def _owner(path: str, given: Any) -> Owner:
    owner = table(path, "owners", given)
    known(path, "owners", owner, ("groups", "clusters", "team", "on_call"))
    for key in ("groups", "team"):
        if not owner.get(key):
            raise ConfigError(f"{path}: each of [[owners]] needs {key}")
    for key, value in owner.items():
        if not isinstance(value, str):
            raise ConfigError(f"{path}: {key} of [[owners]] must be a text, not {value!r}")
    return Owner(
        owner["groups"], owner.get("clusters", "*"), owner["team"], owner.get("on_call", "")
    )
