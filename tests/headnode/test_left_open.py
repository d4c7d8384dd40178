"""What an earlier wish for a node must not leave open, nor take away."""

import os
import socket
import struct

import pytest

from headnode import nodeapi
from headnode.errors import InvalidInput
from headnode.model import Intent
from headnode.workflows import bmcpasswords, deploy, enroll, nodes, power
from headnode.workflows.context import Context
from tests.support import row

ROW = {"name": "gpu01", "mac": "52:54:00:aa:00:01", "bmc": "10.21.0.11", "profile": "gpu"}


@pytest.fixture
def enrolled(context: Context) -> Context:
    assert enroll.enroll(context, [row(**ROW)]).problems == []
    return context


def address(context: Context) -> str:
    node = context.inventory.node("gpu01")
    assert node is not None
    return str(node.address)


def test_a_machine_of_a_retired_nodes_name_inherits_no_deployment(enrolled: Context) -> None:
    deploy.begin(enrolled, ["gpu01"], Intent.DEPLOY, image="gpu@1", consent=["OLD"])
    nodes.retire(enrolled, ["gpu01"])
    assert enroll.enroll(enrolled, [row(**ROW)]).problems == []
    assert deploy.token_for(enrolled, address(enrolled)) is None


def test_who_only_looks_at_a_machine_gets_none_of_its_secrets(enrolled: Context) -> None:
    deploy.begin(enrolled, ["gpu01"], Intent.INSPECT)
    client = nodeapi.application(enrolled).test_client()
    at = {"X-Real-IP": address(enrolled)}
    token = client.get("/token", headers=at).get_data(as_text=True).strip()
    session = client.post("/node/v1/claim", json={"token": token}, headers=at).get_json()["session"]
    answer = client.get("/node/v1/overlay", headers={**at, "Authorization": f"Bearer {session}"})
    assert (answer.status_code, answer.get_json()) == (404, {"error": "no"})


def test_rescuing_a_node_does_not_silence_what_is_installed(enrolled: Context) -> None:
    (work,) = deploy.begin(enrolled, ["gpu01"], Intent.DEPLOY, image="gpu@1")
    with enrolled.inventory.change("test", "test") as change:
        token = change.issue_report_token(work, address(enrolled))
    deploy.abort(enrolled, ["gpu01"])
    deploy.begin(enrolled, ["gpu01"], Intent.RESCUE)
    assert enrolled.inventory.reporting_node(address(enrolled), token) is not None


def test_a_node_at_work_is_not_rescued_out_of_its_deadline(enrolled: Context) -> None:
    deploy.begin(enrolled, ["gpu01"], Intent.INSPECT)
    with pytest.raises(InvalidInput, match="at work; nothing was changed"):
        deploy.begin(enrolled, ["gpu01"], Intent.RESCUE)


def test_a_password_that_a_bmc_may_have_is_never_forgotten(enrolled: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[list[str]] = []

    def fails(context: object, nodes: object, request: dict[str, dict[str, list[str]]], on_answer: object) -> list[str]:
        offered.append(request["sealed"]["gpu01"])
        return []

    monkeypatch.setattr(power, "change", fails)
    for _ in range(3):
        bmcpasswords.rotate(enrolled, enrolled.inventory.nodes(["gpu01"]), None)
    assert len({words[0] for words in offered}) == 1, "the one that may be there is tried again"


def test_only_nginx_and_root_speak_for_nodes(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert nodeapi.from_nginx(ours, context.paths) is (os.getuid() == 0)
        monkeypatch.setattr(struct, "unpack", lambda form, data: (1, 12345, 1))
        assert not nodeapi.from_nginx(ours, context.paths)
    assert nodeapi.from_nginx(None, context.paths), "a test client has no socket"
