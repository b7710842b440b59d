"""The examples that explain a log: what they say of it, and that it can be read afterwards."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from examples import history_sample


@pytest.mark.parametrize(
    ("example", "group", "causes"),
    [
        (
            history_sample.main,
            "workers",
            {"join", "expiry", "coordinator_restart", "topic_growth", "leave"},
        ),
    ],
)
def test_an_example_explains_its_log(
    example: Callable[[Path], int | None],
    group: str,
    causes: set[str],
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # the session that is there will do: one of its own would take each example half a minute more
    monkeypatch.setattr("groupsdk.history.session.build_session", lambda **settings: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    assert not example(tmp_path)
    (report,) = tmp_path.rglob("report.html")
    assert capsys.readouterr().out.endswith(f"{report}\n")
    assert f"Group {group}" in report.read_text(encoding="utf-8")
    made = ds.dataset(report.parent / "generations", format="parquet").to_table().to_pylist()
    assert causes <= {row["primary_cause"] for row in made if row["group_id"] == group}
