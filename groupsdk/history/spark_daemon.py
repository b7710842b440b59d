"""Fork Spark's Python workers from a process that has imported the history, where each would import it for itself.

With a local master Spark runs this module in the place of `pyspark.daemon` (`spark.python.daemon.module`). Arrow and its allocator
support a fork after they are imported; nothing is computed before.
"""

# pyarrow imports pandas with the first array that it makes of Python's objects
import pandas  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import groupsdk.history.read.buckets
import groupsdk.history.sources.segment_files  # noqa: F401


if __name__ == "__main__":
    manager()
