"""Test dead letters: any record, and what its headers say."""

from groupsdk.dead_letters import ErrantRecord


def test_any_record_can_be_a_dead_letter() -> None:
    record = ErrantRecord(b"k", b"v", (("h", b"1"),), "t", 0, 7)
    assert ErrantRecord.of(record) is record
    assert ErrantRecord.of(b"x").value == b"x"
    assert ErrantRecord.of("ä").value == "ä".encode()
    assert ErrantRecord.of(None).value is None
    assert ErrantRecord.of({"a": {1}}).value == b'{"a": "{1}"}'
    # neither of which JSON has
    assert ErrantRecord.of({(1, 2): 3}).value == b"{(1, 2): 3}"
    itself: list[object] = []
    itself.append(itself)
    assert ErrantRecord.of(itself).value == b"[[...]]"
    assert record.place == "topic=t partition=0 offset=7"
    assert ErrantRecord.of(b"x" * 300).place == f"key=null value='{'x' * 200}'..."
