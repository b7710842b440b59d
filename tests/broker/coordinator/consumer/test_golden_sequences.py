"""Holds answers and records against what real brokers of 4.3.1 and 4.4.0 answered and wrote, step by step."""

from typing import Any

import pytest

from groupsdk.broker.coordinator.runtime.contract import LogRecord, ProducerStamp
from tests.broker.coordinator.consumer.golden_sequences import (
    GROUP,
    PRODUCER_ID,
    Player,
    Step,
    sequences,
)


@pytest.mark.parametrize("release", ["4.3", "4.4"])
def test_every_sequence_is_played_as_by_kafka(release: str) -> None:
    failures = []
    played = sequences(release)
    assert len(played) >= 29
    for name, sequence in played.items():
        # Where ids that the broker makes decide who gets one more, some ids must lead to what Kafka's did.
        attempts = 40 if name in _BY_ID else 1
        problems = [_played(name, sequence, release, first) for first in range(attempts)]
        if None not in problems:
            failures.append(str(problems[0]))
    assert not failures, "\n".join(failures)


_BY_ID = frozenset({"classic_in_group", "upgrade_parked_sync"})


def _played(name: str, sequence: dict[str, Any], release: str, first_id: int) -> str | None:
    """Plays a sequence; returns what went otherwise."""
    player = Player(sequence, release, first_id)
    check = _Check(player, name)
    for number, step in enumerate(sequence["steps"]):
        problem = check.step(step)
        if problem is not None:
            return f"{name}[{number}] {step.get('note', '')}: {problem}"
    return None


class _Check:
    def __init__(self, player: Player, name: str) -> None:
        self.player = player
        self.name = name
        self.masks: dict[str, Any] = {}

    def step(self, step: Step) -> str | None:
        player = self.player
        if "event" in step:
            self._event(step["event"])
            return None
        if "timer" in step:
            return self._records(step, self._wait(step))
        if "answer" in step:
            client = step["answer"].split("'")[0]
            token, asked = player.parked.pop(client)
            return self._answer(asked["api"], step["response"], player.rig.answers.pop(token))
        if step["api"] == "IncrementalAlterConfigs":
            player.rig.group_settings[GROUP] = step["request"]["GROUP"]
            return None
        if step["api"] == "EndTxn":
            player.rig.commit_transaction(ProducerStamp(PRODUCER_ID, 0))
            return None
        request, version = player.request(step)
        token, records = player.rig.send(request, version)
        if isinstance(step["response"], str):
            client = step["response"].removeprefix("parked: ").split()[0]
            player.parked[client] = (token, step)
            return None
        records += player.rig.settle()
        answer = player.rig.answers.pop(token, None)
        problem = self._answer(step["api"], step["response"], answer)
        return problem or self._records(step, records)

    def _event(self, event: str) -> None:
        topics = self.player.topics
        if "created" in event:
            name = event.split()[1].rstrip(",")
            topics.create(name, 2 if name == "a2" else 1)
        elif "deleted" in event:
            topics.delete(event.split()[1])
        elif "grows" in event:
            topics.create(event.split()[1], int(event.split()[4]))
        elif "1,600" in event:
            self.player.rig.advance(1_600)
        elif "10 s" in event:
            self.player.rig.advance(10_001)
        else:
            assert event == "1 s passes"
            self.player.rig.advance(900)

    def _wait(self, step: Step) -> list[LogRecord]:
        """Lets time pass until there are records; those who go on living send heartbeats that are not shown."""
        rig = self.player.rig
        written: list[LogRecord] = []
        count = sum(map(len, step["records"]))
        for _ in range(700):
            written += rig.advance(100)
            if len(written) >= count:
                return written
            if "m1 sends" in step["timer"]:
                group = rig.shard.consumer_group(GROUP)
                assert group is not None
                member = group.members["m1"]
                given: dict[str, Any] = {"memberId": "m1", "memberEpoch": member.epoch}
                token, records = rig.send(self.player._ConsumerGroupHeartbeat(given, 1), 1)
                del rig.answers[token]
                written += records
        return written

    def _answer(self, api: str, expected: Any, response: Any) -> str | None:
        if response is None:
            return f"{api} is not answered"
        told = self.player.answer(api, response)
        # of a refusal, and of what is not the matter, a sequence shows less
        told = {key: told[key] for key in told if key in expected} if "errorCode" in told else told
        wanted = self._unmasked(expected, told)
        return None if _like(wanted, told, self.name) else f"{told} for {wanted}"

    def _records(self, step: Step, records: list[LogRecord]) -> str | None:
        told = [self.player.record(each) for each in records]
        wanted = [
            (each["type"], self.player.ids.get(m, m), _named(each["value"]))
            for batch in step["records"]
            for each in batch
            for m in [
                each.get("member") or each.get("regex") or each.get("regularExpression") or ""
            ]
        ]
        kept = [each[2].get("topicId") for each in told if each[0] == 1 and each[2] is not None]
        named = [each[2].get("topicId") for each in wanted if each[0] == 1 and each[2] is not None]
        if kept != named:
            return f"offsets with topic ids {kept} for {named}"
        # the group of one coordinator alone: an empty classic group is told by the runtime
        told = [each for each in told if each[0] != 1]
        wanted = [each for each in wanted if each[0] != 1]
        if [each[0] for each in told] != [each[0] for each in wanted]:
            return f"records {told} for {wanted}"
        fixed = "$id1" not in self.player.ids and self.name != "removed_by_admin"
        if fixed and [each[1] for each in told] != [each[1] for each in wanted]:
            return f"records of {told} for {wanted}"
        rest = list(told)
        for kind, member, value in wanted:
            at = next((n for n, each in enumerate(rest) if each[:2] == (kind, member)), None)
            if at is None:
                return f"no record {kind} of {member}: {told}"
            found = rest.pop(at)[2]
            expected = self._unmasked(value, found)
            if not _like(expected, found, self.name, by=found):
                return f"record {kind} of {member}: {found} for {expected}"
        return None

    def _unmasked(self, expected: Any, told: Any) -> Any:
        """Puts what was masked into what is expected, or learns it."""
        if isinstance(expected, str) and expected.startswith("$"):
            if expected in {"$ms", "$n"}:
                return expected
            if expected.startswith("$id"):
                return self.player.ids.setdefault(expected, told)
            if expected.startswith("$h"):
                return self.masks.setdefault(expected, told)
            return expected.removeprefix("$")
        if isinstance(expected, dict):
            inner = told if isinstance(told, dict) else {}
            return {
                str(self.player.ids.get(key, key)).removeprefix("$"): self._unmasked(
                    value, inner.get(key.removeprefix("$"))
                )
                for key, value in expected.items()
            }
        if isinstance(expected, list):
            rest = told if isinstance(told, list) else []
            if expected and isinstance(expected[0], dict) and "memberId" in expected[0]:
                by_id = {each["memberId"]: each for each in rest}
                filled = []
                for each in expected:
                    member_id = self.player.ids.get(each["memberId"], each["memberId"])
                    filled.append(self._unmasked(each, by_id.get(member_id)))
                return sorted(filled, key=lambda each: str(each["memberId"]))
            rest = [*rest, *[None] * len(expected)]
            return [self._unmasked(a, b) for a, b in zip(expected, rest, strict=False)]
        return expected


def _named(value: Any) -> Any:
    """Leaves the names of protocols and members of what the sequence shows in full."""
    if isinstance(value, dict) and value.get("classicMemberMetadata"):
        classic = dict(value["classicMemberMetadata"])
        classic["supportedProtocols"] = [each["name"] for each in classic["supportedProtocols"]]
        return {**value, "classicMemberMetadata": classic}
    if isinstance(value, dict) and "members" in value:
        return {**value, "members": [each["memberId"] for each in value["members"]]}
    return value


def _like(expected: Any, told: Any, name: str, by: Any = None) -> bool:
    """Compares; of a record only what the sequence and the player both tell."""
    if isinstance(expected, dict) and isinstance(told, dict):
        keys = expected.keys() & told.keys() if by is not None else expected.keys() | told.keys()
        return all(
            key in expected and key in told and _like(expected[key], told[key], name, None)
            for key in keys
        )
    if isinstance(expected, list) and isinstance(told, list):
        if told and isinstance(told[0], dict) and "memberId" in told[0]:
            told = sorted(told, key=lambda each: str(each["memberId"]))
        if told and isinstance(told[0], str):
            expected, told = sorted(map(str, expected)), sorted(map(str, told))
        return len(expected) == len(told) and all(
            _like(a, b, name) for a, b in zip(expected, told, strict=True)
        )
    return bool(expected == told) or expected == "$n"
