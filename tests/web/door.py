"""The people's door as a process, started as the supervisor starts it, and a way in for tests."""

import contextlib
import http.cookies
import json
import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headnode.paths import Paths
from headnode.services import people_door
from headnode.workflows import doors
from headnode.workflows.context import Context
from tests.integration.bmc_lab import free_port
from tests.integration.bmc_site import eventually

NAME, PASSWORD = "ada", "correct horse battery"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Door:
    """A browser without a screen: cookies, forms, no redirects followed by themselves."""

    base: str
    root: Path
    process: "subprocess.Popen[bytes] | None" = None
    cookies: dict[str, str] = field(default_factory=dict)
    csrf: str = ""

    def ask(
        self,
        path: str,
        data: Mapping[str, str] | None = None,
        *,
        body: Any = None,
        method: str | None = None,
        **headers: str,
    ) -> Answer:  # fmt: skip
        sent = urllib.parse.urlencode(data).encode() if data is not None else None
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        if body is not None:
            sent, named["Content-Type"] = json.dumps(body).encode(), "application/json"
        if self.cookies:
            named.setdefault("Cookie", "; ".join(f"{key}={value}" for key, value in self.cookies.items()))
        request = urllib.request.Request(self.base + path, data=sent, headers=named, method=method)
        opener = urllib.request.build_opener(NoRedirects)
        try:
            with opener.open(request, timeout=30) as answer:
                return self.remember(answer)
        except urllib.error.HTTPError as error:
            return self.remember(error)

    def remember(self, answer: Any) -> Answer:
        for line in answer.headers.get_all("Set-Cookie") or ():
            for name, morsel in http.cookies.SimpleCookie(line).items():
                self.cookies[name] = morsel.value
        return Answer(answer.status, dict(answer.headers), answer.read())

    def enter(self, name: str = NAME, password: str = PASSWORD) -> "Door":
        assert self.ask("/login", {"name": name, "password": password}).status == 303
        return self.learn()

    def learn(self) -> "Door":
        found = re.search(r'X-CSRF-Token": "([0-9a-f]+)"', self.ask("/").text)
        assert found
        self.csrf = found[1]
        return self

    def post(self, path: str, **data: str) -> Answer:
        return self.ask(path, {"csrf": self.csrf, **data})


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def choose_port(root: Path) -> None:
    """Before anything runs: what watches site.yaml would start anew."""
    file = Paths(root).site_file
    text = file.read_text()
    if "\nweb:" not in text:
        file.write_text(f"{text}\nweb: {{listen: '127.0.0.1:{free_port()}'}}\n")


@contextmanager
def door(root: Path) -> Iterator[Door]:
    """On a free port; the site's own is taken on many machines."""
    paths = Paths(root)
    choose_port(root)
    context = Context(paths, "tester", "a test")
    paths.runtime.mkdir(parents=True, exist_ok=True)
    service = people_door(context.site, paths)
    log = (root / "web.log").open("ab")
    process = subprocess.Popen(service.argv, env={**os.environ, **service.environment}, stdout=log, stderr=log,
                               start_new_session=True)  # fmt: skip
    try:
        eventually(lambda: process.poll() is not None or service.ready(), 120)
        assert process.poll() is None, (root / "web.log").read_text()
        yield Door(doors.address(context), root, process)
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
        log.close()
        context.close()


def first_admin(made: Door) -> Door:
    """Through the one-time link, as a person would."""
    context = Context(Paths(made.root), "tester", "a test")
    link = doors.first_link(context)
    context.close()
    assert link is not None
    assert made.ask(link, {"name": NAME, "password": PASSWORD, "again": PASSWORD}).status == 303
    return made.learn()


def account(made: Door, name: str, role: str) -> Door:
    """Somebody invited by the admin, logged in with cookies of their own."""
    link = re.search(r"/join/[\w-]+", made.post("/people/invite", name=name, role=role).text)
    assert link
    theirs = Door(made.base, made.root)
    assert theirs.ask(link[0], {"password": PASSWORD, "again": PASSWORD}).status == 303
    return theirs.learn()
