from django.apps import AppConfig


class CayuRuntimeConfig(AppConfig):
    name = "cayu_runtime"
    verbose_name = "Cayu runtime"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from cayu_runtime.checks import register_checks

        register_checks()
