"""Tests the table of Kafka's releases."""

import pytest

from groupsdk.wire.api import request_class
from groupsdk.wire.releases import first_release
from groupsdk.wire.schema import ApiKey
from tests.support.cases import each_case


@pytest.mark.parametrize(
    ("key", "version", "release"),
    [
        (ApiKey.JOIN_GROUP, 0, "0.10.0"),
        (ApiKey.JOIN_GROUP, 5, "2.3"),  # KIP-345, static members
        (ApiKey.JOIN_GROUP, 8, "3.2"),  # KIP-800, reasons
        (ApiKey.JOIN_GROUP, 9, "3.2"),  # KIP-814, skipAssignment
        (ApiKey.FIND_COORDINATOR, 4, "3.0"),  # KIP-699, several keys
        (ApiKey.SASL_AUTHENTICATE, 0, "1.0"),
        (ApiKey.OFFSET_COMMIT, 9, "3.7"),  # 3.6 has it as an unstable one, which no broker offers
        (ApiKey.PRODUCE, 13, "4.1"),  # KIP-516, topic ids
        (ApiKey.LIST_OFFSETS, 11, "4.2"),  # KIP-1023
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, "3.7"),  # KIP-848, before that an unstable one
        (ApiKey.JOIN_GROUP, 10, None),
    ],
)
def test_first_release_of_an_api_version_is_known(
    key: ApiKey, version: int, release: str | None
) -> None:
    assert first_release(key, version) == release


@each_case("key", ApiKey)
def test_every_declared_version_has_a_release(key: ApiKey) -> None:
    api = request_class(key).api

    assert all(
        first_release(key, version) for version in range(api.min_version, api.max_version + 1)
    )
