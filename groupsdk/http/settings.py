"""Settings of an HTTP server: where it listens, and who may use it."""

import ipaddress
import logging
import re
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import urlsplit

from groupsdk.errors import ConfigError


logger = logging.getLogger(__name__)

_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,253}")


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where an HTTP server listens, and which clients it accepts.

    Raises ConfigError if other machines could use it without a user and a password, and it is not `public`.
    """

    host: str = "127.0.0.1"
    port: int = 8083
    """0: any free one, which only a standalone worker can use."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    """For basic authentication; None: none."""
    advertised_url: str | None = None
    """The URL under which others reach it; None: http://host:port."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that requests may give as Host, besides `hosts`; "*": any, as where a proxy checks them. Pages that come
    from these hosts may send requests, too."""

    max_connections: int = 200
    """How many connections are held, at most a quarter of the files that the process may open (`ulimit -n`); the next
    takes the place of the one that has been silent for longest."""
    request_timeout_s: float = 30.0
    """How long a client may take to send a request."""

    public: bool = False
    """Whether everybody who can reach it may use it without a password, as for probes."""

    option: str = "--rest"
    """The option of a command that sets the address; errors name it and those that begin with it."""

    def __post_init__(self) -> None:
        login = f"{self.option}-user and GROUPSDK_{self.option.lstrip('-').upper()}_PASSWORD"
        if (self.user is None) != (self.password is None):
            raise ConfigError(f"{self.option}: give both {login}, or neither")
        if self.max_connections < 1 or self.request_timeout_s <= 0:
            raise ConfigError(
                f"{self.option}: max_connections ({self.max_connections}) and request_timeout_s"
                f" ({self.request_timeout_s}) must be more than 0"
            )
        for each in self.allowed_hosts:
            if each != "*" and not _NAME.fullmatch(each):
                raise ConfigError(
                    f"{self.option}-allowed-hosts must be names of hosts without ports, such as"
                    f" connect.example, not {each!r}"
                )
        if self.user is not None or is_loopback(self.host):
            return
        if self.public:
            logger.warning(
                "%s %s: it can be reached from the network without a password",
                self.option,
                self.host,
            )
        else:
            raise ConfigError(
                f"{self.option}: {self.host} can be reached by others: give {login}, or listen on 127.0.0.1"
            )

    @property
    def url(self) -> str:
        return self.advertised_url or self.url_of(self.port)

    def url_of(self, port: int) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{port}"

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
        option: str,
        address: str,
        *,
        user: str | None = None,
        password: str | None = None,
        allowed_hosts: str | None = None,
        advertised_url: str | None = None,
        **others: Any,
    ) -> Self:
        """Read the options of a command, which begin with `option`, such as "--rest", and an address of "host:port".

        Args:
            option: the option that names the address, such as "--rest"; the others begin with it.
            address: "host:port"; without a host, 127.0.0.1.
            user: the name for basic authentication; None: no authentication.
            advertised_url: the URL under which others reach it; None: made from the address.

        Raises:
            ConfigError: one is invalid, or other machines could use it without a password.
        """
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65_535:
            raise ConfigError(
                f"{option} must be HOST:PORT, such as 127.0.0.1:8080, not {address!r}"
            )
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        if advertised_url is not None and not advertised_url.startswith(("http://", "https://")):
            raise ConfigError(
                f"{option}-advertised-url must be http://host:port, not {advertised_url!r}"
            )
        allowed = tuple(each.strip() for each in (allowed_hosts or "").split(",") if each.strip())
        return cls(
            host=host,
            port=int(port),
            user=user,
            password=password,
            advertised_url=advertised_url,
            allowed_hosts=allowed,
            option=option,
            **others,
        )


def is_loopback(host: str) -> bool:
    """Return whether a host can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
