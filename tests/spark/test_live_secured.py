"""A live topic behind TLS and SASL, read by our own source and by Spark's connector: what both find is the same."""

from pathlib import Path
from typing import Any

import pytest

from groupsdk.errors import AuthenticationError, GroupSdkError
from groupsdk.history.sources.spark_connector import read_with_connector
from groupsdk.history.sources.spark_topic import FORMAT, TopicDataSource
from groupsdk.history.sources.topic_reader import TopicReader
from groupsdk.settings.properties import read_properties
from groupsdk.testing import LocalKafka
from groupsdk.testing.jars import fetch
from groupsdk.testing.security import DEFAULT_USERS
from tests.spark.test_live import make_history, plain


PARTITIONS = 2
_PROPERTIES = {"offsets.topic.num.partitions": str(PARTITIONS), "log.cleaner.enable": "false"}
USER, PASSWORD = "alice", "alice-secret"
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""Spark's connector, and what of its needs PySpark does not bring."""


@pytest.fixture(scope="module")
def secure(kafka_installed: None) -> Any:
    """A broker that asks who is there, over TLS, with a history in its log."""
    listeners = {"SECURE": "SASL_SSL", "PLAIN": "PLAINTEXT"}
    kafka = LocalKafka(
        properties=_PROPERTIES, listeners=listeners, users={**DEFAULT_USERS, USER: PASSWORD}
    )
    with kafka:
        make_history(kafka.bootstrap_servers_of("PLAIN"))
        yield kafka


def client_properties(kafka: LocalKafka, place: Path, password: str = PASSWORD) -> dict[str, str]:
    """Say who one is, in a file as Kafka's tools take it, and read that."""
    file = place / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.username={USER}\n"
        f"sasl.password={password}\n"
        f"ssl.ca.location={kafka.ca_file}\n",
        encoding="utf-8",
    )
    return {**read_properties(str(file)), "bootstrap.servers": kafka.bootstrap_servers_of("SECURE")}


def records(frame: Any) -> set[tuple[Any, ...]]:
    """Collect the records that groups wrote."""
    rows = frame.filter("not control").select("src_partition", "src_offset", "key", "value")
    return {tuple(map(plain, row)) for row in rows.collect()}


def read_live(spark: Any, settings: dict[str, str]) -> Any:
    """Read the topic with our own source."""
    spark.dataSource.register(TopicDataSource)
    return spark.read.format(FORMAT).options(**settings).load()


def test_a_topic_behind_tls_and_sasl_is_read_as_any_other(
    spark: Any, secure: LocalKafka, tmp_path: Path
) -> None:
    secured = records(read_live(spark, client_properties(secure, tmp_path)))
    plainly = {"bootstrap.servers": secure.bootstrap_servers_of("PLAIN")}
    assert secured == records(read_live(spark, plainly))
    assert len(secured) > 3


def test_a_wrong_password_is_said_and_not_shown(secure: LocalKafka, tmp_path: Path) -> None:
    settings = client_properties(secure, tmp_path, "guessed-secret")
    with pytest.raises(GroupSdkError) as raised, TopicReader(settings) as reader:
        reader.partitions("__consumer_offsets")
    assert isinstance(raised.value, AuthenticationError)
    assert "guessed-secret" not in str(raised.value)


def test_sparks_connector_sees_the_internal_topic_and_leaves_nothing_in_it(
    spark: Any, secure: LocalKafka
) -> None:
    plainly = {"bootstrap.servers": secure.bootstrap_servers_of("PLAIN")}
    before = records(read_live(spark, plainly))
    for jar in fetch(CONNECTOR, alone=True):
        spark.sql(f"ADD JAR '{jar}'")
    found = records(read_with_connector(spark, plainly["bootstrap.servers"], range(PARTITIONS)))
    after = records(read_live(spark, plainly))
    assert after == before
    # the connector shows what is committed; ours shows what was aborted as well, with its end
    assert found < before
    (aborted,) = before - found
    assert b"workers" in aborted[2]
