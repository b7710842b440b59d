"""Hold where a worker answers to HTTP, and to whom."""

import ipaddress
from dataclasses import dataclass, field
from typing import Self

from groupsdk.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Where to listen.

    Raises:
        ConfigError: it would be open to others without a user and a password.
    """

    host: str = "127.0.0.1"
    port: int = 8083
    """0: any that is free, which only a worker that is alone can use."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    advertised_url: str | None = None
    """Where other workers reach it; None: http://host:port."""

    def __post_init__(self) -> None:
        if (self.user is None) != (self.password is None):
            raise ConfigError(
                "rest: give both a user (--rest-user) and a password (GROUPSDK_REST_PASSWORD), or neither"
            )
        if self.user is None and not is_loopback(self.host):
            raise ConfigError(
                f"rest: {self.host} can be reached by others, who could run connectors here: give a user"
                " (--rest-user) and a password (GROUPSDK_REST_PASSWORD), or listen on 127.0.0.1"
            )

    @property
    def url(self) -> str:
        """Where other workers reach it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.advertised_url or f"http://{host}:{self.port}"

    @classmethod
    def of(
        cls,
        address: str | None,
        advertised_url: str | None,
        user: str | None,
        password: str | None,
    ) -> Self | None:
        """Read options; None: it is not to answer to HTTP.

        Raises:
            ConfigError: one is wrong.
        """
        if address is None:
            return None
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65_535:
            raise ConfigError(
                f"--rest must be host:port, for example 127.0.0.1:8083, not {address!r}"
            )
        if advertised_url is not None and not advertised_url.startswith(("http://", "https://")):
            raise ConfigError(
                f"--rest-advertised-url must be http://host:port, not {advertised_url!r}"
            )
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        return cls(host, int(port), user, password, advertised_url)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
