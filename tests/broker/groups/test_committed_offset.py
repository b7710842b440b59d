from groupsdk.broker.groups.committed_offset import CommittedOffset


def test_only_the_offset_has_to_be_known() -> None:
    assert CommittedOffset(5) == (5, -1, "", -1, -1)
