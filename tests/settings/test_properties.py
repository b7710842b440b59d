"""Tests the reader of properties files beside Java's own `java.util.Properties`."""

import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupsdk.errors import ConfigError
from groupsdk.settings.properties import parse_properties, read_properties
from tests.support.cases import each_case
from tests.support.java import JavaProgram


_SOURCE = Path(__file__).parents[1] / "conformance" / "java" / "ReadProperties.java"
_TIMEOUT_MS = 120_000
_PIECES = (
    *(
        "a",
        "key",
        "é",
        "\N{GRINNING FACE}",
        "=",
        ":",
        " ",
        "\t",
        "\f",
        "#",
        "!",
        "\\",
        "\\\\",
        "\n",
    ),
    *(
        "\r\n",
        "\r",
        "\\u0041",
        "\\ud83d\\ude00",
        "\\n",
        "\\\n",
        "  ",
        "\x0b",
        "\u2028",
        "\x1c",
        "\x85",
    ),
)
CASES = {
    "a=b": {"a": "b"},
    "a = b=c ": {"a": "b=c "},
    "a:b": {"a": "b"},
    "a b": {"a": "b"},
    "a\t : b": {"a": "b"},
    "a": {"a": ""},
    "a=1\na=2": {"a": "2"},
    " # no\n!neither\n\n  a=b#c": {"a": "b#c"},
    "a=1 \\\n   2\\\n  # 3": {"a": "1 2# 3"},
    "a=1\\\n\nb=2": {"a": "1", "b": "2"},
    "a=1\\\\\nb=2": {"a": "1\\", "b": "2"},
    "k\\:1\\==\\u0041\\t\\x": {"k:1=": "A\tx"},
    "a=\\ud83d\\ude00": {"a": "\N{GRINNING FACE}"},
    "a=1\rb=2\r\nc=3": {"a": "1", "b": "2", "c": "3"},
    "a=1\u2028b=2\x0b": {"a": "1\u2028b=2\x0b"},
    "a=1\\": {"a": "1"},
    "=x": {"": "x"},
    "": {},
}


@each_case(("text", "expected"), CASES.items())
def test_properties_are_read(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text, "f") == expected


@each_case("text", ["a=\\u12", "a=\\u12g4", "a\\u=secret"])
def test_a_wrong_escape_is_named_by_its_line_alone(text: str) -> None:
    with pytest.raises(ConfigError, match=r"f, line 2: \\u must be followed by four") as error:
        parse_properties("\n" + text, "f")
    assert "secret" not in str(error.value)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaProgram]:
    """A process that loads properties with java.util.Properties."""
    with JavaProgram(_SOURCE) as running:
        yield running


def java_properties(java: JavaProgram, text: str) -> dict[str, str] | None:
    """Reads a text with Java; None where that raises."""
    answer = java.ask(base64.b64encode(text.encode()).decode(), _TIMEOUT_MS)
    if answer == "error":
        return None
    words = [base64.b64decode(each).decode() for each in json.loads(answer)]
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.mark.kafka  # needs a JDK, as what starts a broker does
def test_java_reads_the_same(java: JavaProgram) -> None:
    for text, expected in CASES.items():
        assert java_properties(java, text) == expected, repr(text)
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    for _ in range(2_000):
        text = "".join(chance.choices(_PIECES, k=chance.randrange(14)))
        try:
            # of half a character, Java's encoder makes a question mark
            ours: dict[str, str] | None = {
                each.encode(errors="replace").decode(): value.encode(errors="replace").decode()
                for each, value in parse_properties(text, "f").items()
            }
        except ConfigError:
            ours = None
        theirs = java_properties(java, text)
        for each in (ours, theirs):
            # of a backslash at the end that nothing follows, Java makes a setting without a name
            (each or {}).pop("", None)
        assert ours == theirs, f"seed {seed}: {text!r}"


def test_a_file_is_read_and_trimmed_as_kafka_does(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# TLS\nsecurity.protocol = SSL  \nname: é\n", encoding="utf-8")
    assert read_properties(path) == {"security.protocol": "SSL", "name": "é"}
    with pytest.raises(ConfigError, match=r"--config .*none cannot be read"):
        read_properties(tmp_path / "none")
    path.write_bytes(b"a=\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_properties(path)
