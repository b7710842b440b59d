"""Say where a partition without a usable offset begins: auto.offset.reset in Kafka's and librdkafka's words."""

import re
from dataclasses import dataclass
from typing import Final

from groupsdk.errors import ConfigError


_WORDS: Final = {
    **dict.fromkeys(("earliest", "smallest", "beginning"), "earliest"),
    **dict.fromkeys(("latest", "largest", "end"), "latest"),
    **dict.fromkeys(("none", "error"), "none"),
}
_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:[.,](\d{1,9}))?S)?)?",
    re.ASCII,
)
_MOST_MS: Final = 2**62


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """Where to begin without a committed offset, or with one that the log does not have.

    Attributes:
        strategy: "earliest", "latest", "none" for an error, or "by_duration".
        duration_ms: how far back from now, with "by_duration" (KIP-1106).
    """

    strategy: str
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: object) -> "OffsetReset":
        """Read the setting.

        Raises:
            ConfigError: the text names no place.
        """
        lowered = text.strip().lower() if isinstance(text, str) else ""
        strategy = _WORDS.get(lowered)
        if strategy is not None:
            return cls(strategy)
        if lowered.startswith(_BY_DURATION):
            return cls("by_duration", _duration_ms(lowered.removeprefix(_BY_DURATION), text))
        raise ConfigError(
            f"auto.offset.reset must be earliest, latest, none or by_duration:P<days>DT<hours>H<minutes>M<seconds>S,"
            f" not {text!r}"
        )

    @property
    def native(self) -> str:
        """The word for librdkafka, which does not know durations: those are looked up for it."""
        return self.strategy if self.strategy in ("earliest", "latest") else "error"

    def normal(self, text: str) -> str:
        """Return the setting as Kafka writes it.

        Args:
            text: what was parsed.
        """
        if self.strategy != "by_duration":
            return self.strategy
        return _BY_DURATION + text.strip()[len(_BY_DURATION) :].upper()


def _duration_ms(text: str, given: object) -> int:
    match = _DURATION.fullmatch(text.upper())
    if match is None or not any(match.groups()):
        raise ConfigError(
            f"auto.offset.reset: {given!r} has no ISO 8601 duration that is not negative, such as"
            " by_duration:PT6M or by_duration:P1DT12H"
        )
    days, hours, minutes, seconds = (int(each or 0) for each in match.groups()[:4])
    whole_ms = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
    return min(whole_ms + int((match[5] or "0").ljust(9, "0")) // 1_000_000, _MOST_MS)
