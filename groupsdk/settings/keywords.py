"""Name the settings of a member, so that editors complete them and type checkers know them.

Made from the code by `python -m docs.list_settings`, like the tables in docs/configuration.md. Only type
checkers import it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypedDict

from groupsdk.settings.security import OAuthToken, SecuritySettings


class MemberSettings(TypedDict, total=False):
    """A member's settings as keywords: what `MemberConfig.of` takes."""

    bootstrap_servers: str | Iterable[str]
    """The brokers to contact first: "host:port,host:port" or a list; the default port is 9092."""
    group_id: str
    """The group to join."""
    group_instance_id: str | None
    """Makes the member static (KIP-345): a restart within the session timeout causes no
    rebalance."""
    client_id: str
    """Shown in the broker's logs and in the member id."""
    session_timeout_ms: int
    """How long the group coordinator waits for a heartbeat before it expels the member."""
    heartbeat_interval_ms: int
    """How often to heartbeat; less than the session timeout, commonly a third or less."""
    rebalance_timeout_ms: int
    """How long the group waits for this member to rejoin; 100 at least."""
    max_poll_interval_ms: int | None
    """How long the caller may stay away before the member leaves, 100 at least; None:
    rebalance_timeout_ms."""
    request_timeout_ms: int
    """How long to wait for a response, unless a rebalance parks it."""
    retry_backoff_ms: int
    """The delay before the first retry, 1 at least; doubles each time (KIP-580)."""
    retry_backoff_max_ms: int
    """The longest delay before a retry."""
    socket_connection_setup_timeout_ms: int
    """How long a connection may take, TLS and SASL included."""
    receive_message_max_bytes: int
    """The largest response accepted; a longer one closes the connection."""
    heartbeat: Literal["thread", "process"]
    """Where the member runs: a background thread, or a child process that even native code which
    holds the interpreter's lock for minutes cannot delay. The child cannot have ssl.context, and
    imports the modules of sasl.oauth.token.provider and sasl.credentials.provider."""
    security: SecuritySettings
    """How connections are encrypted and authenticated; `of` takes its keys along with the
    others."""
    security_protocol: str
    """One of `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT`, `SASL_SSL`, in upper or lower case."""
    sasl_mechanism: str | None
    """One of `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`, in upper or lower case."""
    sasl_mechanisms: str | None
    """The same, as librdkafka spells it."""
    sasl_username: str | None
    """The user's name, for PLAIN and SCRAM."""
    sasl_password: str | None
    """The user's password, for PLAIN and SCRAM."""
    sasl_credentials_provider: Callable[[], tuple[str, str]] | None
    """Returns user name and password as they are now, in place of the two settings above. Called
    once per connection; may block."""
    sasl_oauth_token_provider: Callable[[], str | OAuthToken] | None
    """Returns a token that is valid now. Called once per connection; may block."""
    sasl_oauthbearer_method: str
    """`oidc` gets tokens from a token endpoint, with the settings below (KIP-768); `default`:
    from sasl.oauth.token.provider."""
    sasl_oauthbearer_jwt_retriever_class: str | None
    """Java's name for `oidc` and a grant: `ClientCredentialsJwtRetriever` or
    `JwtBearerJwtRetriever`, with or without its package."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """The token endpoint, https:// or http://."""
    sasl_oauthbearer_grant_type: str
    """One of `client_credentials`, `urn:ietf:params:oauth:grant-type:jwt-bearer`."""
    sasl_oauthbearer_client_id: str | None
    """The client's id at the identity provider."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """The same, as librdkafka spells it."""
    sasl_oauthbearer_client_secret: str | None
    """The client's secret."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """The same, as librdkafka spells it."""
    sasl_oauthbearer_scope: str | None
    """The scope to request; None: the identity provider's default."""
    sasl_oauthbearer_extensions: str | None
    """SASL extensions (KIP-342) for the broker: "key=value,key=value"."""
    sasl_oauthbearer_header_urlencode: bool
    """Whether id and secret are URL-encoded in the header, as RFC 6749 has it and few endpoints
    do."""
    sasl_oauthbearer_assertion_file: str | None
    """A file with the assertion of a JWT bearer grant (KIP-1139), read for each token. Without it
    one is made and signed with the settings below."""
    sasl_oauthbearer_assertion_private_key_file: str | None
    """The key to sign with, in PEM; read for each token."""
    sasl_oauthbearer_assertion_private_key_pem: str | None
    """The key itself, in PEM."""
    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    """The passphrase of the key; None: it is not encrypted."""
    sasl_oauthbearer_assertion_algorithm: str
    """`RS256` or `ES256`."""
    sasl_oauthbearer_assertion_claim_aud: str | None
    """The assertion's audience."""
    sasl_oauthbearer_assertion_claim_iss: str | None
    """The assertion's issuer."""
    sasl_oauthbearer_assertion_claim_sub: str | None
    """The assertion's subject."""
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    """For how many seconds the assertion is valid."""
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    """From how many seconds ago it is valid, for clocks that differ."""
    sasl_oauthbearer_assertion_claim_jti_include: bool
    """Whether each assertion has a random id."""
    sasl_oauthbearer_assertion_template_file: str | None
    """JSON with more of the assertion: {"header": {...}, "payload": {...}}."""
    sasl_oauthbearer_assertion_jwt_template_file: str | None
    """The same, as librdkafka spells it."""
    https_ca_location: str | None
    """File or directory of PEM certificates that the token endpoint's is checked with; None: the
    system's."""
    https_ca_pem: str | None
    """The certificates themselves, in PEM."""
    ssl_ca_location: str | None
    """File of PEM certificates, or a directory prepared by `openssl rehash`."""
    ssl_ca_pem: str | None
    """The certificates themselves, in PEM."""
    ssl_certificate_location: str | None
    """The client's certificate chain in PEM, for brokers that require one."""
    ssl_key_location: str | None
    """The key of the client's certificate; None: it is in the certificate's file."""
    ssl_key_password: str | None
    """The password of the key; None: it is not encrypted."""
    ssl_endpoint_identification_algorithm: str
    """`https` checks that the broker's certificate names the host connected to; `none` (or "")
    does not."""
    ssl_context: Any
    """An `ssl.SSLContext` of the user's. It overrides every other `ssl_*` setting."""
