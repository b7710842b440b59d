"""Tests what follows from the options of `groupsdk history`."""

from pathlib import Path

import pytest

from groupsdk.cli.history_options import HistoryOptions, goes_on, is_brief, storm_of
from groupsdk.errors import ConfigError


def test_a_small_log_makes_a_brief_session(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from groupsdk.history.session import BRIEF_BYTES

    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    with (folder / f"{0:020}.log").open("wb") as file:
        file.truncate(BRIEF_BYTES)
    args = HistoryOptions(segments=str(tmp_path), out="o")
    assert is_brief(args)
    (folder / f"{5:020}.log").write_bytes(b"x")
    assert not is_brief(args)
    assert not is_brief(HistoryOptions(archive=str(tmp_path), out="o"))


def test_a_run_adds_to_the_tables_of_an_archive_that_hold_nothing_else() -> None:
    assert goes_on(HistoryOptions(archive="a", out="o"))
    assert not goes_on(HistoryOptions(segments="s", out="o"))
    assert not goes_on(HistoryOptions(archive="a", out="o", broker_log="server.log"))
    assert not goes_on(HistoryOptions(archive="a", out="o", end_offsets="ends.jsonl"))
    assert not goes_on(HistoryOptions(archive="a", out="s3a://bucket/o"))
    assert not goes_on(HistoryOptions(archive="a", out="o", format="iceberg"))


def test_a_storm_is_a_number_and_seconds() -> None:
    assert storm_of("7/60") == (7, 60)
    for text in ("", "5", "5/", "/5", "1/60", "5/0", "5/x", "-5/60"):
        with pytest.raises(ConfigError, match="N/SECONDS"):
            storm_of(text)
