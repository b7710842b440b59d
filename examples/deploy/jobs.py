"""The handler that the files in this folder run."""

from confluent_kafka import Message


def handle(message: Message) -> None:
    """Take one record; it counts as processed when this returns."""
    print(message.topic(), message.offset(), message.value(), flush=True)
