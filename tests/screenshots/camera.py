"""The web process, the browser, and one picture of each kind of window for a page."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from tests.chromium import FLAGS, find_chromium

from .addresses import States
from .shots import Shot

TALLEST = 5000
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WINDOWS = [(scheme, width) for width in (1280, 360) for scheme in SCHEMES]


class Camera:
    def __init__(self, out: Path, states: States) -> None:
        self.out, self.states, self.taken = out, states, 0
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.site = f"http://127.0.0.1:{port}"
        argv = [sys.executable, "-m", "uvicorn", "cayu_project.asgi:application", "--port", str(port)]
        self.web = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self) -> Camera:
        from playwright.sync_api import sync_playwright

        self._wait()
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.browser.close()
        self.playwright.stop()
        self.web.terminate()
        self.web.wait(20)

    def _wait(self) -> None:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{self.site}/health/live", timeout=5).close()
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("The web process did not start.")

    def take(self, shot: Shot) -> list[str]:
        """Pictures of one page in each window; returns what is wrong with it."""
        problems = []
        for scheme, width in WINDOWS:
            context = self.browser.new_context(
                base_url=self.site,
                color_scheme=scheme,
                viewport={"width": width, "height": 800},
                reduced_motion="reduce",
            )
            try:
                problems += [f"{shot.name} {scheme} {width}: {one}" for one in self._one(shot, context, scheme, width)]
            finally:
                context.close()
        return problems

    def _one(self, shot: Shot, context: Any, scheme: str, width: int) -> list[str]:
        if shot.who:
            client = Client()
            client.force_login(User.objects.get(username=shot.who))
            key = client.cookies[settings.SESSION_COOKIE_NAME].value
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": key, "url": self.site}])
        page = context.new_page()
        page.set_default_timeout(10_000)
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda line: said.append(line.text) if line.type in ("error", "warning") else None)
        address = shot.path(self.states)
        try:
            answer = page.goto(address)
            if shot.act is not None:
                shot.act(page, self.states)
        except Exception as problem:
            return [f"{address} could not be shown: {problem}"]
        problems = [line for line in said if not (shot.refused and line.startswith("Failed to load resource"))]
        if answer is not None and shot.act is None and answer.status != (shot.refused or 200):
            problems.append(f"{address} answered {answer.status}")
        if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            problems.append("wider than its window")
        problems += _axe(page)
        # The window grows to the page, so that what sticks to its edge covers nothing.
        height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST)
        page.set_viewport_size({"width": width, "height": height})
        page.screenshot(path=self.out / f"{shot.name}-{scheme}-{width}.png", timeout=60_000)
        self.taken += 1
        return problems


def _axe(page: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"axe {rule['id']}: {[node['target'] for node in rule['nodes']][:3]}" for rule in found]
