"""Escape the characters of foreign strings that steer a terminal, forge a line or hide text.

Names of groups, members, topics and hosts come from the cluster: anybody who may join a group chooses them. All that
people read goes through these functions: tables, errors, log lines, JSON, the report and the pages.
"""

from typing import Final


_ESCAPED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls (C0, DEL, C1), formats (bidirectional overrides, zero width), surrogates, and separators of lines."""
_MAX_KEPT: Final = 10_000
_JOINERS: Final = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"
"""Parts of words in several scripts, and of emoji."""


def printable(text: str) -> str:
    r"""Return a string in one line, with each such character as `\x1b`, `\u202e` or `\U000e0041`."""
    if text.isprintable():
        return text
    return "".join(_escape(each) if _is_escaped(each) else each for each in text)


def address_text(host: str, port: object) -> str:
    """Return "host:port", with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def printable_lines(text: str) -> str:
    """Return several lines as `printable` does, with their line feeds and tabs."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)


def printable_json(document: str) -> str:
    r"""Return a JSON document, of `ensure_ascii=False`, with each such character as `\u001b`: the same value."""
    if document.isprintable():
        return document
    return document.translate(_JSON)


def _is_escaped(character: str) -> bool:
    from unicodedata import category  # a large library, which only unprintable names need

    return category(character) in _ESCAPED and character not in _JOINERS


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_utf16(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class _JsonEscapes(dict[int, str]):
    """What `str.translate` makes of each character: kept, since documents are long and have the same ones."""

    def __missing__(self, code: int) -> str:
        if len(self) >= _MAX_KEPT:
            self.clear()
        each = chr(code)
        self[code] = kept = _escape_utf16(each) if each != "\n" and _is_escaped(each) else each
        return kept


_JSON: Final = _JsonEscapes()
