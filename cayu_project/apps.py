from django.apps import AppConfig


class CayuProjectConfig(AppConfig):
    name = "cayu_project"
    verbose_name = "Cayu project"

    def ready(self) -> None:
        from cayu_project.checks import register_checks

        register_checks()
