"""Settings, all from the environment, safe when nothing is said.

What is missing or unsafe is refused by a system check that says the fix (`cayu_project/checks.py`), not by a traceback
here. `var/env` (or the file named by CAYU_ENV_FILE) may hold the same names as KEY=value lines; the environment wins.
"""

import os
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import environ
from csp.constants import NONE, SELF

from cayu_project.databases import database_from_url
from cayu_project.logs import configure_structlog, logging_config

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"

env = environ.Env()
_env_file = os.environ.get("CAYU_ENV_FILE", str(VAR_DIR / "env"))
if _env_file and Path(_env_file).is_file():
    env.read_env(_env_file, overwrite=False)

# --- Process --------------------------------------------------------------------------------------

DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1"])
CSRF_FAILURE_VIEW = "cayu_review.views.pages.csrf_failure"
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

# Without a key each process makes its own, so that every command can run as far as the check that refuses (cayu.E001).
SECRET_KEY_IS_MISSING = not env.str("SECRET_KEY", default="")
SECRET_KEY = env.str("SECRET_KEY", default="") or token_urlsafe(50)

# What this process is: "web" (set by asgi.py), "worker" (set by the supervisor for its children) or "" (a command).
CAYU_PROCESS = env.str("CAYU_PROCESS", default="")

# --- Cayu -----------------------------------------------------------------------------------------

CAYU_DEMO = env.bool("CAYU_DEMO", default=False)
# Your Django apps, comma separated: their agents.py is discovered, their models and commands are there.
CAYU_APPS = env.list("CAYU_APPS", default=[])
CAYU_LEDGER_URL = env.str("CAYU_LEDGER_URL", default="http://127.0.0.1:8001")
CAYU_WORKERS = env.int("CAYU_WORKERS", default=2)
CAYU_LEASE_SECONDS = env.int("CAYU_LEASE_SECONDS", default=15)
CAYU_DRAIN_SECONDS = env.int("CAYU_DRAIN_SECONDS", default=30)
CAYU_AUTHORITY = env.str("CAYU_AUTHORITY", default="cayu_review.permissions.MembershipAuthority")
CAYU_SECRETS = env.str("CAYU_SECRETS", default="cayu_runtime.contracts.EnvironmentSecrets")
CAYU_MODEL = env.str("CAYU_MODEL", default="")
CAYU_MODEL_TIMEOUT = env.int("CAYU_MODEL_TIMEOUT", default=60)
CAYU_PROVIDERS = env.dict("CAYU_PROVIDERS", default={})
# Requests of one token or person in a minute, counted by each web process; 0 is no limit.
CAYU_API_READS = env.int("CAYU_API_READS", default=1200)
CAYU_API_WRITES = env.int("CAYU_API_WRITES", default=240)
CAYU_ALLOW_SQLITE = env.bool("CAYU_ALLOW_SQLITE", default=False)
CAYU_INSECURE_COOKIES = env.bool("CAYU_INSECURE_COOKIES", default=False)
CAYU_TEST_DURABILITY_OFF = env.bool("CAYU_TEST_DURABILITY_OFF", default=False)

# --- Database and queue ---------------------------------------------------------------------------

if "DATABASE_URL" not in os.environ:
    VAR_DIR.mkdir(exist_ok=True)
DATABASES = {
    "default": database_from_url(
        env.str("DATABASE_URL", default="sqlite:///var/cayu.sqlite3"),
        base_dir=BASE_DIR,
        process=CAYU_PROCESS,
        durable=not CAYU_TEST_DURABILITY_OFF,
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# django-q2 is a doorbell: it may lose or repeat a wake-up, but must never end our work or deliver it while it runs.
# The checks cayu.E020 to E029 hold these values.
Q_CLUSTER: dict[str, Any] = {
    "name": "cayu",
    "label": "Wake-ups",
    "orm": "default",
    "workers": 1,
    "timeout": 24 * 3600,
    "retry": 25 * 3600,
    "ack_failures": True,
    "max_attempts": 1,
    "queue_limit": 1,
    "bulk": 1,
    "recycle": 0,  # a worker that ends itself takes its cluster with it
    "save_limit": -1,
    "poll": 0.05,
    "scheduler": False,
    "catch_up": False,
}

# --- Applications ---------------------------------------------------------------------------------

INSTALLED_APPS = [
    "cayu_project",
    "cayu_review",
    "cayu_runtime",
    *(["cayu_project.demo"] if CAYU_DEMO else []),
    *CAYU_APPS,
    "cayu_project.door.AdminDoor",  # django.contrib.admin, with our site
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_q",
    "rest_framework",
    "drf_spectacular",
    "csp",
    "django_structlog",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "cayu_project.middleware.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "cayu_project.middleware.RefusedMethodMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
]

ROOT_URLCONF = "cayu_project.urls"
ASGI_APPLICATION = "cayu_project.asgi.application"
WSGI_APPLICATION = "cayu_project.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# --- People ---------------------------------------------------------------------------------------

# Sign-in by an OpenID provider, once its issuer is named; the checks cayu.E009 and E011 say what is missing.
CAYU_OIDC_ISSUER = env.str("CAYU_OIDC_ISSUER", default="")
CAYU_OIDC_CLIENT_ID = env.str("CAYU_OIDC_CLIENT_ID", default="")
CAYU_OIDC_CLIENT_SECRET = env.str("CAYU_OIDC_CLIENT_SECRET", default="")
CAYU_OIDC_SCOPES = env.str("CAYU_OIDC_SCOPES", default="openid profile email")
CAYU_OIDC_ROLES = env.str("CAYU_OIDC_ROLES", default="")
CAYU_OIDC_ENDPOINTS = env.str("CAYU_OIDC_ENDPOINTS", default="")
CAYU_OIDC_NAME = env.str("CAYU_OIDC_NAME", default="")
CAYU_PASSWORDS = env.bool("CAYU_PASSWORDS", default=True)
OIDC_MAX_STATES = 10  # sign-ins begun and not ended in one browser; the oldest is forgotten

AUTHENTICATION_BACKENDS = [
    *(["cayu_review.sign_in.PasswordBackend"] if CAYU_PASSWORDS else []),
    *(["cayu_review.oidc.backend.OidcBackend"] if CAYU_OIDC_ISSUER else []),
]
LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/accounts/login/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not CAYU_INSECURE_COOKIES
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"

# --- API ------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "cayu_review.api.token.TokenAuthentication",
        "cayu_review.api.membership.MembershipAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["cayu_runtime.http.caller.HasCaller"],
    "DEFAULT_THROTTLE_CLASSES": ["cayu_runtime.http.throttle.CallerThrottle"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["cayu_runtime.http.body.BoundedJSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "cayu_runtime.http.body.AlwaysJSON",
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "cayu_runtime.http.document.Description",
    "EXCEPTION_HANDLER": "cayu_runtime.http.problem.answer",
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Cayu",
    "DESCRIPTION": "Agents propose, people authorise exactly that, workers act at most once.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "POSTPROCESSING_HOOKS": ["cayu_project.health.describe"],
    "PATH_CONVERTER_OVERRIDES": {
        "session_id": {"type": "string", "pattern": r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,80}$"},
        "action_id": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$"},
    },
}

# --- Pages ----------------------------------------------------------------------------------------

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}
X_FRAME_OPTIONS = "DENY"

# Files are found where they lie, also with DEBUG off: no collectstatic step, a minute in the browser's cache.
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_ALLOW_ALL_ORIGINS = False

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

# --- Logs -----------------------------------------------------------------------------------------

configure_structlog()
LOGGING = logging_config()
DJANGO_STRUCTLOG_IP_LOGGING_ENABLED = False
