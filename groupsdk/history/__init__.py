"""Explain the history of a cluster's groups from its log, `__consumer_offsets`, with PySpark.

Needs `groupsdk[spark]`; `groupsdk.history.read` and `groupsdk.history.explain` need no Spark.
"""
