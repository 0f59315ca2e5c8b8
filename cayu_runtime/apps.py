from django.apps import AppConfig


class CayuRuntimeConfig(AppConfig):
    name = "cayu_runtime"
    verbose_name = "Cayu runtime"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db import connections

        from cayu_runtime.checks import register_checks
        from cayu_runtime.policies import asking

        register_checks()
        asking.thread_ends[:] = [connections.close_all]
