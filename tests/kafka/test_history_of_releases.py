"""Data directories of real brokers, with each compression of the log: what they hold is read from the files alone."""

from pathlib import Path

import pytest

from tests.history.recording.releases import record
from tests.history.test_releases_log import check


pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("version", ["3.9.1", "4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0"])
def test_a_data_directory_of_a_release_is_read_whole(version: str, tmp_path: Path) -> None:
    check(record(version, tmp_path), tmp_path / "out")
