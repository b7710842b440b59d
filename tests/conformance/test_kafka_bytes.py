"""Compares every message in every version byte for byte with Kafka's own classes."""

from typing import Any

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.errors import EncodeError
from groupsdk.wire import compiler
from groupsdk.wire.api import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    messages,
    request_class,
)
from groupsdk.wire.messages.groups import HeartbeatRequest, HeartbeatResponse
from groupsdk.wire.schema import ApiKey, Message, declared_fields
from tests.conformance.cases import FILLINGS, Case, cases, cases_of
from tests.conformance.golden import (
    CLIENT_IDS,
    ERRORS,
    UNKNOWN,
    UNREADABLE,
    UNSUPPORTED,
    ask_bytes,
    ask_errors,
    read_bytes,
    shorten,
)
from tests.conformance.kafka_classes import RELEASES
from tests.support.cases import each_case


NEWER_VERSIONS = {
    "4.1.0": {
        "DescribeLogDirs": "5",
        "ListOffsets": "11",
        "TxnOffsetCommit": "6",
        "WriteTxnMarkers": "2",
    },
    "4.4.0": {},
}
"""What is declared here and a release compared with does not have yet."""


NOT_DECLARED = {
    # new in 4.4
    ApiKey.API_VERSIONS: {5},
    ApiKey.DELETE_GROUPS: {3},
    ApiKey.STREAMS_GROUP_DESCRIBE: {1},
}
"""The stable versions of the newest release that are not declared here."""


@pytest.fixture(scope="module")
def golden() -> dict[str, str]:
    return read_bytes()


def encoded(case: Case) -> str:
    """Encodes a case the way the golden file writes it."""
    try:
        return shorten(compiler.encode(case.message, case.version).hex())
    except EncodeError:
        return UNSUPPORTED


def as_read_back(case: Case) -> Message:
    """Builds what a reader makes of a case: the fields that the version lacks are at their defaults."""
    kept: dict[str, Any] = {
        each.name: getattr(case.message, each.name)
        for each in declared_fields(type(case.message))
        if case.version in each.versions
    }
    return type(case.message)(**kept, unknown_tagged_fields=case.message.unknown_tagged_fields)


def test_the_cases_cover_every_message_and_version(golden: dict[str, str]) -> None:
    covered = {tuple(case.key.split()[:2]) for case in cases()}
    versions = sum(m.api.max_version - m.api.min_version + 1 for m in messages())

    assert len(covered) == versions == 460
    assert {case.key for case in cases()} < set(golden)
    assert sum(1 for case in cases()) == versions * (len(FILLINGS) + 2)


@each_case("message", list(messages()))
def test_bytes_are_those_of_kafka(message: type[Message], golden: dict[str, str]) -> None:
    for case in cases_of(message):
        if golden[case.key] != UNREADABLE:
            assert encoded(case) == golden[case.key], case.key


@each_case("message", list(messages()))
def test_kafkas_bytes_are_read_back(message: type[Message], golden: dict[str, str]) -> None:
    for case in cases_of(message):
        if golden[case.key] in (UNSUPPORTED, UNREADABLE):
            continue
        data = compiler.encode(case.message, case.version)  # Kafka's bytes: see the test above
        read = compiler.decode(message, case.version, data)
        if case.name not in ("foreign", "foreign-ignorable", "foreign-null"):
            assert read == as_read_back(case), case.key
        assert compiler.encode(read, case.version) == data, case.key


def test_all_answers_occur(golden: dict[str, str]) -> None:
    refused = {key for key, answer in golden.items() if answer == UNSUPPORTED}
    unreadable = {key for key, answer in golden.items() if answer == UNREADABLE}

    assert UNKNOWN not in golden.values()
    assert {key.split()[2] for key in refused} == {"tags", "foreign", "foreign-null"}
    # the only messages with structs that exclude each other
    assert {key.split()[0] for key in unreadable} == {"OffsetFetchRequest", "OffsetFetchResponse"}
    assert {key.split()[2] for key in unreadable} == {"foreign"}
    assert {encoded(case) for case in cases() if case.key in unreadable} == {UNSUPPORTED}


@each_case("key", ApiKey)
def test_the_versions_are_those_of_kafka(key: ApiKey, golden: dict[str, str]) -> None:
    api = request_class(key).api
    stable = {int(text.split(":")[0]) for text in golden[f"headers {key.name}"].split()}

    assert {*range(api.min_version, api.max_version + 1)} == stable - NOT_DECLARED.get(key, set())


@each_case("key", ApiKey)
def test_header_versions_are_those_of_kafka(key: ApiKey, golden: dict[str, str]) -> None:
    request = request_class(key)
    api = request.api
    for text in golden[f"headers {key.name}"].split():
        version, versions = text.split(":")
        header, answer_header = versions.split("/")
        if int(version) in api:
            assert (header == "2") == api.is_flexible(int(version))
            body = compiler.encode(request(), int(version))
            frame = encode_request(request(), int(version), 5, "me")
            # length, fixed fields, the client id, and one byte of tagged fields in version 2
            assert len(frame) == 4 + 10 + 2 + (header == "2") + len(body)
            response = request.response_class
            body = compiler.encode(response(), int(version))
            frame = encode_response(response(), int(version), 5)
            assert len(frame) == 4 + 4 + (answer_header == "1") + len(body)


@pytest.mark.parametrize("client_id", CLIENT_IDS)
@pytest.mark.parametrize(("version", "header_version"), [(3, 1), (4, 2)])
def test_request_headers_are_those_of_kafka(
    golden: dict[str, str], client_id: str | None, version: int, header_version: int
) -> None:
    frame = encode_request(HeartbeatRequest(), version, -2, client_id)

    # the question had version 4 in the header: bytes 2 and 3
    header = bytearray.fromhex(golden[f"RequestHeader {header_version} {client_id}"])
    header[2:4] = version.to_bytes(2)
    assert frame[4:].startswith(bytes(header))
    header_read, _ = decode_request(frame[4:])
    assert header_read.client_id == client_id
    assert header_read.correlation_id == -2


@pytest.mark.parametrize(("version", "header_version"), [(3, 0), (4, 1)])
def test_response_headers_are_those_of_kafka(
    golden: dict[str, str], version: int, header_version: int
) -> None:
    header = bytes.fromhex(golden[f"ResponseHeader {header_version}"])

    frame = encode_response(HeartbeatResponse(), version, 0x01020304)

    assert frame[4 : 4 + len(header)] == header
    assert decode_response(HeartbeatRequest, version, frame[4:]) == (
        0x01020304,
        HeartbeatResponse(),
    )


def test_error_codes_are_those_of_kafka() -> None:
    ours = [f"{code.value}\t{code.name}\t{str(code.retriable).lower()}" for code in ErrorCode]

    assert ours == ERRORS.read_text(encoding="utf-8").splitlines()


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_java")
@pytest.mark.parametrize("release", RELEASES)
def test_the_golden_bytes_are_what_this_release_says(release: str, golden: dict[str, str]) -> None:
    answers = ask_bytes(release, list(cases()))
    unknown = {key for key, answer in answers.items() if answer == UNKNOWN}

    def known(key: str, answer: str) -> str:
        # a newer release knows more versions of an API, whose headers the older does not tell
        if not key.startswith("headers"):
            return answer
        api = request_class(ApiKey[key.split()[1]]).api
        both = {
            each.split(":")[0] for each in answers[key].split() if int(each.split(":")[0]) in api
        }
        return " ".join(each for each in answer.split() if each.split(":")[0] in both)

    for key in answers.keys() - unknown:
        assert known(key, answers[key]) == known(key, golden[key]), key
    assert answers.keys() == golden.keys()
    # whatever is not compared is in a version that came later than this release
    assert {tuple(key.split()[:2]) for key in unknown} == {
        (f"{api}{kind}", version)
        for api, version in NEWER_VERSIONS[release].items()
        for kind in ("Request", "Response")
    }


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_java")
@pytest.mark.parametrize("release", RELEASES)
def test_the_golden_errors_are_what_this_release_says(release: str) -> None:
    rows = ask_errors(release).splitlines()
    golden = ERRORS.read_text(encoding="utf-8").splitlines()

    # error codes are only ever added
    assert rows == golden[: len(rows)]
    assert release != RELEASES[-1] or rows == golden
