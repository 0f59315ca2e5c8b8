"""The WSGI entry point: `gunicorn cayu_project.wsgi:application`."""

import os

from django.core.wsgi import get_wsgi_application

from cayu_project.checks import refuse_unsafe_start

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cayu_project.settings")
os.environ.setdefault("CAYU_PROCESS", "web")

application = get_wsgi_application()
refuse_unsafe_start()
