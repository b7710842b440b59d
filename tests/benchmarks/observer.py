"""Start a Kafka, make what the peers need in it, and look at groups from outside."""

import contextlib
import itertools
import socket
import time
from collections.abc import Iterator
from typing import Self

from groupsdk.testing import LocalKafka
from groupsdk.wire.api import decode_response, encode_request
from groupsdk.wire.messages.groups import DescribeGroupsRequest, DescribeGroupsResponse
from tests.support.topics import create_topic


TOPIC = "benchmark"
PARTITIONS = 64
_VERSION = 4


class Observer:
    """Asks the broker for the state of a group, over one blocking connection."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._file = self._socket.makefile("rb")
        self._ids = itertools.count(1)

    def group(self, group_id: str) -> tuple[str, int]:
        """Return the state of a group and how many members it has."""
        request = DescribeGroupsRequest(groups=(group_id,))
        self._socket.sendall(encode_request(request, _VERSION, next(self._ids), "observer"))
        payload = self._file.read(int.from_bytes(self._file.read(4), "big"))
        _, response = decode_response(DescribeGroupsRequest, _VERSION, payload)
        if not isinstance(response, DescribeGroupsResponse):
            raise TypeError(type(response).__name__)
        group = response.groups[0]
        return group.group_state, len(group.members)

    def wait_stable(self, group_id: str, members: int, timeout_s: float) -> None:
        """Wait until a group is stable with so many members.

        Raises:
            TimeoutError: it was not in time.
        """
        end = time.monotonic() + timeout_s
        seen = ("", 0)
        while seen != ("Stable", members):
            if time.monotonic() > end:
                raise TimeoutError(f"{seen[0]} with {seen[1]} of {members} after {timeout_s:.0f} s")
            time.sleep(0.02)
            seen = self.group(group_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()


@contextlib.contextmanager
def kafka_with_topic() -> Iterator[LocalKafka]:
    """Start a Kafka with the topic that the peers' members subscribe to."""
    with LocalKafka() as kafka:
        create_topic(kafka.bootstrap_servers, TOPIC, PARTITIONS)
        yield kafka
