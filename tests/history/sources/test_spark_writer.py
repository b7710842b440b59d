"""What plans and commits a write imports little: Spark starts a process for each."""

import subprocess
import sys

import pytest


pytest.importorskip("pyspark")

LARGE = ("numpy", "pandas", "pyarrow", "groupsdk.history.read.reading")


def test_the_writer_of_tables_imports_neither_arrow_nor_the_history() -> None:
    code = f"""
import sys
from groupsdk.history.sources.spark_writer import TablesDataSource
writer = TablesDataSource({{"path": "/tables", "cluster": "one"}}).writer(None, overwrite=False)
print([each for each in {LARGE!r} if each in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
