"""Load: people who start sessions and approve what is asked, over HTTP, and repeat what got no answer."""

from __future__ import annotations

import json
import random
import re
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from django.conf import global_settings
from django.contrib.auth.models import User
from django.db import connections
from django.test import override_settings

from cayu_review.services.membership import grant_role
from cayu_runtime.models import Approval, Session, Tenant
from tests.faults.deployment import ROOT, Deployment, until

PASSWORD = "correct horse battery staple"
# Done now, or done before: then the first answer got lost.
DONE = (302, 409)
PLANS = (
    [[("look", "work 0.3"), ("pay", "work 0.5")], [("look", "go")]],
    [[("label", "work 0.5")], [("pay", "work 0.2"), ("look", "work 0.2")]],
    [[("pay", "work 0.4"), ("pay", "work 0.1")]],
)


class Web:
    """uvicorn over the same database, on a port of its own."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = environment
        self.log = log
        self.start()

    def start(self) -> None:
        argv = [sys.executable, "-m", "uvicorn", "cayu_project.asgi:application", "--port", str(self.port)]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*argv, "--lifespan", "off"], cwd=ROOT, env=self.environment, stdout=output, stderr=output
            )

    def until_live(self) -> None:
        until("the web answers", self._is_live)

    def _is_live(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health/live", timeout=2, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Person:
    """Somebody signed in, who sees an error as what it is: no answer."""

    def __init__(self, web: Web, name: str) -> None:
        self.client = httpx.Client(base_url=web.url, timeout=10, trust_env=False)
        self.name = name

    def sign_in(self) -> None:
        page = self.client.get("/accounts/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token, page.text
        form = {"username": self.name, "password": PASSWORD, "csrfmiddlewaretoken": token[1]}
        assert self.client.post("/accounts/login/", data=form).status_code == 302

    def close(self) -> None:
        self.client.close()

    def asked(self) -> list[str]:
        """Addresses of the approvals that the queue's first page shows."""
        return re.findall(r'href="(/approvals/[0-9a-f-]+/)"', self.client.get("/").text)

    def approve(self, address: str) -> int:
        """What the form of that page would send."""
        page = self.client.get(address).text
        hidden = dict(re.findall(r'<input type="hidden" name="(version|digest)" value="([^"]+)"', page))
        return self.post(f"{address}decide/", {"decision": "approve", **hidden})

    def post(self, path: str, form: dict[str, Any]) -> int:
        """The status, or 0 without an answer."""
        headers = {"X-CSRFToken": self.client.cookies["csrftoken"]}
        try:
            return self.client.post(path, data=form, headers=headers).status_code
        except httpx.HTTPError:
            return 0


def open_office(tenant: Tenant) -> None:
    """The accounts `requester` and `approver`, who may do what their names say."""
    with override_settings(PASSWORD_HASHERS=global_settings.PASSWORD_HASHERS):  # those that the web process knows
        for name, role in (("requester", "viewer"), ("approver", "approver")):
            grant_role(User.objects.create_user(name, password=PASSWORD), tenant, role)


class Load(threading.Thread):
    """One thread in which all people do what they do, one after another, with at most `AT_ONCE` sessions under way."""

    AT_ONCE = 3
    PAUSE_SECONDS = 0.05

    def __init__(self, deployment: Deployment, web: Web, seed: int) -> None:
        super().__init__(name="load", daemon=True)
        self.deployment = deployment
        self.random = random.Random(seed)
        open_office(deployment.tenant)
        web.until_live()
        self.requester, self.approver = Person(web, "requester"), Person(web, "approver")
        self.requester.sign_in()
        self.approver.sign_in()
        self.answers: dict[int, int] = {}
        self.failure: BaseException | None = None
        self._ended = threading.Event()
        self._may_start = threading.Event()
        self._may_start.set()
        self._wanted: tuple[str, str] | None = None

    def run(self) -> None:
        try:
            while not self._ended.wait(self.PAUSE_SECONDS):
                self._approve()
                if self._may_start.is_set() and self._under_way() < self.AT_ONCE:
                    self._start()
        except BaseException as failure:
            self.failure = failure
            raise
        finally:
            connections.close_all()

    def _under_way(self) -> int:
        return Session.objects.exclude(state="completed").exclude(interruption="effect_outcome_unknown").count()

    def _start(self) -> None:
        """The same session id until there was an answer: sent twice it is one session."""
        if self._wanted is None:
            name = f"load-{uuid.uuid4().hex[:12]}"
            self._wanted = (name, json.dumps([*self.random.choice(PLANS), name]))
        session, text = self._wanted
        if self._answered(self.requester.post("/start/", {"agent": "gated", "text": text, "session_id": session})):
            self._wanted = None

    def _approve(self) -> None:
        for approval in Approval.objects.filter(state="pending", session__interruption="approval_required"):
            form = {"decision": "approve", "version": approval.version, "digest": bytes(approval.intent_digest).hex()}
            self._answered(self.approver.post(f"/approvals/{approval.id}/decide/", form))

    def _answered(self, status: int) -> bool:
        """Whether it need not be sent again."""
        assert status in (0, *DONE), status
        self.answers[status] = self.answers.get(status, 0) + 1
        return status in DONE

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing new is started meanwhile."""
        self._may_start.clear()
        try:
            yield
        finally:
            self._may_start.set()

    def stop(self) -> None:
        self._ended.set()
        if self.is_alive():
            self.join(30)
        self.requester.close()
        self.approver.close()

    def end(self) -> None:
        """Stop, and raise what ended it before, if something did."""
        self.stop()
        if self.failure is not None:
            raise self.failure
