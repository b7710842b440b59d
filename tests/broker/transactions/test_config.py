"""Tests the settings of a transaction coordinator."""

import pytest

from groupsdk.broker.transactions.config import TransactionConfig
from groupsdk.errors import ConfigError


def test_the_defaults_are_kafkas() -> None:
    config = TransactionConfig()
    assert config.transaction_max_timeout_ms == 15 * 60 * 1_000
    assert config.transactional_id_expiration_ms == 7 * 24 * 3_600 * 1_000
    assert config.transaction_abort_timed_out_transaction_cleanup_interval_ms == 10_000
    assert config.transaction_remove_expired_transaction_cleanup_interval_ms == 3_600_000
    assert config.transaction_version == 2
    assert config.offsets_topic_num_partitions == 50


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("transaction_max_timeout_ms", 0, r"transaction\.max\.timeout\.ms must be from 1 to"),
        ("transaction_max_timeout_ms", 2**31, "must be from 1 to 2147483647, not 2147483648"),
        ("transaction_version", 3, r"transaction\.version must be from 0 to 2, not 3"),
        ("transaction_version", -1, r"transaction\.version must be from 0 to 2, not -1"),
        (
            "offsets_topic_num_partitions",
            0,
            r"offsets\.topic\.num\.partitions must be from 1 to 2147483647, not 0",
        ),
        (
            "transactional_id_expiration_ms",
            "7d",
            r"expiration\.ms must be an integer, not '7d'",
        ),
        ("transactional_id_expiration_ms", True, "an integer, not True"),
        ("marker_retry_backoff_max_ms", 1, r"must not be less than marker\.retry\.backoff\.ms"),
    ],
)
def test_a_wrong_setting_says_what_would_be_right(name: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TransactionConfig(**{name: value})  # type: ignore[arg-type]  # wrong on purpose
