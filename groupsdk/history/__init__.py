"""Explain a cluster's groups from its own log, `__consumer_offsets`, with PySpark.

Needs `groupsdk[spark]`; `groupsdk.history.kernel` and `groupsdk.history.groups` need no Spark.
"""
