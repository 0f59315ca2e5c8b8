"""The ASGI entry point: `uvicorn cayu_project.asgi:application`."""

import os

from django.core.wsgi import get_wsgi_application

from cayu_project.checks import refuse_unsafe_start
from cayu_project.threads import InThreads

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cayu_project.settings")
os.environ.setdefault("CAYU_PROCESS", "web")

application = InThreads(get_wsgi_application())
refuse_unsafe_start()
