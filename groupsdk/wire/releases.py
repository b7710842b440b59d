"""Tell which release of Apache Kafka came with a version of an API."""

from groupsdk.wire.schema import ApiKey


# Each release that raised the newest version of an API, with that version; read out of `ApiKeys` of
# kafka-clients 0.10.0.1 to 4.0.0. Before 0.10.0 there is no ApiVersions to negotiate with.
_STEPS: dict[ApiKey, tuple[tuple[int, str], ...]] = {
    ApiKey.METADATA: (
        (1, "0.10.0"),
        (2, "0.10.1"),
        (4, "0.11.0"),
        (5, "1.0"),
        (6, "2.0"),
        (7, "2.1"),
        (8, "2.3"),
        (9, "2.4"),
        (11, "2.8"),
        (12, "3.1"),
        (13, "4.0"),
    ),
    ApiKey.OFFSET_COMMIT: (
        (2, "0.10.0"),
        (3, "0.11.0"),
        (4, "2.0"),
        (6, "2.1"),
        (7, "2.3"),
        (8, "2.4"),
        (9, "3.6"),
    ),
    ApiKey.OFFSET_FETCH: (
        (1, "0.10.0"),
        (2, "0.10.2"),
        (3, "0.11.0"),
        (4, "2.0"),
        (5, "2.1"),
        (6, "2.4"),
        (7, "2.5"),
        (8, "3.0"),
        (9, "3.7"),
    ),
    ApiKey.FIND_COORDINATOR: (
        (0, "0.10.0"),
        (1, "0.11.0"),
        (2, "2.0"),
        (3, "2.4"),
        (4, "3.0"),
        (5, "3.8"),
        (6, "3.9"),
    ),
    ApiKey.JOIN_GROUP: (
        (0, "0.10.0"),
        (1, "0.10.1"),
        (2, "0.11.0"),
        (3, "2.0"),
        (4, "2.2"),
        (5, "2.3"),
        (6, "2.4"),
        (7, "2.5"),
        (9, "3.2"),
    ),
    ApiKey.HEARTBEAT: (
        (0, "0.10.0"),
        (1, "0.11.0"),
        (2, "2.0"),
        (3, "2.3"),
        (4, "2.4"),
    ),
    ApiKey.LEAVE_GROUP: (
        (0, "0.10.0"),
        (1, "0.11.0"),
        (2, "2.0"),
        (4, "2.4"),
        (5, "3.2"),
    ),
    ApiKey.SYNC_GROUP: (
        (0, "0.10.0"),
        (1, "0.11.0"),
        (2, "2.0"),
        (3, "2.3"),
        (4, "2.4"),
        (5, "2.5"),
    ),
    ApiKey.DESCRIBE_GROUPS: (
        (0, "0.10.0"),
        (1, "0.11.0"),
        (2, "2.0"),
        (3, "2.3"),
        (5, "2.4"),
        (6, "4.0"),
    ),
    ApiKey.LIST_GROUPS: (
        (0, "0.10.0"),
        (1, "0.11.0"),
        (2, "2.0"),
        (3, "2.4"),
        (4, "2.6"),
        (5, "3.8"),
    ),
    ApiKey.SASL_HANDSHAKE: (
        (0, "0.10.0"),
        (1, "1.0"),
    ),
    ApiKey.API_VERSIONS: (
        (0, "0.10.0"),
        (1, "0.11.0"),
        (2, "2.0"),
        (3, "2.4"),
        (4, "3.9"),
    ),
    ApiKey.SASL_AUTHENTICATE: (
        (0, "1.0"),
        (1, "2.2"),
        (2, "2.5"),
    ),
    ApiKey.DELETE_GROUPS: (
        (0, "1.1"),
        (1, "2.0"),
        (2, "2.4"),
    ),
}


def first_release(key: ApiKey, version: int) -> str | None:
    """Name the first release of Apache Kafka that offers at least this version; None if none is known."""
    for newest, release in _STEPS[key]:
        if newest >= version:
            return release
    return None
