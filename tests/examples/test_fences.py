"""Test that each kind of storage refuses a worker that a later owner of its shard has written after."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import fakeredis
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from moto import mock_aws

from examples import fences
from examples.fences import FencedError, write_kafka, write_redis, write_s3, write_sql
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.shards import Lease
from tests.support.plain_workers import PlainWorker


pytestmark = pytest.mark.timeout(300)


def lease(epoch: int, *, held: bool = True) -> Lease:
    return Lease("shard-1", epoch, "m", lambda _: held)


def test_sql_refuses_a_smaller_epoch_and_keeps_what_was_written(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "db", isolation_level="IMMEDIATE")
    connection.executescript(fences.SQL_TABLES)
    write_sql(connection, lease(5), "a", "first")
    write_sql(connection, lease(5), "b", "second")
    write_sql(connection, lease(2**53 - 1), "a", "later")
    with pytest.raises(FencedError):
        write_sql(connection, lease(2**53 - 2), "b", "zombie")
    found = connection.execute("select item, result from results order by item").fetchall()
    assert found == [("a", "later"), ("b", "second")]
    connection.close()


def test_redis_refuses_a_smaller_epoch_and_compares_the_greatest_ones_exactly() -> None:
    client = fakeredis.FakeRedis(decode_responses=True)
    write_redis(client, lease(5), "a", "first")
    write_redis(client, lease(2**53 - 1), "a", "later")
    with pytest.raises(FencedError):
        write_redis(client, lease(2**53 - 2), "a", "zombie")
    assert client.hgetall("shard:shard-1") == {"epoch": str(2**53 - 1), "a": "later"}


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="bucket")
        yield client


def test_s3_refuses_a_smaller_epoch(s3: Any) -> None:
    write_s3(s3, "bucket", lease(5), "k", b"first")
    write_s3(s3, "bucket", lease(5), "k", b"again")
    write_s3(s3, "bucket", lease(9), "k", b"later")
    with pytest.raises(FencedError):
        write_s3(s3, "bucket", lease(8), "k", b"zombie")
    assert s3.get_object(Bucket="bucket", Key="k")["Body"].read()[8:] == b"later"


@pytest.mark.parametrize("exists", [False, True])
def test_s3_refuses_a_writer_that_was_paused_before_its_write(s3: Any, exists: bool) -> None:
    if exists:
        write_s3(s3, "bucket", lease(5), "k", b"same")
    put = s3.put_object

    def paused(**arguments: Any) -> None:
        s3.put_object = put
        write_s3(s3, "bucket", lease(9), "k", b"same")
        put(**arguments)

    s3.put_object = paused
    with pytest.raises(FencedError):
        write_s3(s3, "bucket", lease(5), "k", b"same")
    assert s3.head_object(Bucket="bucket", Key="k")["Metadata"] == {"epoch": "9"}


def test_kafka_refuses_the_transaction_of_a_worker_that_is_out_of_its_group(group_id: str) -> None:
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        for name in ("progress", "results"):
            broker.create_topic(name, 1)
        producer = Producer({"bootstrap.servers": servers, "transactional.id": "shard-1"})
        producer.init_transactions(60)
        with PlainWorker(bootstrap_servers=servers, group_id=group_id) as member:
            assert member.ensure_active_group(60)
            at = TopicPartition("progress", 0, 1)
            write_kafka(producer, member, lease(5), "results", [b"one", b"two"], at)
            before = member.snapshot()
            with pytest.raises(FencedError):
                write_kafka(producer, member, lease(5, held=False), "results", [b"lost"], at)

            class Zombie:
                """A worker that does not know yet that its group went on without it."""

                def snapshot(self) -> Any:
                    return before

            member.request_rejoin("for the test")
            assert member.ensure_active_group(60)
            at = TopicPartition("progress", 0, 2)
            with pytest.raises(FencedError):
                write_kafka(producer, Zombie(), lease(5), "results", [b"zombie"], at)
        consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "check", "auto.offset.reset": "earliest"}
        )
        try:
            consumer.assign([TopicPartition("results", 0)])
            found = [consumer.consume(1, 60)[0].value() for _ in range(2)]
            assert found == [b"one", b"two"]
            assert consumer.consume(1, 1) == []
            committed = Consumer({"bootstrap.servers": servers, "group.id": group_id})
            assert committed.committed([TopicPartition("progress", 0)], 60)[0].offset == 1
            committed.close()
        finally:
            consumer.close()
