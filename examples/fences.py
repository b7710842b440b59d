"""Let a storage refuse a worker that has lost its shard: by the epoch of its lease, in four kinds of storage.

A worker checks `lease.held()` before it writes. It may be paused between the check and the write, for any time: then
the storage has to refuse the write. All it needs is the greatest epoch that has written to the shard so far.
"""

from typing import Any

from groupsdk.shards import Lease


class FencedError(Exception):
    """A later owner of the shard has written already: drop the shard's work."""


# SQL: a row for each shard with its epoch, which is raised in the transaction that writes the result.

SQL_TABLES = """
create table if not exists shard_epochs (shard text primary key, epoch bigint not null);
create table if not exists results (shard text, item text, result text, primary key (shard, item));
"""
SQL_FENCE = """
insert into shard_epochs (shard, epoch) values (?, ?)
on conflict (shard) do update set epoch = excluded.epoch where shard_epochs.epoch <= excluded.epoch
"""
SQL_RESULT = """
insert into results (shard, item, result) values (?, ?, ?)
on conflict (shard, item) do update set result = excluded.result
"""


def write_sql(connection: Any, lease: Lease, item: str, result: str) -> None:
    """Write a result, with a connection of sqlite3; with psycopg `%s` takes the place of `?`.

    The row of the shard is locked until the transaction ends, so that a later owner waits for it and not between both
    statements.

    Raises:
        FencedError: a later owner has written.
    """
    with connection:  # a transaction
        if connection.execute(SQL_FENCE, (lease.name, lease.epoch)).rowcount != 1:
            raise FencedError(lease.name)
        connection.execute(SQL_RESULT, (lease.name, item, result))


# Redis: a script runs as one step. Epochs are below 2**53, so that Lua compares them exactly.

REDIS_WRITE = """
local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0')
if epoch > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], ARGV[2], ARGV[3])
return 1
"""


def write_redis(client: Any, lease: Lease, item: str, result: str) -> None:
    """Write a result into the hash of the shard, with a client of redis-py.

    Raises:
        FencedError: a later owner has written.
    """
    if not client.eval(REDIS_WRITE, 1, f"shard:{lease.name}", lease.epoch, item, result):
        raise FencedError(lease.name)


# S3: each object has the epoch in its metadata, and is replaced only in the version that was read.


def write_s3(client: Any, bucket: str, lease: Lease, key: str, body: bytes) -> None:
    """Write an object of a shard, with a client of boto3.

    Raises:
        FencedError: a later owner has written, or somebody wrote meanwhile.
    """
    try:
        found = client.head_object(Bucket=bucket, Key=key)
    except client.exceptions.ClientError as error:
        if error.response["Error"]["Code"] != "404":
            raise
        condition = {"IfNoneMatch": "*"}
    else:
        if int(found["Metadata"]["epoch"]) > lease.epoch:
            raise FencedError(lease.name)
        condition = {"IfMatch": found["ETag"]}
    # an ETag is a hash of the content: with the epoch in it, two owners never write the same one
    content = lease.epoch.to_bytes(8) + body
    try:
        client.put_object(
            Bucket=bucket, Key=key, Body=content, Metadata={"epoch": str(lease.epoch)}, **condition
        )
    except client.exceptions.ClientError as error:
        if error.response["Error"]["Code"] not in (
            "PreconditionFailed",
            "ConditionalRequestConflict",
        ):
            raise
        raise FencedError(lease.name) from error


# Kafka: a transaction that commits an offset of the group, which its coordinator accepts from members alone.


def write_kafka(
    producer: Any, worker: Any, lease: Lease, topic: str, records: list[bytes], progress: Any
) -> None:
    """Write records and the progress of a shard, together or not at all.

    Args:
        producer: a transactional `confluent_kafka.Producer`, one for each shard.
        worker: the `ShardWorker`.
        records: the values to write.
        progress: a `confluent_kafka.TopicPartition` with the offset to commit for the group.

    Raises:
        FencedError: the worker is out of its group, or the shard is not its own any more.
        KafkaException: the transaction failed for another reason; it is aborted.
    """
    from confluent_kafka import KafkaError, KafkaException

    member = worker.snapshot().to_confluent()  # its generation, before the shard is looked at
    if not lease.held():
        raise FencedError(lease.name)
    producer.begin_transaction()
    try:
        for each in records:
            producer.produce(topic, each)
        producer.send_offsets_to_transaction([progress], member)
        producer.commit_transaction()
    except KafkaException as error:
        producer.abort_transaction()
        fenced = (
            KafkaError.ILLEGAL_GENERATION,
            KafkaError.UNKNOWN_MEMBER_ID,
            KafkaError.FENCED_INSTANCE_ID,
        )
        if error.args[0].code() in fenced:
            raise FencedError(lease.name) from error
        raise
