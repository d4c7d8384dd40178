"""/api/v1: what scripts rely on."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from flask import Flask
from prometheus_client.parser import text_string_to_metric_families

from headnode.api.openapi import document
from headnode.cli.reference import pages
from headnode.workflows.context import Context
from tests.support import csv_of
from tests.web.conftest import Person


@pytest.fixture
def nodes(admin: Person) -> list[str]:
    answer = admin.send("/api/v1/enrol", {"text": csv_of(range(1, 26))})
    assert answer.status_code == 200, answer.text
    return [row["name"] for row in answer.get_json()["rows"]]


def got(person: Person, path: str) -> Any:
    answer = person.get(f"/api/v1{path}")
    assert answer.status_code == 200, answer.text
    return answer.get_json()


def test_the_document_is_valid_and_in_the_docs() -> None:
    made = document()
    assert made["openapi"] == "3.1.0"
    ids = [said["operationId"] for path in made["paths"].values() for said in path.values()]
    assert len(ids) == len(set(ids)) > 40
    written = json.loads(Path("docs/reference/openapi.json").read_text())
    assert written == json.loads(json.dumps(made)), "run 'make docs'"
    assert "reference/openapi.json" in pages()
    for name, shape in made["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(shape)
        assert "$defs" not in shape, name


def test_every_command_has_its_operation() -> None:
    """Everything the command line can do; what has no operation says here why."""
    from headnode.cli import COMMANDS

    operations = {
        "site": "show_site", "check": "check_machine", "enroll": "enrol", "nodes": "list_nodes", "show": "show_node",
        "set": "change_node", "power": "start_action", "bootdev": "start_action", "sensors": "ask_bmcs",
        "sel": "ask_bmcs", "bmc": "set_bmc_password", "console": "console_text", "retire": "start_action",
        "events": "list_events", "inspect": "start_action", "deploy": "start_action", "rescue": "start_action",
        "abort": "start_action", "maintain": "start_action", "resume": "start_action",
        "seen": "list_seen", "discover": "set_window", "publish": "publish",
        "render": "render", "diff": "preview_publish", "image": "build_image", "why": "explain",
        "gpu": "gpu_plan",
        "known-hosts": "known_hosts", "user": "add_user",
        "group": "add_group", "time": "clocks", "status": "cluster_status", "verify": "list_reports",
    }  # fmt: skip
    here_only = {
        "init": "before there is a site there is no door", "up": "starts the door itself",
        "service": "for systemd", "completion": "for the shell", "lab": "a lab has a door of its own",
        "backup": "writes to a place on the head node", "restore": "replaces the site this door serves",
        "mirror": "brings in archives from a place on the head node",
        "account": "for somebody who is locked out; accounts are under /accounts",
    }  # fmt: skip
    known = {said["operationId"] for path in document()["paths"].values() for said in path.values()}
    assert set(operations.values()) <= known
    missing = set(COMMANDS) - set(operations) - set(here_only)
    assert not missing, f"no operation for {missing}"


def test_nodes_are_listed_filtered_and_paged(admin: Person, nodes: list[str]) -> None:
    whole = got(admin, "/nodes")
    assert [item["name"] for item in whole["items"]] == nodes
    assert (whole["total"], whole["next"]) == (25, None)
    page = got(admin, "/nodes?limit=10")
    assert (len(page["items"]), page["next"]) == (10, nodes[9])
    rest = got(admin, f"/nodes?limit=100&after={page['next']}")
    assert [item["name"] for item in rest["items"]] == nodes[10:]
    few = got(admin, "/nodes?nodes=gpu[0003-0005]&fields=name,state")
    assert few["items"] == [{"name": f"gpu000{n}", "state": "enrolled"} for n in (3, 4, 5)]
    assert got(admin, "/nodes?text=10.21.0.7")["items"][0]["name"] == "gpu0007"
    assert got(admin, "/nodes?state=up")["total"] == 0
    for wrong in ("limit=0", "limit=x", "after=nobody", "sort=colour", "fields=password", "nodes=gpu[1", "colour=red"):
        answer = admin.get(f"/api/v1/nodes?{wrong}")
        assert answer.status_code == 422, wrong
        assert answer.mimetype == "application/problem+json"
        assert answer.get_json()["detail"].count("\n") == 0


def test_who_has_it_already_need_not_read_it_again(admin: Person, nodes: list[str]) -> None:
    first = admin.get("/api/v1/nodes/gpu0001")
    again = admin.get("/api/v1/nodes/gpu0001", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    admin.send("/api/v1/nodes/gpu0001", {"set": {"rack": "r9"}}, "PATCH")
    assert admin.get("/api/v1/nodes/gpu0001", headers={"If-None-Match": first.headers["ETag"]}).status_code == 200


def test_a_change_is_refused_when_somebody_was_quicker(admin: Person, nodes: list[str]) -> None:
    seen = admin.get("/api/v1/nodes/gpu0001").headers["ETag"]
    assert admin.send("/api/v1/nodes/gpu0001", {"set": {"rack": "r8"}}, "PATCH", If_Match=seen).status_code == 200
    assert admin.send("/api/v1/nodes/gpu0001", {"set": {"rack": "r7"}}, "PATCH", If_Match=seen).status_code == 412
    assert got(admin, "/nodes/gpu0001")["rack"] == "r8"


def test_a_write_with_a_key_is_done_once(admin: Person, context: Context) -> None:
    body = {"text": csv_of([1])}
    first = admin.send("/api/v1/enrol", body, Idempotency_Key="abc")
    events = context.inventory.pulse()
    again = admin.send("/api/v1/enrol", body, Idempotency_Key="abc")
    assert (again.status_code, again.data) == (first.status_code, first.data)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert context.inventory.pulse() == events
    assert admin.send("/api/v1/enrol", {"text": csv_of([2])}, Idempotency_Key="abc").status_code == 409
    # A refusal is not kept: it may be tried again once the reason is gone.
    assert admin.send("/api/v1/enrol", {"text": "name\n"}, Idempotency_Key="def").status_code == 422
    assert admin.send("/api/v1/enrol", {"text": csv_of([3])}, Idempotency_Key="def").status_code == 200


def test_prometheus_reads_the_clusters_health(admin: Person, nodes: list[str]) -> None:
    answer = admin.get("/api/v1/metrics")
    assert answer.content_type == "text/plain; version=0.0.4"
    values = {
        sample.name + str(sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert values["headnode_nodes['enrolled']"] == len(nodes)
    assert values["headnode_nodes['failed']"] == 0
    assert values["headnode_status[]"] == 2, "the services do not run here"
    assert values["headnode_problems['error']"] >= 1


def test_nodes_go_out_of_service_and_come_back(admin: Person, nodes: list[str]) -> None:
    wish = {"nodes": "gpu[0001-0002]", "options": {"reason": "new fans"}}
    shown = admin.send("/api/v1/actions/maintain/preview", wish).get_json()
    assert {line["text"] for line in shown["lines"]} == {"goes into maintenance"}
    answer = admin.send("/api/v1/actions/maintain", {**wish, "count": 2, "wait": 30}).get_json()
    assert {said["status"] for said in answer["answers"]} == {"in maintenance"}
    found = got(admin, "/nodes/gpu0001")
    assert (found["state"], found["reason"]) == ("maintenance", "new fans")
    page = admin.get("/act/maintain?nodes=gpu0003")
    assert 'name="with-reason"' in page.text
    assert "/act/resume?nodes=gpu0001" in admin.get("/nodes/gpu0001").text
    assert "/act/maintain?nodes=gpu0003" in admin.get("/nodes/gpu0003").text
    back = {"nodes": "gpu[0001-0002]", "count": 2, "wait": 30}
    answer = admin.send("/api/v1/actions/resume", back).get_json()
    assert {said["status"] for said in answer["answers"]} == {"back in service: ready"}
    assert admin.send("/api/v1/actions/resume/preview", {"nodes": "gpu0001"}).status_code == 422


def test_an_action_is_shown_counted_and_followed(admin: Person, nodes: list[str], context: Context) -> None:
    wish = {"nodes": "gpu[0001-0004]", "options": {"profile": "cpu"}}
    shown = admin.send("/api/v1/actions/set/preview", wish).get_json()
    assert shown["count"] == 4
    assert shown["lines"][0] == {"node": "gpu0001", "text": "profile: gpu → cpu"}
    assert admin.send("/api/v1/actions/set", {**wish, "count": 3}).status_code == 422
    answer = admin.send("/api/v1/actions/set", {**wish, "count": 4, "wait": 30})
    assert answer.status_code == 202
    job = answer.get_json()
    assert job["state"] == "done", job
    assert {said["status"] for said in job["answers"]} == {"changed"}
    assert got(admin, f"/jobs/{job['id']}") == job
    assert got(admin, "/nodes/gpu0004")["profile"] == "cpu"
    done, asked = context.inventory.accounts.entries(limit=2)
    assert (asked.action, asked.result, asked.nodes) == ("set", "asked", "gpu[0001-0004]")
    assert (done.action, done.result, done.who) == ("set", "done", "admin-person")


def test_enrolling_tells_every_problem_and_does_nothing(admin: Person, context: Context) -> None:
    text = csv_of([1, 2]) + "bad name,zz,1.2.3.4,gpu,r1,99\n"
    planned = admin.send("/api/v1/enrol", {"text": text, "dry_run": True}).get_json()
    assert [row["verdict"] for row in planned["rows"]] == ["new", "new", "problem"]
    refused = admin.send("/api/v1/enrol", {"text": text})
    assert refused.status_code == 422
    assert context.inventory.count() == 0


def test_events_and_audit_can_be_read_on(admin: Person, nodes: list[str]) -> None:
    events = got(admin, "/events?limit=5")
    assert len(events) == 5
    assert got(admin, f"/events?after={events[-1]['id']}") == []
    lines = got(admin, "/audit?limit=1")
    assert lines[0]["action"] == "enrol"
    assert got(admin, f"/audit?before={lines[0]['id']}&limit=1")[0]["id"] < lines[0]["id"]


@pytest.mark.parametrize("body", ["", "null", "[]", "{", '"x"', '{"text": 5}', '{"nodes": "gpu01", "extra": 1}'])
def test_what_is_no_wish_is_refused_in_words(admin: Person, body: str) -> None:
    headers = {"X-CSRF-Token": admin.csrf, "Content-Type": "application/json"}
    for path in ("/api/v1/enrol", "/api/v1/actions/set", "/api/v1/site/check", "/api/v1/tokens"):
        answer = admin.client.post(path, data=body, headers=headers)
        assert answer.status_code in (400, 422), (path, answer.status_code)
        assert answer.mimetype == "application/problem+json"


def test_an_accident_is_a_500_that_says_nothing(app: Flask, admin: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    app.testing = False
    app.config["PROPAGATE_EXCEPTIONS"] = False
    monkeypatch.setattr("headnode.api.nodes.find", lambda name: 1 / 0)
    answer = admin.get("/api/v1/nodes/gpu01")
    assert answer.status_code == 500
    assert "ZeroDivision" not in answer.text
