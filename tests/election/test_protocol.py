"""Holds how an election is decided."""

from hypothesis import given, strategies as st

from groupsdk.election.protocol import Candidate, Verdict, elect


def members(**candidates: str) -> dict[str, bytes]:
    """Read "name", "name leads", "name out" or "name yields"."""
    made = {}
    for member, text in candidates.items():
        name, *more = text.split()
        made[member] = Candidate(
            name, "out" not in more, "leads" in more, "yields" in more
        ).encode()
    return made


def test_the_first_by_name_leads_and_the_others_wait_in_order() -> None:
    assert elect(members(m1="c", m2="a", m3="b")) == Verdict("m2", "a", ("b", "c"))


def test_current_leader_is_elected_again() -> None:
    assert elect(members(m1="a", m2="b leads", m3="c")) == Verdict("m2", "b", ("a", "c"))


def test_ineligible_candidate_is_not_elected_even_if_it_claims_to_lead() -> None:
    assert elect(members(m1="a out leads", m2="b")) == Verdict("m2", "b", ())
    assert elect(members(m1="a out")) == Verdict()


def test_candidate_that_resigned_yields_to_all_others() -> None:
    assert elect(members(m1="a yields", m2="b")) == Verdict("m2", "b", ("a",))
    assert elect(members(m1="a yields")) == Verdict("m1", "a", ())


def test_a_process_without_a_name_is_called_by_its_id() -> None:
    assert elect({"m1": Candidate("", True, False).encode()}) == Verdict("m1", "m1", ())


def test_encoded_verdict_is_decoded_to_itself() -> None:
    verdict = Verdict("m1", "a", ("b", "c"))
    assert Verdict.decode(verdict.encode()) == verdict
    assert Verdict.decode(Verdict().encode()) == Verdict()


@given(st.dictionaries(st.text(min_size=1, max_size=4), st.binary(max_size=30), max_size=4))
def test_data_of_foreign_members_is_ignored(sent: dict[str, bytes]) -> None:
    assert elect(sent) == Verdict()
    assert elect({**sent, "mine": Candidate("a", True, False).encode()}).leader_id == "mine"
    for data in sent.values():
        assert Verdict.decode(data) == Verdict()
