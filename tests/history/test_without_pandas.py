"""A local run leaves pandas out, and what wants it has it."""

import subprocess
import sys
from pathlib import Path

from tests.history.sample import SEGMENTS


def last_line_of(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", f"import sys; {program}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_a_local_run_imports_no_pandas(tmp_path: Path) -> None:
    words = ("history", "run", "--engine", "local", "--segments", str(SEGMENTS), "--quiet")
    program = (
        "from groupsdk.cli.main import main; code = main(sys.argv[1:]);"
        " print(code, 'pandas' in sys.modules)"
    )
    assert last_line_of(program, *words, "--out", str(tmp_path)) == "0 False"


def test_pandas_can_still_be_imported_and_converted_to() -> None:
    program = (
        "from groupsdk.history.without_pandas import leave_out_pandas; leave_out_pandas();"
        " import pyarrow as pa; import pandas; print(pa.array([1, 2]).to_pandas().sum())"
    )
    assert last_line_of(program) == "3"
