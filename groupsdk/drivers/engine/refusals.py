"""Brokers that close a connection on its first request: what to say of it, and when to take it for a wrong setting.

A broker closes the connection without a word where the client's security.protocol is not that of the port, and
where it goes down. The first does not mend itself, the second does, and one connection cannot tell them apart.
"""

from collections.abc import Sequence
from typing import Final

from groupsdk.errors import (
    AuthenticationError,
    DisconnectedError,
    GroupSdkError,
    NetworkError,
    TlsError,
)
from groupsdk.settings.security import SecuritySettings


_REFUSALS: Final = 3
"""After how many attempts in a row that every broker refused the setting is taken for wrong."""


class FirstRequestRefusedError(DisconnectedError):
    """The broker closed the connection before its first response: to TLS, ApiVersions or the first request."""


class TlsRefusedError(FirstRequestRefusedError):
    """The broker closed the connection during the TLS handshake, or on the first request inside TLS."""


class FirstRequestRefusals:
    """Counts attempts that all brokers refused, of a client that has never had an answer."""

    def __init__(self, security: SecuritySettings) -> None:
        self._security = security
        self._answered = False
        self._refused = 0

    def answered(self) -> None:
        """Record an answer to a request: the settings are right, whatever brokers do from here on."""
        self._answered = True

    def explain(self, error: DisconnectedError) -> None:
        """Raise a better error where the connection ended on the first request after ApiVersions.

        A port that wants SASL answers ApiVersions, and closes the connection on any other request.
        """
        if self._answered or self._security.uses_sasl:
            return
        wanted = "SASL_SSL" if self._security.uses_tls else "SASL_PLAINTEXT"
        raise FirstRequestRefusedError(
            f"{error} on the first request: it went down, or the port wants SASL"
            f" (set security.protocol to {wanted})"
        ) from error

    def check(self, errors: Sequence[GroupSdkError]) -> None:
        """Record the errors of one attempt, one of each broker; raise the error if all refuse for the third time."""
        if self._answered or not errors:
            return
        refused = all(isinstance(error, FirstRequestRefusedError) for error in errors)
        self._refused = self._refused + 1 if refused else 0
        if self._refused < _REFUSALS:
            return
        self._refused = 0
        self.give_up(errors[0])

    def give_up(self, error: GroupSdkError) -> None:
        """Raise the error of a wrong setting in place of a refusal that has lasted too long."""
        if self._answered or not isinstance(error, FirstRequestRefusedError):
            return
        kind = TlsError if isinstance(error, TlsRefusedError) else AuthenticationError
        raise kind(str(error)) from error


def most_telling(errors: Sequence[NetworkError]) -> NetworkError:
    """Return the error to raise for brokers that all failed: the last one that may be no refusal."""
    others = [error for error in errors if not isinstance(error, FirstRequestRefusedError)]
    return (others or errors)[-1]


def refused_without_tls(where: str, security: SecuritySettings) -> FirstRequestRefusedError:
    """Return the error of a broker that closed a connection without TLS on ApiVersions, which every Kafka answers."""
    wanted = "SASL_SSL" if security.uses_sasl else "SSL"
    return FirstRequestRefusedError(
        f"{where} closed the connection on the first request: it went down, or the port wants TLS"
        f" (set security.protocol to {wanted})"
    )
