"""Checks that a report has what the verdict finds in a log."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from groupsdk.history.report.findings import findings
from groupsdk.history.tables.schemas import TABLES


END = datetime(2026, 10, 2, 12, tzinfo=UTC)
END_US = round(END.timestamp()) * 1_000_000


class Tables:
    """Tables of one group whose member `flapper` came and went beside another one, each time for three seconds."""

    def read(self, name: str, columns: Any, groups: Any = None) -> Any:
        schema = pa.schema([TABLES[name].arrow_schema.field(each) for each in columns])
        rows = {"generations": self._generations, "memberships": self._memberships}
        found = rows[name]() if name in rows else []
        return pa.Table.from_pylist([{"group_id": "g", **each} for each in found], schema=schema)

    def count(self, name: str) -> int:
        return 0

    def _at(self, seq: int) -> int:
        return END_US - (100 - 3 * seq) * 1_000_000

    def _generations(self) -> list[dict[str, Any]]:
        return [
            {
                "seq": seq,
                "ts": self._at(seq),
                "primary_cause": "join" if seq % 2 else "leave",
                "n_members": 1 + seq % 2,
                "moved": 2,
                "is_empty": False,
            }
            for seq in range(20)
        ]

    def _memberships(self) -> list[dict[str, Any]]:
        return [
            {
                "member_id": f"flapper-{seq}",
                "client_id": "flapper",
                "client_host": "/h",
                "first_seq": seq,
                "last_seq": seq,
                "first_generation": seq + 1,
                "start_ts": self._at(seq),
                "end_ts": self._at(seq + 1),
                "end_reason": "leave",
                "session_timeout_ms": 45_000,
                "rebalance_timeout_ms": 300_000,
            }
            for seq in range(1, 19, 2)
        ]


def test_a_member_that_comes_and_goes_is_found() -> None:
    [finding] = findings(Tables(), ["g"], END)

    assert finding.rule == "flapping_member"
    assert finding.saw.startswith("flapper at /h came and went 9 times, each time for about 3 s")


def test_what_was_long_before_the_end_of_the_log_is_over() -> None:
    assert findings(Tables(), ["g"], datetime(2026, 10, 4, tzinfo=UTC)) == []
