"""Use the embedded broker through confluent-kafka: idempotent producer, consumers of one group, transactions."""

from contextlib import ExitStack

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    ShareConsumer,
    TopicPartition,
)

from groupsdk.broker.embedded import EmbeddedBroker
from tests.clients.confluent import TIMEOUT_S, consumer_of, producer_of, taken, values
from tests.support.workers import eventually


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_an_idempotent_producer_s_records_come_back_in_order(
    broker: EmbeddedBroker, topic: str, group_id: str, compression: str
) -> None:
    delivered: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None
        delivered.append(message)

    producer = producer_of(
        broker, enable_idempotence=True, compression_type=compression, batch_num_messages=100
    )
    for number in range(1_000):
        producer.produce(
            topic,
            b"%d" % number,
            key=b"%d" % (number % 7),
            partition=number % 4,
            headers=[("n", b"%d" % number)],
            on_delivery=on_delivery,
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert len(delivered) == 1_000

    with consumer_of(broker, group_id) as consumer:
        consumer.subscribe([topic])
        messages = taken(consumer, 1_000)
    for partition in range(4):
        mine = [message for message in messages if message.partition() == partition]
        assert [message.offset() for message in mine] == list(range(250))
        assert [message.value() for message in mine] == [
            b"%d" % number for number in range(1_000) if number % 4 == partition
        ]
        assert mine[3].headers() == [("n", mine[3].value())]


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_three_consumers_share_a_topic_and_take_over_from_one_that_leaves(
    broker: EmbeddedBroker, topic: str, group_id: str, strategy: str
) -> None:
    with ExitStack() as stack:
        consumers = [
            stack.enter_context(
                consumer_of(
                    broker, group_id, client_id=f"c{n}", partition_assignment_strategy=strategy
                )
            )
            for n in range(2)
        ]
        for consumer in consumers:
            consumer.subscribe([topic])

        def shares() -> list[int]:
            for consumer in consumers:
                consumer.poll(0.02)
            return sorted(len(consumer.assignment()) for consumer in consumers)

        eventually(lambda: shares() == [2, 2], "two of two each")
        seen = broker.groups[group_id]
        assert len(seen.members) == 2
        with consumer_of(
            broker, group_id, client_id="last", partition_assignment_strategy=strategy
        ) as third:
            third.subscribe([topic])
            consumers.append(third)
            eventually(lambda: shares() == [1, 1, 2], "four for three")
            consumers.remove(third)
        eventually(lambda: shares() == [2, 2], "what the third left")


def test_offsets_are_committed_and_gone_on_from(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    producer = producer_of(broker)
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=0)
    producer.flush(TIMEOUT_S)
    with consumer_of(broker, group_id) as consumer:
        consumer.subscribe([topic])
        messages = taken(consumer, 4)
        consumer.commit(
            offsets=[TopicPartition(topic, 0, 4, metadata="half way")], asynchronous=False
        )
        assert values(messages) == [b"0", b"1", b"2", b"3"]
    with consumer_of(broker, group_id) as consumer:
        consumer.subscribe([topic])
        assert values(taken(consumer, 6)) == [b"%d" % n for n in range(4, 10)]
        (found,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
        assert found.offset == 4
        assert found.metadata == "half way"
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0)) == (0, 10)
        (at,) = consumer.offsets_for_times([TopicPartition(topic, 0, 0)], TIMEOUT_S)
        assert at.offset == 0


def test_a_static_member_comes_back_without_a_rebalance_and_fences_its_double(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    static = {"group_instance_id": "one"}
    with consumer_of(broker, group_id, **static) as first:
        first.subscribe([topic])

        def has_all(consumer: Consumer) -> bool:
            consumer.poll(0.05)
            return len(consumer.assignment()) == 4

        eventually(lambda: has_all(first))
        before = broker.classic_group(group_id)
        assert before is not None
    # a static member that closes stays in the group
    assert set(broker.groups[group_id].members) == set(before.members)
    fenced: list[KafkaError] = []
    with consumer_of(broker, group_id, **static) as second:
        second.subscribe([topic])
        eventually(lambda: has_all(second))
        after = broker.classic_group(group_id)
        assert after is not None
        assert after.generation_id == before.generation_id
        assert set(after.members) != set(before.members)
        with consumer_of(broker, group_id, **static) as third:
            third.subscribe([topic])
            eventually(lambda: has_all(third))

            def is_fenced() -> bool:
                message = second.poll(0.05)
                error = None if message is None else message.error()
                if error is not None:
                    fenced.append(error)
                return KafkaError._FATAL in [error.code() for error in fenced]

            eventually(is_fenced, lambda: f"errors {fenced}")
            assert "fenced by other consumer" in fenced[-1].str()


def test_confluent_transaction_carries_records_and_offsets_or_nothing(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    output = f"{topic}-out"
    broker.create_topic(output, 2)
    source = producer_of(broker)
    for number in range(6):
        source.produce(topic, b"%d" % number, partition=0)
    source.flush(TIMEOUT_S)
    producer = producer_of(broker, transactional_id=group_id)
    producer.init_transactions(TIMEOUT_S)
    with consumer_of(broker, group_id, isolation_level="read_committed") as consumer:
        consumer.subscribe([topic])
        for outcome in ("commit", "abort", "commit"):
            messages = taken(consumer, 2)
            producer.begin_transaction()
            for message in messages:
                producer.produce(output, (message.value() or b"") + outcome.encode())
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()),
                consumer.consumer_group_metadata(),
                TIMEOUT_S,
            )
            if outcome == "commit":
                producer.commit_transaction(TIMEOUT_S)
            else:
                # what librdkafka has not sent it would not send any more
                producer.flush(TIMEOUT_S)
                producer.abort_transaction(TIMEOUT_S)
                (back,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
                assert back.offset == 2
        (end,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
        assert end.offset == 6
    with consumer_of(broker, f"{group_id}-r", isolation_level="read_committed") as reader:
        reader.subscribe([output])
        assert values(taken(reader, 4)) == [b"0commit", b"1commit", b"4commit", b"5commit"]
    with consumer_of(broker, f"{group_id}-u", isolation_level="read_uncommitted") as reader:
        reader.subscribe([output])
        assert len(taken(reader, 6)) == 6


def test_a_reader_of_committed_records_waits_for_the_end_of_a_transaction(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    producer = producer_of(broker, transactional_id=group_id)
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"in doubt", partition=0)
    producer.flush(TIMEOUT_S)
    partition = TopicPartition(topic, 0, 0)
    with (
        consumer_of(broker, group_id, isolation_level="read_committed") as careful,
        consumer_of(broker, group_id, isolation_level="read_uncommitted") as careless,
    ):
        careful.assign([partition])
        careless.assign([partition])
        assert values(taken(careless, 1)) == [b"in doubt"]
        assert careful.poll(0.3) is None
        assert careful.get_watermark_offsets(partition) == (0, 0)
        producer.commit_transaction(TIMEOUT_S)
        assert values(taken(careful, 1)) == [b"in doubt"]


def test_a_second_producer_fences_the_first_and_ends_its_transaction(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    first = producer_of(broker, transactional_id=group_id)
    first.init_transactions(TIMEOUT_S)
    first.begin_transaction()
    first.produce(topic, b"lost", partition=0)
    first.flush(TIMEOUT_S)
    second = producer_of(broker, transactional_id=group_id)
    second.init_transactions(TIMEOUT_S)
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(TIMEOUT_S)
    assert caught.value.args[0].code() in {KafkaError._FENCED, KafkaError.PRODUCER_FENCED}
    assert caught.value.args[0].fatal()
    second.begin_transaction()
    second.produce(topic, b"kept", partition=0)
    second.commit_transaction(TIMEOUT_S)
    with consumer_of(broker, group_id, isolation_level="read_committed") as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        assert values(taken(reader, 1)) == [b"kept"]


@pytest.mark.timeout(180)
def test_a_producer_goes_on_while_leaders_and_coordinators_move(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    failures: list[KafkaError] = []
    sent = 0

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = producer_of(broker, enable_idempotence=True, retry_backoff_ms=20)
    with consumer_of(broker, group_id) as consumer:
        consumer.subscribe([topic])
        messages: list[Message] = []
        for round_ in range(6):
            for _ in range(50):
                producer.produce(
                    topic,
                    b"%d" % sent,
                    partition=sent % 4,
                    on_delivery=on_delivery,
                )
                sent += 1
            if round_ == 0:
                # librdkafka does not ask again for committed offsets that a moved coordinator
                # refused (its issue 5586): let it have them before anything moves
                messages += taken(consumer, 1, 60)
            for partition in range(4):
                broker.move_leader(topic, partition, 1 + (partition + round_) % 3)
            broker.move_coordinator(group_id, 1 + round_ % 3)
            # librdkafka backs off, more with each move that it meets
            messages += taken(consumer, 25, 60)
            consumer.commit(asynchronous=False)
        assert producer.flush(TIMEOUT_S) == 0
        messages += taken(consumer, sent - len(messages), 60)
    assert not failures
    assert sorted(int(message.value() or b"") for message in messages) == list(range(sent))


def test_a_share_consumer_is_told_that_there_are_no_share_groups(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group_id}
    consumer = ShareConsumer(settings)
    consumer.subscribe([topic])
    with pytest.raises(KafkaException) as refused:
        consumer.poll(TIMEOUT_S)
    consumer.close()
    error = refused.value.args[0]
    assert (error.code(), error.fatal()) == (KafkaError.UNSUPPORTED_VERSION, True)
