"""Hold the names of a worker's metrics against those of Kafka Connect's own class."""

import zipfile

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing.jars import fetch
from tests.clients.test_connect import COORDINATES
from tests.connect.workers import app, eventually


_CLASS = "org/apache/kafka/connect/runtime/ConnectMetricsRegistry.class"


@pytest.mark.usefixtures("kafka_installed")
def test_each_name_is_one_of_kafka_connects(broker: EmbeddedBroker, group_id: str) -> None:
    (jar,) = [each for each in fetch(COORDINATES) if each.name.startswith("connect-runtime-")]
    with zipfile.ZipFile(jar) as archive:
        constants = archive.read(_CLASS)
    with app() as made:
        worker = made.start(bootstrap_servers=broker.bootstrap_servers, group_id=group_id)
        config = {"connector.class": "Counting", "count": "1"}
        worker.admin.put_connector("c", config).result(60)
        eventually(lambda: worker.owned.tasks)
        metrics = worker.metrics()
    names = {name for each in metrics for name in (each.group, each.name)}
    assert len(names) > 40
    # a string of a class file stands behind its length
    unknown = {
        name for name in names if len(name).to_bytes(2, "big") + name.encode() not in constants
    }
    assert unknown == set()
