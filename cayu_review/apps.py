from django.apps import AppConfig


class CayuReviewConfig(AppConfig):
    name = "cayu_review"
    verbose_name = "People and review"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from .checks import register_checks

        register_checks()
