"""Django's admin with our site as the default one, so that every app's admin.py registers with it."""

from django.contrib.admin.apps import AdminConfig


class AdminDoor(AdminConfig):
    default_site = "cayu_review.admin_site.ReviewSite"

    def ready(self) -> None:
        super().ready()  # every admin.py is read
        from django.contrib import admin
        from django.contrib.auth.models import Group
        from django_q.models import Failure, OrmQ, Schedule, Success

        # Groups give no authority here; the queue's rows belong to no tenant, and are no record of anything.
        for model in (Group, Failure, OrmQ, Schedule, Success):
            if admin.site.is_registered(model):
                admin.site.unregister(model)
