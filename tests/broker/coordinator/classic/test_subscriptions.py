import pytest

from groupsdk.broker.coordinator.classic.member import subscribed_topics
from tests.broker.coordinator.group.driving import subscription


def test_the_topics_of_all_members() -> None:
    assert subscribed_topics([subscription("a", "b"), subscription("b", "c")]) == frozenset("abc")
    assert subscribed_topics([]) == frozenset()


def test_equal_topics_are_kept_once() -> None:
    one = subscribed_topics([subscription("a", "b")])

    assert one is subscribed_topics([subscription("a", "b")] * 2)


@pytest.mark.parametrize("version", [1, 2, 3, 99])
def test_a_newer_version_is_read_as_the_oldest(version: int) -> None:
    # whatever it adds after the fields of version 0
    newer = version.to_bytes(2) + subscription("t")[2:] + b"\xff\xff\xff"

    assert subscribed_topics([newer]) == frozenset("t")


@pytest.mark.parametrize("broken", [b"", b"\0", b"m", b"\0\0\0\0\0\5\0\1t"])
def test_one_that_cannot_be_read_makes_all_unknown(broken: bytes) -> None:
    assert subscribed_topics([subscription("t"), broken]) is None
