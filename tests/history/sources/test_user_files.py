"""Files with which a user adds to a log what it does not say."""

from pathlib import Path

import pytest

from groupsdk.errors import ConfigError
from groupsdk.history.sources.user_files import read_topic_names
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
