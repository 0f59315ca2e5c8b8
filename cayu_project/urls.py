from django.contrib import admin
from django.urls import include, path

from cayu_project import health

urlpatterns = [
    path("health/live", health.live, name="health-live"),
    path("health/ready", health.ready, name="health-ready"),
    path("admin/", admin.site.urls),
    path("", include("cayu_review.urls")),
]
