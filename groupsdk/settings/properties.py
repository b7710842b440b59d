"""Read files of `key=value` settings as Java's `java.util.Properties` reads them, but encoded in UTF-8.

The one reader for `--config FILE`, Connect's `worker.properties` and files that a config provider opens.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from groupsdk.errors import ConfigError


_WHITE: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
# the key ends at the first separator that no backslash stands before; one = or : may follow the white space
_PAIR: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u(.{0,4})|(.))", re.DOTALL)
_HEX: Final = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str, where: str) -> dict[str, str]:
    """Parse the text of a properties file.

    A line is a key, a separator (`=`, `:` or white space) and a value; a key alone has an empty value. `#` and `!`
    at the start of a line begin a comment, a backslash at its end continues it on the next line, and `\\t`, `\\n`,
    `\\r`, `\\f` and `\\uXXXX` are escapes. Of a key that is given twice, the last value counts.

    Raises:
        ConfigError: an escape `\\u` is not followed by four hexadecimal digits. The line itself, which may hold a
            password, is not shown.
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        assert pair is not None
        properties[_unescaped(pair[1], where, number)] = _unescaped(pair[2], where, number)
    return properties


def read_properties(path: Path | str, option: str = "--config") -> dict[str, str]:
    """Read a properties file, with the values trimmed as Kafka's `ConfigDef` trims them.

    Args:
        path: the file, in UTF-8.

    Raises:
        ConfigError: the file cannot be read or parsed.
    """
    text = read_text(path, option)
    return {key: value.strip() for key, value in parse_properties(text, str(path)).items()}


def read_text(path: Path | str, option: str) -> str:
    """Read a text file that an option names.

    Raises ConfigError if the file cannot be read, or is not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{option} {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{option} {path} cannot be read: it is not UTF-8 text") from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line of settings, continuations joined, with the number of its first line."""
    logical, first = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_WHITE)
        if not logical:
            # as in Java, a continuation of nothing yet may be a comment
            if not line or line[0] in "#!":
                continue
            first = number
        logical += line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            logical = logical[:-1]
        elif logical:
            yield first, logical
            logical = ""
    if logical:
        yield first, logical


def _unescaped(text: str, where: str, number: int) -> str:
    if "\\" not in text:
        return text

    def one(match: re.Match[str]) -> str:
        if match[1] is None:
            return _ESCAPES.get(match[2], match[2])
        if _HEX.fullmatch(match[1]) is None:
            raise ConfigError(
                f"{where}, line {number}: \\u must be followed by four hexadecimal digits"
            )
        return chr(int(match[1], 16))

    # two escapes may be the halves of one character, as Java's strings are UTF-16
    joined = _ESCAPE.sub(one, text).encode("utf-16", "surrogatepass")
    return joined.decode("utf-16", "surrogatepass")
