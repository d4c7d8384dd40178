"""schemathesis reads the OpenAPI document and asks what it allows and what it does not: never a 500."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from flask import Flask
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headnode.accounts import Role
from headnode.api.openapi import document
from headnode.paths import Paths
from headnode.web.app import application
from headnode.workflows import doors, init
from headnode.workflows.context import Context
from headnode.workflows.enroll import enroll
from tests.conftest import GIVEN
from tests.support import row_of

# Endless by nature, or seconds long because it asks the network.
LEFT_OUT = {"live", "check_machine", "scan_bmcs", "ask_bmcs", "set_bmc_password", "build_image", "start_action"}
# 503 is an answer, and in the document: the directory, say, does not run here. 500 is not.
CHECKS = (status_code_conformance, content_type_conformance, response_schema_conformance)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Flask, str]]:
    root: Path = tmp_path_factory.mktemp("schema") / "root"
    init.create(Paths(root), GIVEN)
    context = Context(Paths(root), "tester", "a test")
    enroll(context, [row_of(n) for n in range(1, 6)])
    app = application(context)
    account = context.inventory.accounts.add("robot", Role.ADMIN, None)
    token = doors.issue_token(context, account, "schema", Role.ADMIN, 1)
    yield app, token
    context.close()


SETTINGS = hypothesis.settings(
    max_examples=10, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
)
SCHEMA = schemathesis.openapi.from_dict(document())
OPERATIONS = {
    operation.definition.raw["operationId"]: operation
    for result in SCHEMA.get_all_operations()
    if (operation := result.ok()).definition.raw["operationId"] not in LEFT_OUT  # type: ignore[union-attr]
}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_no_question_is_an_accident(door: tuple[Flask, str], name: str) -> None:
    app, token = door

    @hypothesis.given(case=OPERATIONS[name].as_strategy())
    @SETTINGS
    def ask(case: Any) -> None:
        answer = case.call(app=app, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code != 500
        case.validate_response(answer, checks=CHECKS)

    ask()
