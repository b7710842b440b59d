"""The groups of a bucket: explained from memory, or from temporary files where they take too much of it."""

from collections import Counter
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from groupsdk.history.explain.explaining import Context
from groupsdk.history.read import buckets
from groupsdk.history.read.buckets import explain_records
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.tables.stages import RECORDS
from tests.history.sample import SEGMENTS


@pytest.mark.parametrize("learning", [False, True])
def test_a_bucket_that_does_not_fit_in_memory_makes_the_same_rows(
    learning: bool, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read = [each for task in segment_tasks(str(SEGMENTS)) for each in task.read()]
    records = [batch for name, batch in read if name == RECORDS]

    def rows() -> Counter[str]:
        made = explain_records(records, Context(), learning=learning)
        return Counter(f"{name} {row}" for name, batch in made for row in batch.to_pylist())

    expected = rows()
    assert expected or learning
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    folders = mocker.spy(buckets, "TemporaryDirectory")
    mocker.patch.object(buckets, "HELD_BYTES", 10_000)
    assert rows() == expected
    assert [each.kwargs["dir"] for each in folders.call_args_list] == [str(tmp_path)]
    assert not list(tmp_path.iterdir())
