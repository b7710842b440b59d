"""Standstills: pauses between commits that are longer than usual, within a generation and between two."""

from groupsdk.history.explain.commit_spans import REMOVED, CommitPart, CommitSpans, Standstill


def part(first_s: int, last_s: int, commits: int, offset: int | None = None) -> CommitPart:
    """Commit one partition so often, from one second to another."""
    return CommitPart(
        *("g", 0, last_s, 0, "t", 0),
        *(1_000 * first_s, 1_000 * last_s, last_s if offset is None else offset, commits),
    )


def taken(*parts: CommitPart) -> list[tuple[float, float, float]]:
    """Return the standstills within one generation: from when to when, and what was usual; in seconds."""
    spans = CommitSpans()
    return [_seconds(each) for each in map(spans.take, parts) if each is not None]


def _seconds(found: Standstill) -> tuple[float, float, float]:
    return found.start_ms / 1_000, found.end_ms / 1_000, found.usual_ms / 1_000


def test_a_pause_longer_than_usual_is_a_standstill() -> None:
    assert taken(part(0, 50, 11), part(110, 150, 9)) == [(50, 110, 5)]
    # twice the usual time is nothing, and neither is what reading sums up
    assert taken(part(0, 72, 10), part(88, 96, 2)) == []
    assert taken(part(0, 50, 11), part(55, 100, 10)) == []


def test_what_is_always_far_apart_does_not_stand_still() -> None:
    slow = [part(60 * n, 60 * n, 1) for n in range(20)]
    assert taken(*slow) == []
    assert taken(*slow, part(2_000, 2_000, 1)) == [(1_140, 2_000, 60)]


def test_a_pace_that_changes_becomes_the_usual_one() -> None:
    slow = [part(60 * n, 60 * n, 1) for n in range(20)]
    slower = [part(1_140 + 300 * n, 1_140 + 300 * n, 1) for n in range(1, 40)]
    found = taken(*slow, *slower)
    assert 0 < len(found) < 20
    assert taken(*slow, *slower, *(part(12_840 + 300 * n, 0, 1) for n in range(1, 1))) == found


def test_a_pause_after_which_nothing_new_was_read_is_none() -> None:
    assert taken(part(0, 50, 11, offset=7), part(110, 150, 9, offset=7)) == []


def removed(second: int) -> CommitPart:
    """Remove the committed offset, as when the topic is deleted."""
    return CommitPart("g", 0, second, 0, "t", 0, 1_000 * second, 1_000 * second, None, REMOVED)


def test_a_partition_does_not_stand_still_while_its_topic_is_deleted() -> None:
    assert taken(part(0, 50, 11), removed(51), part(110, 150, 9)) == []
    assert taken(part(0, 50, 11), removed(51), part(110, 150, 9), part(250, 260, 2)) != []
    spans = CommitSpans()
    spans.take(part(0, 50, 11))
    spans.take(removed(51))
    spans.close(0)
    # neither over a rebalance, and it is no partition that is followed
    assert spans.partitions["t", 0].is_removed
    spans.take(part(110, 150, 9))
    assert list(spans.standstills()) == []
    assert spans.gaps() == []
    assert not spans.partitions["t", 0].is_removed


def test_pauses_do_not_depend_on_how_the_log_was_cut() -> None:
    whole = taken(part(0, 50, 11), part(110, 150, 9), part(400, 405, 2))
    cut = taken(
        *(part(0, 20, 5), part(25, 25, 1), part(30, 50, 5)),
        *(part(110, 110, 1), part(115, 150, 8), part(400, 400, 1), part(405, 405, 1)),
    )
    assert len(whole) == 2
    assert cut == whole


def test_between_generations_shorter_pauses_count() -> None:
    spans = CommitSpans()
    spans.take(part(0, 10, 11))
    spans.close(0)
    spans.take(part(15, 20, 6))
    (found,) = spans.standstills()
    assert _seconds(found) == (10, 15, 1)
    assert found.stalled_ms == 3_000
    spans.close(1)
    (progress,) = spans.partitions.values()
    assert (progress.stalled_ms, progress.commits, progress.newest.last_offset) == (3_000, 17, 20)


def test_a_quiet_partition_is_held_to_its_own_pace() -> None:
    spans = CommitSpans()
    stood = []
    for seq in range(9):
        # a busy partition beside it commits each second
        busy = part(600 * seq, 600 * seq + 30, 31)
        spans.take(busy._replace(partition=1))
        spans.take(part(600 * seq + 1, 600 * seq + 1, 1))
        stood.append([each for each in spans.standstills() if each.partition == 0])
        spans.close(seq)
    # its first pause may be one, as others were faster
    assert [len(each) for each in stood] == [0, 1, *[0] * 7]
