"""Hold where a worker answers to HTTP, and to whom."""

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

from groupsdk.errors import ConfigError


_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,253}")


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
    allowed_hosts: tuple[str, ...] = ()
    """Names that requests may give as Host, besides `hosts`; "*": any, as where a proxy checks them. Pages that come
    from these hosts may send requests, too."""

    max_connections: int = 200
    """How many connections are held; the next takes the place of the one that has been silent for longest."""
    request_timeout_s: float = 30.0
    """How many seconds a client may take to send a request."""

    def __post_init__(self) -> None:
        if (self.user is None) != (self.password is None):
            raise ConfigError(
                "rest: give both a user (--rest-user) and a password (GROUPSDK_REST_PASSWORD), or neither"
            )
        if self.max_connections < 1 or self.request_timeout_s <= 0:
            raise ConfigError(
                f"rest: max_connections ({self.max_connections}) and request_timeout_s ({self.request_timeout_s})"
                " must be more than 0"
            )
        for each in self.allowed_hosts:
            if each != "*" and not _NAME.fullmatch(each):
                raise ConfigError(
                    f"--rest-allowed-hosts must be names of hosts without ports, such as connect.example, not {each!r}"
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

    def hosts(self) -> frozenset[str]:
        """Return the names, in lower case, that requests may give as Host, besides addresses."""
        announced = urlsplit(self.url).hostname or ""
        names = {
            *_LOOPBACK_NAMES,
            self.host.lower(),
            announced,
            *map(str.lower, self.allowed_hosts),
        }
        return frozenset(each.removesuffix(".") for each in names if each)

    @classmethod
    def of(
        cls,
        address: str | None,
        advertised_url: str | None,
        user: str | None,
        password: str | None,
        allowed_hosts: str | None = None,
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
        allowed = tuple(each.strip() for each in (allowed_hosts or "").split(",") if each.strip())
        return cls(host, int(port), user, password, advertised_url, allowed)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
