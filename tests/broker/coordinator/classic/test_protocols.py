from collections import Counter

import pytest

from groupsdk.broker.coordinator.classic.member import Protocols, choose_protocol, metadata_of


def choose(*offers: str) -> str | None:
    """Each offer is names in order of preference."""
    listed: list[Protocols] = [tuple((name, b"") for name in each.split()) for each in offers]
    return choose_protocol(listed, Counter(name for each in listed for name, _ in each))


@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        (("range",), "range"),
        (("range roundrobin", "roundrobin range", "roundrobin range"), "roundrobin"),
        (("sticky range", "range"), "range"),
        (("sticky range", "sticky roundrobin range"), "sticky"),
        (("range", "sticky"), None),
        # a tie goes to the first in a Java HashMap, whoever votes first
        (("range sticky", "sticky range"), "sticky"),
        (("roundrobin range", "range roundrobin"), "range"),
        (("cooperative-sticky roundrobin", "roundrobin cooperative-sticky"), "roundrobin"),
        (("sessioned default", "default sessioned"), "default"),
        (("sessioned compatible", "compatible sessioned"), "compatible"),
    ],
)
def test_the_most_votes_among_what_all_support(offers: tuple[str, ...], chosen: str | None) -> None:
    assert choose(*offers) == chosen


def test_a_map_of_many_names_is_larger() -> None:
    # "0" is in the first of 16 buckets and "A" in the second; of 32 buckets "0" is in the seventeenth
    assert choose("A 0", "0 A") == "0"

    others = [chr(code) for code in range(ord("b"), ord("m"))]
    names = ["A", "0", *others]
    votes = ["A", "A", "0", "0", *others]
    offers = [" ".join([vote, *(each for each in names if each != vote)]) for vote in votes]

    assert choose(*offers) == "A"


def test_metadata_of_a_protocol() -> None:
    offer = (("a", b"1"), ("b", b"2"))

    assert metadata_of(offer, "b") == b"2"
    assert metadata_of(offer, "c") == b""
    assert metadata_of(offer, None) == b""
