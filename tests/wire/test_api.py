"""Tests headers and the agreement on versions."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.errors import DecodeError, EncodeError, UnsupportedVersionError
from groupsdk.wire import api
from groupsdk.wire.api import (
    ApiVersionRanges,
    FrameDecoder,
    RequestHeader,
    correlation_id_of,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    messages,
    next_api_versions_version,
    request_class,
)
from groupsdk.wire.compiler import encode
from groupsdk.wire.messages.connection import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
)
from groupsdk.wire.messages.groups import HeartbeatRequest, HeartbeatResponse, JoinGroupRequest
from groupsdk.wire.schema import ApiKey, Request
from tests.support.cases import each_case


UNSUPPORTED = 35


def payload(frame: bytes) -> bytes:
    (found,) = FrameDecoder(1 << 20).feed(frame)
    return found


@each_case("key", ApiKey)
def test_requests_and_responses_are_paired(key: ApiKey) -> None:
    request = request_class(key)
    response = request.response_class

    assert request.api.key == key
    assert response.api is request.api
    assert request.__name__.removesuffix("Request") == response.__name__.removesuffix("Response")
    assert request.__name__.removesuffix("Request").lower() == key.name.replace("_", "").lower()


def test_messages_lists_them_all() -> None:
    assert len(list(messages())) == 2 * len(ApiKey) == 100


@each_case("key", ApiKey)
@pytest.mark.parametrize("client_id", [None, "", "me ß"])
def test_requests_and_answers_travel_in_every_version(key: ApiKey, client_id: str | None) -> None:
    request: type[Request[Any]] = request_class(key)
    for version in range(request.api.min_version, request.api.max_version + 1):
        sent = payload(encode_request(request(), version, -7, client_id))
        header, message = decode_request(sent)
        assert header == RequestHeader(key, version, -7, client_id)
        assert message == request()

        answer = payload(encode_response(request.response_class(), version, -7))
        assert correlation_id_of(answer) == -7
        assert decode_response(request, version, answer) == (-7, request.response_class())


def test_a_request_as_bytes() -> None:
    frame = encode_request(HeartbeatRequest("g", 3, "m"), 4, 1, "me")

    assert (
        frame
        == (
            b"\0\0\0\x17"  # length
            b"\0\x0c\0\4\0\0\0\1\0\2me"  # key, version, correlation id, client id with a length of 16 bits
            b"\0"  # tagged fields of the header
            b"\2g\0\0\0\3\2m\0\0"
        )
    )


@pytest.mark.parametrize(
    ("correlation_id", "client_id", "problem"),
    [(1 << 31, "me", "header"), (1, "x" * 32768, "header"), (1, "\ud800", "header")],
)
def test_a_header_that_cannot_be_written(correlation_id: int, client_id: str, problem: str) -> None:
    with pytest.raises(EncodeError, match=f"HeartbeatRequest v4: its {problem}"):
        encode_request(HeartbeatRequest(), 4, correlation_id, client_id)


def test_an_answer_header_that_cannot_be_written() -> None:
    with pytest.raises(EncodeError, match="HeartbeatResponse v4: its header"):
        encode_response(HeartbeatResponse(), 4, 1 << 31)


def test_tagged_fields_of_headers_are_skipped() -> None:
    tags = b"\2\0\1x\x63\0"
    request = payload(encode_request(HeartbeatRequest("g"), 4, 1, "me"))
    answer = payload(encode_response(HeartbeatResponse(9, 27), 4, 1))

    assert decode_request(request[:12] + tags + request[13:])[1] == HeartbeatRequest("g")
    assert decode_response(HeartbeatRequest, 4, answer[:4] + tags + answer[5:])[1] == (
        HeartbeatResponse(9, 27)
    )


@each_case("size", range(20))
def test_a_truncated_request_is_refused(size: int) -> None:
    data = payload(encode_request(HeartbeatRequest("g"), 4, 1, "me"))

    with pytest.raises(DecodeError):
        decode_request(data[:size])


@each_case("size", range(10))
def test_a_truncated_answer_is_refused(size: int) -> None:
    data = payload(encode_response(HeartbeatResponse(9, 27), 4, 1))

    with pytest.raises(DecodeError):
        decode_response(HeartbeatRequest, 4, data[:size])


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_request_or_an_error(data: bytes) -> None:
    try:
        header, message = decode_request(data)
    except (DecodeError, UnsupportedVersionError):
        return
    assert message.api.key == header.api_key


@pytest.mark.parametrize("size", [b"\xff\xfe", b"\x00\x09", b"\x80\x00"])
def test_a_wrong_length_of_the_client_id_is_refused(size: bytes) -> None:
    with pytest.raises(DecodeError, match=r"a client id of -?[0-9]+ bytes"):
        decode_request(b"\0\x0c\0\4\0\0\0\1" + size + b"me")


def test_a_client_id_that_is_not_utf8() -> None:
    with pytest.raises(DecodeError, match="client id is not valid UTF-8"):
        decode_request(b"\0\x0c\0\4\0\0\0\1\0\2\xff\xfe")


def test_a_request_of_an_unknown_api_or_version() -> None:
    with pytest.raises(UnsupportedVersionError, match="API key 999 is not declared"):
        decode_request(b"\x03\xe7\0\0\0\0\0\1\xff\xff")
    with pytest.raises(
        UnsupportedVersionError, match="HeartbeatRequest v9 is not declared, only 0 to 4"
    ):
        decode_request(b"\0\x0c\0\x09\0\0\0\1\xff\xff")


def test_negotiation_takes_the_newest_common_version() -> None:
    ranges = ApiVersionRanges({ApiKey.JOIN_GROUP: (2, 7)})

    assert ranges.negotiate(JoinGroupRequest) == 7
    assert ranges.negotiate(JoinGroupRequest, min_version=7) == 7
    assert ApiVersionRanges({ApiKey.JOIN_GROUP: (0, 99)}).negotiate(JoinGroupRequest) == 9


@pytest.mark.parametrize(
    ("theirs", "min_version", "problem"),
    [
        (
            {ApiKey.JOIN_GROUP: (0, 4)},
            5,
            "from 5 to 9, but the broker has 0 to 4; Apache Kafka has it from 2.3 on",
        ),
        ({ApiKey.JOIN_GROUP: (10, 12)}, None, "version from 0 to 9, but the broker has 10 to 12"),
        (
            {},
            None,
            "version from 0 to 9, but the broker does not have it; Apache Kafka has it from 0.10.0 on",
        ),
    ],
)
def test_negotiation_that_fails_names_both_sides(
    theirs: dict[int, tuple[int, int]], min_version: int | None, problem: str
) -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        ApiVersionRanges(theirs).negotiate(JoinGroupRequest, min_version)

    assert str(caught.value).endswith(problem)


def test_an_api_that_old_brokers_lack_names_its_release() -> None:
    with pytest.raises(
        UnsupportedVersionError, match=r"does not have it; Apache Kafka has it from 1\.0 on"
    ):
        ApiVersionRanges({}).negotiate(SaslAuthenticateRequest)


def test_ranges_are_a_mapping() -> None:
    response = ApiVersionsResponse(api_keys=(ApiVersion(11, 0, 9), ApiVersion(12, 1, 4)))

    ranges = ApiVersionRanges.from_response(response)

    assert dict(ranges) == {11: (0, 9), 12: (1, 4)}
    assert len(ranges) == 2
    assert "12: (1, 4)" in repr(ranges)


@pytest.mark.parametrize("asked", range(5))
def test_a_refused_api_versions_is_read_in_version_0(asked: int) -> None:
    refusal = ApiVersionsResponse(UNSUPPORTED, (ApiVersion(18, 0, 2),))
    answer = payload(encode_response(refusal, 0, 3))

    assert decode_response(ApiVersionsRequest, asked, answer) == (3, refusal)


@pytest.mark.parametrize(
    ("response", "tried", "version"),
    [
        (ApiVersionsResponse(0, (ApiVersion(18, 0, 4),)), 4, None),
        (ApiVersionsResponse(41, ()), 4, None),
        (ApiVersionsResponse(UNSUPPORTED, (ApiVersion(18, 0, 3),)), 4, 3),
        (ApiVersionsResponse(UNSUPPORTED, (ApiVersion(18, 0, 2),)), 4, 2),
        (ApiVersionsResponse(UNSUPPORTED, ()), 4, 0),
        (ApiVersionsResponse(UNSUPPORTED, (ApiVersion(3, 0, 9),)), 3, 0),
        # a broker that contradicts itself is asked for less each time
        (ApiVersionsResponse(UNSUPPORTED, (ApiVersion(18, 0, 4),)), 4, 3),
    ],
)
def test_the_next_version_of_api_versions(
    response: ApiVersionsResponse, tried: int, version: int | None
) -> None:
    assert next_api_versions_version(response, tried) == version


@pytest.mark.parametrize(
    ("keys", "tried"), [((), 0), ((ApiVersion(18, 0, 4),), 0), ((ApiVersion(18, 5, 7),), 4)]
)
def test_a_broker_that_refuses_every_version(keys: tuple[ApiVersion, ...], tried: int) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"refused ApiVersions v{tried}"):
        next_api_versions_version(ApiVersionsResponse(UNSUPPORTED, keys), tried)


def test_asking_ends_whatever_the_broker_answers() -> None:
    refusal = ApiVersionsResponse(UNSUPPORTED, (ApiVersion(18, 0, 4),))

    asked = [4]
    while version := next_api_versions_version(refusal, asked[-1]):
        asked.append(version)

    assert (asked, version) == ([4, 3, 2, 1], 0)


def test_an_unknown_top_level_tag_in_an_answer_is_no_reason_to_lose_it() -> None:
    body = encode(HeartbeatResponse(1, 2), 4)
    answer = (1).to_bytes(4) + b"\0" + body[:-1] + b"\1\x40\3new"

    _, response = decode_response(HeartbeatRequest, 4, answer)

    assert (response.throttle_time_ms, response.error_code) == (1, 2)


def test_the_wire_does_no_i_o_and_reads_no_clock() -> None:
    forbidden = {"asyncio", "socket", "ssl", "threading", "time", "selectors", "multiprocessing"}
    modules = sorted(Path(api.__file__).parent.rglob("*.py"))
    imported = set()
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])

    assert len(modules) > 20
    assert "struct" in imported
    assert not imported & forbidden


def test_importing_the_api_imports_no_message_and_compiles_nothing() -> None:
    code = (
        "import sys, types\n"
        "package = types.ModuleType('groupsdk'); package.__path__ = ['groupsdk']\n"
        "sys.modules['groupsdk'] = package  # without what the package itself imports\n"
        "import groupsdk.wire.api\n"
        "print([name for name in sys.modules if 'wire.messages.' in name])\n"
        "import groupsdk.wire.messages.groups as groups\n"
        "print([name for name in sys.modules if 'wire.messages.' in name])\n"
        "print(len(groups.JoinGroupRequest.codecs.encoders))"
    )
    root = Path(api.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        cwd=root,
    )

    assert done.stdout.splitlines() == ["[]", "['groupsdk.wire.messages.groups']", "0"]
