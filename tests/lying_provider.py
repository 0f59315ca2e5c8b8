"""An OpenID provider on Authlib's server classes that tells one lie at a time, at a port of its own.

It is a whole one without them: discovery, code flow, PKCE, signed tokens, userinfo, end of session. Who comes is signed
in as `person` without being asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import flask
from authlib.integrations.flask_oauth2 import AuthorizationServer, ResourceProtector, current_token
from authlib.oauth2.rfc6749 import ClientMixin, TokenMixin, grants
from authlib.oauth2.rfc6750 import BearerTokenValidator
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import AuthorizationCodeMixin, OpenIDCode
from joserfc.jwk import KeySet, OctKey, RSAKey
from werkzeug.serving import make_server

CLIENT, SECRET = "cayu", "known to both"
ANOTHER = "https://another.example"


@dataclass
class Client(ClientMixin):
    client_metadata: dict[str, Any] = field(default_factory=dict)

    def get_client_id(self) -> str:
        return CLIENT

    def get_default_redirect_uri(self) -> str:
        return ""

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri.endswith("/accounts/oidc/callback/")

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == SECRET

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method in ("client_secret_basic", "client_secret_post")

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


@dataclass
class Code(AuthorizationCodeMixin):
    code: str
    redirect_uri: str
    scope: str
    nonce: str
    code_challenge: str
    code_challenge_method: str

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str:
        return self.nonce

    def get_auth_time(self) -> None:
        return None

    get_acr = get_amr = get_auth_time


@dataclass
class Token(TokenMixin):
    scope: str

    def get_scope(self) -> str:
        return self.scope

    def is_expired(self) -> bool:
        return False

    def is_revoked(self) -> bool:
        return False


class LyingProvider:
    """`claims` are added to the ID token, `userinfo` to the other answer, `header` to the token's head; None takes out.

    `auth_time` None leaves it out. `asked` is what each sign-in was asked with, `ended` what each sign-out was.
    """

    def __init__(self) -> None:
        self.person: dict[str, Any] = {"sub": "s-1", "name": "Ann Other"}
        self.claims: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self.document: dict[str, Any] = {}
        self.id_token: Any = None
        self.token_status = 200
        self.auth_time: float | None = time.time()
        self.keys = KeySet([RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"}, private=True)])
        self.signing: Any = self.keys
        self.published: dict[str, Any] = {**self.keys.as_dict(private=False)}
        self.codes: dict[str, Code] = {}
        self.tokens: dict[str, Token] = {}
        self.asked: list[dict[str, str]] = []
        self.ended: list[dict[str, str]] = []
        self.issuer = ""
        self.app = flask.Flask("lying_provider")
        self._wire()

    @property
    def settings(self) -> dict[str, str]:
        return {
            "CAYU_OIDC_ISSUER": self.issuer,
            "CAYU_OIDC_CLIENT_ID": CLIENT,
            "CAYU_OIDC_CLIENT_SECRET": SECRET,
            "CAYU_OIDC_NAME": "Example ID",
        }

    def sign_with_secret(self) -> None:
        """HS256 with the client's secret: whoever knows that could have made it."""
        self.header = {"alg": "HS256"}
        self.signing = OctKey.import_key(SECRET.ljust(40, "."))

    def sign_with_another_key(self, kid: str) -> None:
        self.signing = KeySet([RSAKey.generate_key(2048, {"kid": kid}, private=True)])
        self.header = {"kid": kid}

    @contextmanager
    def running(self) -> Iterator[LyingProvider]:
        server = make_server("127.0.0.1", 0, self.app, threaded=True)
        self.issuer = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def _wire(self) -> None:
        server = AuthorizationServer()
        server.init_app(self.app, query_client=lambda key: Client() if key == CLIENT else None, save_token=self._save)
        server.register_grant(_grant_of(self), [_OpenID(self), CodeChallenge(required=True)])
        protector = ResourceProtector()
        protector.register_token_validator(_validator_of(self))
        self.app.add_url_rule("/.well-known/openid-configuration", view_func=self._discovery)
        self.app.add_url_rule("/jwks", view_func=lambda: self.published, endpoint="jwks")
        self.app.add_url_rule("/end", view_func=self._end, endpoint="end")

        @self.app.get("/authorize")
        def authorize() -> Any:
            self.asked.append(dict(flask.request.args))
            grant = server.get_consent_grant(end_user=self.person["sub"])
            return server.create_authorization_response(grant_user=self.person["sub"], grant=grant)

        @self.app.post("/token")
        def token() -> Any:
            if self.token_status != 200:
                return "<h1>Down</h1>", self.token_status
            return server.create_token_response()

        @self.app.get("/userinfo")
        @protector("openid")
        def userinfo() -> Any:
            assert current_token
            return _without_none({**self.person, **self.userinfo})

    def _save(self, token: dict[str, Any], request: Any) -> None:
        self.tokens[token["access_token"]] = Token(token["scope"])

    def _discovery(self) -> dict[str, Any]:
        here = self.issuer
        document = {
            "issuer": here,
            "authorization_endpoint": f"{here}/authorize",
            "token_endpoint": f"{here}/token",
            "userinfo_endpoint": f"{here}/userinfo",
            "jwks_uri": f"{here}/jwks",
            "end_session_endpoint": f"{here}/end",
        }
        return _without_none({**document, **self.document})

    def _end(self) -> Any:
        self.ended.append(dict(flask.request.args))
        return flask.redirect(flask.request.args["post_logout_redirect_uri"])


class _OpenID(OpenIDCode):
    def __init__(self, provider: LyingProvider) -> None:
        super().__init__(require_nonce=True)
        self.provider = provider

    def exists_nonce(self, nonce: str, request: Any) -> bool:
        return False

    def resolve_client_private_key(self, client: Any) -> Any:
        return self.provider.signing

    def get_client_algorithm(self, client: Any) -> str:
        return str(self.provider.header.get("alg", "RS256"))

    def get_encode_header(self, client: Any) -> dict[str, Any]:
        return _without_none({"alg": "RS256", "kid": "one", **self.provider.header})

    def get_client_claims(self, client: Any) -> dict[str, Any]:
        return {"iss": self.provider.issuer, "aud": [CLIENT]}

    def generate_user_info(self, user: str, scope: str) -> dict[str, Any]:
        """The last that goes into the token, so lies are told here."""
        moment = int(self.provider.auth_time) if self.provider.auth_time is not None else None
        return {"sub": user, "auth_time": moment, **self.provider.claims}

    def process_token(self, grant: Any, response: Any) -> Any:
        token = super().process_token(grant, response)
        if self.provider.id_token is not None:
            token["id_token"] = self.provider.id_token
        return token


def _grant_of(provider: LyingProvider) -> Any:
    class CodeGrant(grants.AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic", "client_secret_post")

        def save_authorization_code(self, code: str, request: Any) -> None:
            sent, data = request.payload, request.payload.data
            provider.codes[code] = Code(
                code,
                sent.redirect_uri,
                sent.scope,
                data["nonce"],
                data["code_challenge"],
                data["code_challenge_method"],
            )

        def query_authorization_code(self, code: str, client: Any) -> Code | None:
            return provider.codes.get(code)

        def delete_authorization_code(self, authorization_code: Code) -> None:
            del provider.codes[authorization_code.code]

        def authenticate_user(self, authorization_code: Code) -> str:
            return str(provider.person["sub"])

    return CodeGrant


def _validator_of(provider: LyingProvider) -> Any:
    class Validator(BearerTokenValidator):
        def authenticate_token(self, token_string: str) -> Token | None:
            return provider.tokens.get(token_string)

    return Validator()


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
