"""`manage.py up` as a person runs it: from nothing, again after a Ctrl-C, again after a kill."""

import os
import re
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import httpx
import pytest

from tests.e2e.conftest import Up


@contextmanager
def signed_in(up: Up, name: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=up.web, follow_redirects=True, trust_env=False, timeout=20) as client:
        page = client.get("/accounts/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token, page.text
        form = {"username": name, "password": up.password(name), "csrfmiddlewaretoken": token[1]}
        assert client.post("/accounts/login/", data=form).status_code == 200
        assert is_signed_in(client)
        yield client


def is_signed_in(client: httpx.Client) -> bool:
    page = client.get("/")
    return page.status_code == 200 and not page.url.path.startswith("/accounts/login")


@pytest.mark.timeout(120)
def test_a_second_start_goes_on_where_a_ctrl_c_ended_the_first(start_up: Callable[[], Up]) -> None:
    first = start_up().until_ready()
    assert f"Cayu is running at {first.web}/" in first.said
    assert "refund order 1042 25.50 because damaged" in first.said
    assert httpx.get(f"{first.ledger}/", trust_env=False).status_code == 200
    with signed_in(first, "requester") as requester, signed_in(first, "approver") as approver:
        code, output = first.end(signal.SIGINT)
        assert (code, first.left()) == (0, []), output
        second = start_up().until_ready()
        assert is_signed_in(requester)
        assert is_signed_in(approver)
    names = ["requester", "approver"]
    assert [second.password(name) for name in names] == [first.password(name) for name in names]
    with closing(sqlite3.connect(second.var / "cayu.sqlite3")) as database:
        assert database.execute("SELECT slug, name FROM cayu_runtime_tenant").fetchall() == [("demo", "Demo Ltd")]
        assert database.execute("SELECT count(*) FROM auth_user").fetchone() == (2,)
    assert second.end(signal.SIGTERM)[0] == 0


@pytest.mark.timeout(120)
def test_a_start_after_a_kill_goes_on_too(start_up: Callable[[], Up]) -> None:
    first = start_up().until_ready()
    other = start_up()
    code, output = other.end()
    assert code == 1
    assert output.startswith("Another `manage.py up` runs in ")

    with signed_in(first, "requester") as requester:
        first.process.kill()
        os.kill(first.child("worker"), signal.SIGKILL)
        first.process.wait()
        second = start_up().until_ready()
        assert first.left() == []
        assert is_signed_in(requester)
    assert second.end(signal.SIGINT)[0] == 0
    assert second.left() == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["ledger", "worker", "web"])
def test_a_process_that_dies_is_named_and_ends_all(start_up: Callable[[], Up], name: str) -> None:
    up = start_up().until_ready()
    os.kill(up.child(name), signal.SIGKILL)
    code, output = up.end()
    assert code == 1
    assert f"The process {name} was killed by signal 9." in output
    assert up.left() == []


@pytest.mark.parametrize("option", ["--port", "--ledger-port"])
def test_a_busy_port_gets_one_sentence(start_up: Callable[[], Up], ports: tuple[int, int], option: str) -> None:
    port = ports[option == "--ledger-port"]
    with socket.create_server(("127.0.0.1", port)):
        code, output = start_up().end()
    assert code == 1
    assert output == (
        f"Port {port} on 127.0.0.1 cannot be used (Address already in use). Choose another with {option}.\n"
    )
