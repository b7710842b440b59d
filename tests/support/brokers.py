"""Real brokers that tests may break, and that run again afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

from groupsdk.testing import LocalKafka


QUICK_RESTART = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "200"}
"""Properties: a broker that was killed is refused until the session of its old process ends.

A machine that halts for as long has the controller take the broker for dead: its partitions have no leader for a
moment. `STEADY` is for tests that kill no broker.
"""
STEADY = {"broker.session.timeout.ms": "20000"}
"""Properties: a machine that halts for some seconds ends no session of a broker; one that was killed is refused for as long.

For brokers that are started again, or on a directory that another one has left, and that nobody kills; the first
process of any other `LocalKafka` of one node has a longer session by itself.
"""


@contextmanager
def running_again(kafka: LocalKafka) -> Iterator[LocalKafka]:
    """Resume the nodes that the with block left paused, and start those that it left stopped."""
    yield kafka
    for node in kafka.nodes:
        if node.paused:
            node.resume()
    kafka.start()
