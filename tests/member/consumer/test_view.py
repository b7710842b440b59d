import pickle

from groupsdk.member.consumer.state import ConsumerMemberState
from groupsdk.member.state import MemberState
from tests.member.consumer.driving import Member


def test_a_view_has_the_state_in_the_terms_of_both_protocols(member: Member) -> None:
    view = member.view
    assert view.state is MemberState.STABLE
    assert view.consumer_state is ConsumerMemberState.STABLE
    assert view.generation.protocol_name == "consumer"


def test_a_view_crosses_to_another_process(member: Member) -> None:
    assert pickle.loads(pickle.dumps(member.view)) == member.view
