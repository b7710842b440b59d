"""Errors of starting and running a real Kafka for tests."""

from groupsdk.errors import GroupSdkError


class LocalKafkaError(GroupSdkError):
    """Root of the errors of `groupsdk.testing`."""


class MissingToolError(LocalKafkaError):
    """A program or package that is needed is not installed; the text says which one to install."""


class FetchError(LocalKafkaError):
    """The jars could not be fetched; the text ends with the last lines that Maven wrote."""


class BrokerStartError(LocalKafkaError):
    """A broker did not start or did not get ready; the text ends with the tail of its log."""
