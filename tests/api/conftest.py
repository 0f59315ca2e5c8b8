import pytest
from django.core.cache import cache

from tests.api.clients import ApiClient, agent_client, person_client
from tests.web.office import Office


@pytest.fixture
def office(db: None) -> Office:
    cache.clear()
    return Office()


@pytest.fixture
def agent(office: Office) -> ApiClient:
    """An agent client of north that acts for bob, who is a viewer."""
    return agent_client(office.bob, office.north)


@pytest.fixture
def alice(office: Office) -> ApiClient:
    """An approver of north."""
    return person_client(office.alice)
