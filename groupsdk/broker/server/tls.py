"""Create the TLS context of a broker's listeners from its settings."""

import ssl
from typing import TYPE_CHECKING

from groupsdk.errors import ConfigError


if TYPE_CHECKING:
    from groupsdk.broker.settings.table import BrokerConfig


def server_context(config: "BrokerConfig") -> ssl.SSLContext:
    """Create the TLS context for the listeners; TLS 1.2 or later."""
    if not config.ssl_keystore_location:
        raise ConfigError(
            "a listener with TLS needs ssl.keystore.location: a PEM file with the broker's certificate"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(
            config.ssl_keystore_location,
            config.ssl_key_location or None,
            config.ssl_key_password or "",
        )
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"ssl.keystore.location={config.ssl_keystore_location}: {error.strerror or error}"
        ) from error
    if config.ssl_client_auth != "none":
        if not config.ssl_truststore_location:
            raise ConfigError(
                f"ssl.client.auth={config.ssl_client_auth} needs ssl.truststore.location"
            )
        try:
            context.load_verify_locations(config.ssl_truststore_location)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"ssl.truststore.location={config.ssl_truststore_location}: {error.strerror or error}"
            ) from error
        required = config.ssl_client_auth == "required"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context
