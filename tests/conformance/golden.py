"""Keep what Kafka's classes answered, so that the comparison needs no Java.

`python -m tests.conformance.golden` writes the files anew, from the newest release compared with.
"""

import hashlib
from pathlib import Path
from typing import Any

from groupsdk.wire.schema import ApiKey
from tests.conformance.cases import Case, cases
from tests.conformance.kafka_classes import RELEASES, ask
from tests.support.golden import read_golden, write_golden


BYTES = Path(__file__).parent / "golden_bytes.json.gz"
ERRORS = Path(__file__).parent / "golden_errors.tsv"

UNSUPPORTED = "unsupported"
"""The answer where Kafka refuses to write a message in a version."""

UNREADABLE = "unreadable"
"""The answer where Kafka's JSON converters cannot even build the message."""

UNKNOWN = "unknown"
"""The answer where a release does not have the version; none in the golden file, as that is of the newest."""

RENAMED = {"4.1.0": {"TxnOffsetCommitRequest": {"generationIdOrMemberEpoch": "generationId"}}}
"""The fields that a release has under another name than the newest: message, name now, name there."""

_LONGEST = 4000

CLIENT_IDS = (None, "", "client-ß")


def shorten(answer: str) -> str:
    """Replace a long answer by its length and digest, so that the file stays small."""
    if len(answer) <= _LONGEST:
        return answer
    return f"{len(answer) // 2} bytes, sha256 {hashlib.sha256(answer.encode()).hexdigest()}"


def header_questions() -> dict[str, dict[str, Any]]:
    """Ask for the header versions of every API, and for the bytes of some headers."""
    questions: dict[str, dict[str, Any]] = {
        f"headers {key.name}": {"headers": int(key)} for key in ApiKey
    }
    for version in (1, 2):
        for client_id in CLIENT_IDS:
            fields = {
                "requestApiKey": 12,
                "requestApiVersion": 4,
                "correlationId": -2,
                "clientId": client_id,
            }
            questions[f"RequestHeader {version} {client_id}"] = {
                "message": "RequestHeader",
                "version": version,
                "fields": fields,
            }
    for version in (0, 1):
        questions[f"ResponseHeader {version}"] = {
            "message": "ResponseHeader",
            "version": version,
            "fields": {"correlationId": 0x01020304},
        }
    return questions


def ask_bytes(release: str, wanted: list[Case]) -> dict[str, str]:
    """Have a release answer all questions on bytes."""
    questions = {case.key: case.question() for case in wanted} | header_questions()
    for question in questions.values():
        for now, before in RENAMED.get(release, {}).get(question.get("message", ""), {}).items():
            question["fields"][before] = question["fields"].pop(now)
    answers = ask(release, list(questions.values()))
    return {key: shorten(answer) for key, answer in zip(questions, answers, strict=True)}


def ask_errors(release: str) -> str:
    """Have a release list its error codes: number, name, retriable."""
    (answer,) = ask(release, [{"errors": True}])
    return "".join("\t".join(row.split()) + "\n" for row in answer.strip(";").split(";"))


def read_bytes() -> dict[str, str]:
    """Read the answers on bytes that were kept."""
    golden: dict[str, str] = read_golden(BYTES)
    return golden


def main() -> None:
    answers = ask_bytes(RELEASES[-1], list(cases()))
    write_golden(BYTES, answers, sort_keys=True)
    ERRORS.write_text(ask_errors(RELEASES[-1]), encoding="utf-8")


if __name__ == "__main__":
    main()
