import pytest

from tests.web.office import Office


@pytest.fixture
def office(db: None) -> Office:
    return Office()
