"""Files with which a user adds to a log what it does not say."""

from pathlib import Path

import pytest

from groupsdk.errors import ConfigError
from groupsdk.history.sources.user_files import known, read_toml, read_topic_names, table, tables
from tests.support.cases import each_case


def test_names_of_topics_are_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "topics.jsonl"
    path.write_text('{"topic_id": "x", "topic": "jobs"}\n\n{"topic_id": "y", "topic": "events"}\n')
    assert read_topic_names(str(path)) == [("x", "jobs"), ("y", "events")]


@each_case("line", ["no JSON", "{}", "[1]"])
def test_a_line_without_id_or_name_is_said(line: str, tmp_path: Path) -> None:
    path = tmp_path / "topics.jsonl"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(ConfigError, match="must have JSON lines with topic_id and topic"):
        read_topic_names(str(path))


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
