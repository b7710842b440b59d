"""Security of a test broker's listeners: certificates, users and permissions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from groupsdk.testing.errors import MissingToolError
from groupsdk.testing.install import Scram
from groupsdk.testing.ports import LOOPBACK


PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER")
CLIENT_AUTH = ("none", "requested", "required")
ADMIN = "admin"
DEFAULT_USERS: Mapping[str, str] = {ADMIN: "admin-secret", "alice": "alice-secret"}
"""User name to password; `admin` may do everything when there is an authorizer."""

_LISTENER_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
# Neither JAAS nor StorageTool's users need quotes for these characters.
_PLAIN_WORD = re.compile(r"[A-Za-z0-9._~-]+")
_LOGIN = "org.apache.kafka.common.security"


def listener_protocols(listeners: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Return the security protocol of each listener, by name, or named like it, such as "SASL_SSL"."""
    if isinstance(listeners, str):
        listeners = (listeners,)
    named = dict(listeners) if isinstance(listeners, Mapping) else {n: n for n in listeners}
    if not named:
        raise ValueError("a broker needs at least one listener")
    for name, protocol in named.items():
        if _LISTENER_NAME.fullmatch(name) is None or name in ("CONTROLLER", "INTERNAL"):
            raise ValueError(
                f"listener name {name!r} must have only capital letters, digits and _, and must not be CONTROLLER or INTERNAL"
            )
        if protocol not in PROTOCOLS:
            raise ValueError(
                f"the security protocol of listener {name} must be one of {', '.join(PROTOCOLS)}, not {protocol!r}"
            )
    return named


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The security requirements of a broker's listeners."""

    protocols: Mapping[str, str]
    users: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_USERS), repr=False)
    """Password by user name, for PLAIN and both SCRAM mechanisms."""
    authorizer: bool = False
    """Whether access is denied unless an ACL allows it, or the user is a super user."""
    super_users: Sequence[str] = (ADMIN,)
    """The super users if there is an authorizer, besides ANONYMOUS."""
    ssl_client_auth: str = "none"
    """Whether TLS clients need a certificate: "none", "requested" or "required"."""

    def __post_init__(self) -> None:
        for name, password in self.users.items():
            if _PLAIN_WORD.fullmatch(name) is None or _PLAIN_WORD.fullmatch(password) is None:
                raise ValueError(
                    f"the name and password of user {name!r} must have only letters, digits and . _ ~ -"
                )
        if ADMIN not in self.users:
            raise ValueError(
                f"users must include {ADMIN!r}, the user that the brokers themselves log in as"
            )
        if self.ssl_client_auth not in CLIENT_AUTH:
            raise ValueError(
                f"ssl_client_auth must be one of {CLIENT_AUTH}, not {self.ssl_client_auth!r}"
            )

    @property
    def uses_tls(self) -> bool:
        return any(p.endswith("SSL") for p in self.protocols.values())

    @property
    def uses_sasl(self) -> bool:
        return any(p.startswith("SASL") for p in self.protocols.values())

    @property
    def scram(self) -> tuple[Scram, ...]:
        """The users that the storage is formatted with."""
        if not self.uses_sasl:
            return ()
        return tuple(Scram(m, n, p) for m in SCRAM_MECHANISMS for n, p in self.users.items())

    def properties(self, directory: Path) -> dict[str, str]:
        """Return the properties of a broker, and write into `directory` the files that they name."""
        result: dict[str, str] = {}
        if self.uses_tls:
            result |= self._tls(directory)
        for name, protocol in self.protocols.items():
            if protocol.startswith("SASL"):
                result |= self._sasl(name)
        if self.authorizer:
            result |= {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                # ANONYMOUS is who the brokers are to each other on the internal listener.
                "super.users": ";".join(
                    f"User:{name}" for name in ("ANONYMOUS", *self.super_users)
                ),
                "allow.everyone.if.no.acl.found": "false",
            }
        return result

    def _sasl(self, listener: str) -> dict[str, str]:
        prefix = f"listener.name.{listener.lower()}."
        password = self.users[ADMIN]
        known = " ".join(f'user_{name}="{secret}"' for name, secret in self.users.items())
        plain = f'{_LOGIN}.plain.PlainLoginModule required username="{ADMIN}" password="{password}" {known};'
        oauth = (
            f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule required "
            f'unsecuredLoginStringClaim_sub="{ADMIN}";'
        )
        scram = f"{_LOGIN}.scram.ScramLoginModule required;"
        return {
            f"{prefix}sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"{prefix}plain.sasl.jaas.config": plain,
            f"{prefix}oauthbearer.sasl.jaas.config": oauth,
            **{f"{prefix}{m.lower()}.sasl.jaas.config": scram for m in SCRAM_MECHANISMS},
        }

    def _tls(self, directory: Path) -> dict[str, str]:
        key_store, ca_file = directory / "broker.pem", directory / "ca.pem"
        if not key_store.exists():
            _write_certificates(directory, key_store, ca_file)
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(key_store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(ca_file),
            "ssl.client.auth": self.ssl_client_auth,
        }


def _write_certificates(directory: Path, key_store: Path, ca_file: Path) -> None:
    """Make an authority, the broker's certificate and one for clients (client.pem)."""
    # Imported here, for only TLS listeners need them and a plain installation lacks them.
    try:
        import trustme
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            load_pem_private_key,
        )
    except ImportError as error:
        raise MissingToolError(
            "TLS listeners need trustme and cryptography: pip install trustme cryptography"
        ) from error

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(ca_file))
    for file, names in (
        (key_store, ("localhost", LOOPBACK)),
        (directory / "client.pem", ("client",)),
    ):
        issued = authority.issue_cert(*names)
        # trustme writes OpenSSL's own form of a key and Java reads PKCS 8 only.
        key = load_pem_private_key(issued.private_key_pem.bytes(), password=None)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        file.touch(mode=0o600)
        file.write_bytes(pem + chain)
