"""Sign-in by an OpenID provider (OpenID Connect Core 1.0, code flow with PKCE), on mozilla-django-oidc.

`provider` is what the settings and the issuer's discovery document say, `token` judges what it sends, `mapping` reads
roles from its claims, `backend` leads to the account. Who someone is says the pair of issuer and subject alone.
"""
