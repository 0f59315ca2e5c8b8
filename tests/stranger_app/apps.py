from django.apps import AppConfig


class StrangerConfig(AppConfig):
    name = __name__.rpartition(".")[0]  # also where a test has copied the folder to
    label = "stranger"
    verbose_name = "Accounts"
