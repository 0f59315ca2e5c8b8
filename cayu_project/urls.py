from django.contrib import admin
from django.urls import include, path

from cayu_project import health
from cayu_runtime.http.document import schema

urlpatterns = [
    path("health/live", health.live, name="health-live"),
    path("health/ready", health.ready, name="health-ready"),
    path("admin/", admin.site.urls),
    path("api/schema/", schema, name="api-schema"),
    path("api/v1/", include("cayu_review.api_urls")),
    path("api/v1/", include("cayu_runtime.urls")),
    path("", include("cayu_review.urls")),
]
