"""An identity provider for tests: Authlib's authorization server, which knows one client, over TLS."""

import json
import ssl
import threading
import time
from pathlib import Path
from typing import Any, Final, Self

import jwt
import trustme
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
from authlib.oauth2.rfc7523 import JWTBearerGrant
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flask import Flask, Response, request
from joserfc import jwk
from typing_extensions import override
from werkzeug.serving import WSGIRequestHandler, make_server


CLIENT_ID: Final = "orders service"
SECRET: Final = "s3cr+t/of the: client"
SCOPE: Final = "kafka"
AUDIENCE: Final = "kafka-cluster"
_KEY_ID: Final = "token-key"


class _Client(ClientMixin):  # type: ignore[misc]  # Authlib ships no types
    def get_client_id(self) -> str:
        return CLIENT_ID

    def get_allowed_scope(self, scope: str) -> str:
        return " ".join(each for each in (scope or "").split() if each == SCOPE)

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == SECRET

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_basic"

    def check_grant_type(self, grant_type: str) -> bool:
        return True


class _User:
    def __init__(self, name: str) -> None:
        self.name = name


class _Quiet(WSGIRequestHandler):
    @override
    def log(self, type: str, message: str, *args: Any) -> None:  # werkzeug's name
        pass


class TokenServer:
    """Issues signed tokens at `url`, from `with` to its end.

    Args:
        client_key: whose signature of assertions is believed, by the issuer CLIENT_ID.
    """

    def __init__(
        self,
        client_key: rsa.RSAPrivateKey | EllipticCurvePrivateKey | None = None,
        lifetime_s: int = 3_600,
    ) -> None:
        self.lifetime_s = lifetime_s
        self.tokens: list[str] = []
        """What was issued."""
        self.failures: list[Response] = []
        """What is answered to the next requests, in place of tokens."""
        self._client_key = client_key
        self._key = rsa.generate_private_key(65_537, 2_048)
        authority = trustme.CA()
        self.ca_pem = authority.cert_pem.bytes().decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        self._server = make_server(
            "127.0.0.1",
            0,
            self._app(),
            threaded=True,
            ssl_context=context,
            request_handler=_Quiet,
        )
        self.url = f"https://localhost:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def validate(self, token: str) -> str:
        """Return the subject of a token that this server has issued; raises for all others."""
        claims = jwt.decode(token, self._key.public_key(), algorithms=["RS256"], audience=AUDIENCE)
        return str(claims["sub"])

    def write_keys(self, file: Path) -> None:
        """Write what brokers check tokens with, as a JWK set."""
        pem = self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        key = jwk.RSAKey.import_key(pem, {"kid": _KEY_ID, "use": "sig", "alg": "RS256"})
        file.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))

    def _app(self) -> Flask:
        app = Flask(__name__)
        client = _Client()
        server = AuthorizationServer(
            app,
            query_client=lambda client_id: client if client_id == CLIENT_ID else None,
            save_token=lambda token, _: self.tokens.append(token["access_token"]),
        )
        server.register_token_generator("default", self._token)
        server.register_grant(ClientCredentialsGrant)
        server.register_grant(self._jwt_bearer(client))

        @app.post("/token")
        def token() -> Response:
            if self.failures:
                return self.failures.pop(0)
            answer: Response = server.create_token_response(request)
            return answer

        return app

    def _jwt_bearer(self, client: _Client) -> type[Any]:
        outer = self

        class Grant(JWTBearerGrant):  # type: ignore[misc]  # Authlib ships no types
            def resolve_issuer_client(self, issuer: str) -> _Client | None:
                return client if issuer == CLIENT_ID else None

            def resolve_client_public_key(self, _: _Client) -> Any:
                assert outer._client_key is not None
                pem = outer._client_key.public_key().public_bytes(
                    Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
                )
                kind = jwk.RSAKey if isinstance(outer._client_key, rsa.RSAPrivateKey) else jwk.ECKey
                return kind.import_key(pem)

            def authenticate_user(self, subject: str) -> _User:
                return _User(subject)

            def get_audiences(self) -> list[str]:
                return [outer.url]

            def has_granted_permission(self, *_: object) -> bool:
                return True

        return Grant

    def _token(self, **given: Any) -> dict[str, Any]:
        now = int(time.time())  # noqa: TID251  # what the server's own clock says
        user = given.get("user")
        claims = {
            "iss": "test",
            "aud": AUDIENCE,
            "sub": "orders" if user is None else user.name,
            "iat": now - 5,
            "exp": now + self.lifetime_s,
            "scope": given.get("scope") or SCOPE,
            "grant": given.get("grant_type"),
            "number": len(self.tokens),
        }
        token = jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": _KEY_ID})
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}
