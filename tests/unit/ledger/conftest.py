"""A ledger in a thread of the test."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cayu_project.demo.ledger import Server
from cayu_project.demo.ledger_file import Ledger


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


@pytest.fixture
def server(db: Path) -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Ledger(db))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.stop()
    thread.join()
    server.server_close()


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}", trust_env=False) as client:
        yield client
