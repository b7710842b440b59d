"""Fork Spark's Python workers from a process that has imported the history, where each would import it for itself.

With a local master Spark runs this module in the place of `pyspark.daemon` (`spark.python.daemon.module`). Arrow and its allocator
support a fork after they are imported; nothing is computed before.
"""

import gc
import os
import sys
from pathlib import Path


# Spark puts archives of PySpark and Py4J first, of which each process compiles the modules: half a second of CPU for each.
home = Path(os.environ.get("SPARK_HOME", "/"))
if str(home.parent) in sys.path:
    # the PySpark that pip has installed, with the same version of Py4J beside it
    sys.path[:] = [path for path in sys.path if Path(path).parent != home / "python" / "lib"]

# pyarrow imports pandas with the first array that it makes of Python's objects
import pandas  # noqa: E402, F401
import pyspark.worker  # noqa: E402, F401
from pyspark.daemon import manager  # noqa: E402

import groupsdk.history.read.buckets  # noqa: E402
import groupsdk.history.sources.segment_files  # noqa: E402, F401


if __name__ == "__main__":
    # a worker collects garbage after each task, and would go through all that was imported
    gc.freeze()
    manager()
