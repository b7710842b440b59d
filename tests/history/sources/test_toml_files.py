"""Files of TOML: an error says which file, where, and what would be right."""

from pathlib import Path

import pytest

from groupsdk.errors import ConfigError
from groupsdk.history.sources.toml_files import known, read_toml, table, tables


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the list .*missing.toml cannot be read: No such file"):
        read_toml(str(tmp_path / "missing.toml"), "the list")
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (4 * 1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="larger than 4 MiB"):
        read_toml(str(large), "the list")
    large.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not TOML"):
        read_toml(str(large), "the list")


def test_what_is_in_the_wrong_place_is_said() -> None:
    with pytest.raises(ConfigError, match=r"f: a must be a table, not 7"):
        table("f", "a", 7)
    with pytest.raises(ConfigError, match=r"f: a must be tables \[\[a\]\], not 7"):
        tables("f", "a", 7)
    with pytest.raises(ConfigError, match="f: 'teem' of owners is not known; did you mean team"):
        known("f", "owners", {"teem": 1}, ("team", "groups"))
