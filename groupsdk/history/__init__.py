"""Explain the history of a cluster's groups from its log, `__consumer_offsets`, with PySpark.

Needs `groupsdk[spark]`; `groupsdk.history.kernel` and `groupsdk.history.groups` need no Spark.
"""
