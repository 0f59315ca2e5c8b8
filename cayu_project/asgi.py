"""The ASGI entry point: `uvicorn cayu_project.asgi:application`."""

import os

from django.core.asgi import get_asgi_application

from cayu_project.checks import refuse_unsafe_start

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cayu_project.settings")
os.environ.setdefault("CAYU_PROCESS", "web")

application = get_asgi_application()
refuse_unsafe_start()
