"""schemathesis reads the OpenAPI document and asks what it allows and what it does not: never a 500.

Every operation is asked. The site is on loopback networks, so that BMCs are asked over real sockets, by real drivers,
and nobody answers; what would start programs for minutes is stopped where it starts the first one.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, NoReturn, cast

import hypothesis
import pytest
import schemathesis
from flask import Flask
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headnode import run, vault
from headnode.accounts import Role
from headnode.api.openapi import document
from headnode.door import live, state, visitors
from headnode.door.jobs import Job
from headnode.errors import ProgramFailed
from headnode.paths import Paths
from headnode.web.app import application
from headnode.workflows import bmcs, doors, init
from headnode.workflows.actions import ACTIONS
from headnode.workflows.context import Context
from headnode.workflows.enroll import enroll
from ipmi import probe
from ipmi.fleet import Fleet
from tests.conftest import GIVEN
from tests.support import mac, row

HERE = replace(GIVEN, provision=IPv4Network("127.20.0.0/16"), management=IPv4Network("127.21.0.0/16"))
# 503 is an answer, and in the document: the directory, say, does not run here. 500 is not.
CHECKS = (status_code_conformance, content_type_conformance, response_schema_conformance)
# How many each is.
NODES = {"gpu01": 1, "gpu[01-03]": 3, "@all": 5}
# What a generator would never find, in its order: with these words an operation goes on beyond its first refusal.
MEANT: Mapping[str, list[dict[str, Any]]] = {
    "ask_bmcs": [{"nodes": nodes} for nodes in NODES],
    "build_image": [{"name": "gpu", "profile": None}, {"name": "new", "profile": "cpu"}, {"name": "new"}],
    "scan_bmcs": [{"network": net, "user": None} for net in ("127.21.0.0/28", "127.21.0.1", "127.0.0.0/8")],
    "set_bmc_password": [{"nodes": "@all", "known": known, "password": "new"} for known in (True, False)],
    "start_action": [
        {"action": action, "nodes": nodes, "count": count, "options": {}, "wait": wait}
        for action in ACTIONS
        for (nodes, count), wait in zip(NODES.items(), (0, 30, 30), strict=True)
    ],
}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Flask, str]]:
    root: Path = tmp_path_factory.mktemp("schema") / "root"
    init.create(Paths(root), HERE)
    context = Context(Paths(root), "tester", "a test")
    rows = [row(name=f"gpu0{n}", mac=mac(n), bmc=f"127.21.0.{n}", profile="gpu") for n in range(1, 6)]
    enroll(context, rows, vault.seal("not that one", context.paths.secret_key))
    app = application(context)
    account = context.inventory.accounts.add("robot", Role.ADMIN, "no password fits this")
    token = doors.issue_token(context, account, "schema", Role.ADMIN, 1)
    yield app, token
    context.close()


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for who is known not to come, and a stream ends after its second line."""
    monkeypatch.setattr(bmcs, "Fleet", partial(Fleet, deadline=0.05))
    monkeypatch.setattr(probe, "scan", partial(probe.scan, wait=0.01))
    monkeypatch.setattr(live, "KEEP_ALIVE", 0.01)
    monkeypatch.setattr(visitors, "watched", lambda door, visitor: twice())


def twice() -> Callable[[], bool]:
    answers = iter([True, False])
    return lambda: next(answers)


SETTINGS = hypothesis.settings(
    max_examples=25, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
)
SCHEMA = schemathesis.openapi.from_dict(document())
OPERATIONS = {
    operation.definition.raw["operationId"]: operation
    for result in SCHEMA.get_all_operations()
    if (operation := result.ok())  # type: ignore[union-attr]
}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_no_question_is_an_accident(door: tuple[Flask, str], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    app, token = door
    if name == "build_image":
        monkeypatch.setattr(run, "start", no_program)

    def ask(case: Any) -> int:
        answer = case.call(app=app, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code != 500
        case.validate_response(answer, checks=CHECKS)
        return int(answer.status_code)

    asked(name, ask)
    found = [status for meant in MEANT.get(name, ()) for status in asked_with(name, meant, ask)]
    assert not found or min(found) < 300, "not all of them are refused"
    for job in jobs(app):
        assert job.over.wait(60)
        assert "internal error" not in job.error, job


def asked(name: str, ask: Callable[[Any], int]) -> None:
    @hypothesis.given(case=OPERATIONS[name].as_strategy())
    @SETTINGS
    def run_all(case: Any) -> None:
        ask(case)

    run_all()


def asked_with(name: str, meant: Mapping[str, Any], ask: Callable[[Any], int]) -> list[int]:
    found: list[int] = []

    @hypothesis.given(case=OPERATIONS[name].as_strategy())
    @hypothesis.settings(SETTINGS, max_examples=2)
    def run_all(case: Any) -> None:
        case.headers.pop("Idempotency-Key", None)
        for key, value in meant.items():
            # In the address, in the query, or else in the body.
            part = next((part for part in (case.path_parameters, case.query) if part and key in part), case.body)
            part[key] = value
        found.append(ask(case))

    run_all()
    return found


def no_program(*given: Any, **more: Any) -> NoReturn:
    raise ProgramFailed("no program is started here", returncode=1)


def jobs(app: Flask) -> list[Job]:
    return list(cast(state.Door, app.extensions[state.KEY]).jobs.kept.values())
