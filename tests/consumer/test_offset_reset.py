"""Test where auto.offset.reset has partitions begin."""

import pytest

from groupsdk.consumer.config import OffsetReset
from groupsdk.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("by_duration:PT6M", 360_000),
        ("by_duration:PT0S", 0),
        ("BY_DURATION:p1dt2h3m4.5s", ((24 + 2) * 60 + 3) * 60_000 + 4_500),
        ("by_duration:P2D", 2 * 86_400_000),
        ("by_duration:PT0.0019S", 1),
        ("by_duration:PT0,25S", 250),
    ],
)
def test_a_duration_is_read_as_java_reads_it(text: str, duration_ms: int) -> None:
    reset = OffsetReset.parse(text)
    assert (reset.strategy, reset.duration_ms, reset.native) == (
        "by_duration",
        duration_ms,
        "error",
    )
    assert OffsetReset.parse(reset.normal(text)) == reset


@pytest.mark.parametrize(
    "text",
    [
        *("by_duration:", "by_duration:P", "by_duration:PT", "by_duration:6M", "by_duration:P1DT"),
        *(
            "by_duration:PT-6M",
            "by_duration:-PT6M",
            "by_duration:P1W",
            "by_duration:PT6Mx",
        ),
        *("by_duration:PT1S2M", "by_duration:PT\u0661M", "by_duration:PT" + "9" * 400 + "S"),
    ],
)
def test_malformed_duration_of_a_reset_is_refused_with_a_valid_one(text: str) -> None:
    with pytest.raises(ConfigError, match="PT6M"):
        OffsetReset.parse(text)


@pytest.mark.parametrize("text", ["soonest", "", "by_time:PT6M", None, 3])
def test_unknown_reset_is_refused_with_the_valid_ones(text: object) -> None:
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset must be earliest, latest, none or"):
        OffsetReset.parse(text)
