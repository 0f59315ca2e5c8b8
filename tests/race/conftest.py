import pytest
from pytest_django.fixtures import Settings

from tests.machine import Machine


@pytest.fixture
def machine(transactional_db: None, settings: Settings) -> Machine:
    settings.CAYU_AUTHORITY = "tests.machine.Everybody"
    return Machine()
