"""Deploying through distributions' installers, as nodes meet it: over the node API, from the first script to `done`."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from flask.testing import FlaskClient

from headnode.model import Intent, State
from headnode.nodeapi import application
from headnode.paths import Paths
from headnode.workflows import deploy, publishing
from headnode.workflows.context import Context
from images.signing import signer
from images.store import Store
from tests.support import headnode

ADDRESS = "10.20.1.1"
UBUNTU = {"method": "autoinstall", "os": "ubuntu", "release": "24.04", "suite": "noble", "architecture": "x86_64",
          "title": "Ubuntu-Server 24.04", "built": "2026-11-18", "source": "a test"}  # fmt: skip
DEBIAN = {**UBUNTU, "method": "preseed", "os": "debian", "release": "12", "suite": "bookworm", "title": "Debian 12"}
PROFILES = """
  ubuntu: {os: ubuntu, release: "24.04", method: autoinstall, image: ubuntu-24.04, layout: single-disk}
  debian: {os: debian, release: "12", method: preseed, image: debian-12, layout: single-disk}
"""
FACTS = {
    "firmware": "uefi", "memory_bytes": 16 << 30, "gpus": [],
    "disks": [{"name": "sda", "device": "/dev/sda", "size": 480_103_981_056, "type": "ssd", "serial": "SSD-1",
               "sector": 512, "holds": []}],
}  # fmt: skip


@pytest.fixture
def head(root: Path) -> Iterator[Context]:
    path = root / "etc/headnode/site.yaml"
    path.write_text(path.read_text().replace("\nprofiles:\n", f"\nprofiles:\n{PROFILES.strip(chr(10))}\n"))
    context = Context(Paths(root), "tester", "a test")
    for name, manifest in (("ubuntu-24.04", UBUNTU), ("debian-12", DEBIAN)):
        filled = context.paths.state / "build" / name
        filled.mkdir(parents=True)
        for file in ("vmlinuz", "initrd", *(["media.iso"] if name.startswith("ubuntu") else [])):
            (filled / file).write_bytes(file.encode() * 100)
        Store(context.paths.state / "images").publish(name, filled, manifest, signer(context.paths.config))
    yield context
    context.close()


def enrolled(head: Context, profile: str, facts: dict[str, Any] | None = None) -> FlaskClient:
    root = head.paths.root
    told = headnode(root, "enroll", "gpu01", "--mac", "52:54:00:aa:00:01", "--profile", profile, "--yes")
    assert told.code == 0, told.err
    node = head.inventory.nodes(["gpu01"])[0]
    with head.inventory.change("tester", "a test") as change:
        change.remember_hardware(node, facts or FACTS)
    return application(head).test_client()


def ask(client: FlaskClient, path: str, address: str | None = None) -> Any:
    where = address or str(address_of(client))
    return client.get(path, headers={"X-Real-IP": where})


def address_of(client: FlaskClient) -> str:
    return str(client.application.config.get("NODE_ADDRESS", ADDRESS))


def begun(head: Context, profile: str) -> tuple[FlaskClient, str, str]:
    """A node whose deployment has begun and which has fetched its script: its client, its address and its session."""
    client = enrolled(head, profile)
    told = headnode(head.paths.root, "deploy", "gpu01", "--no-power", "--yes")
    assert told.code == 0, told.err
    address = str(head.inventory.nodes(["gpu01"])[0].address)
    client.application.config["NODE_ADDRESS"] = address
    script = ask(client, "/node/v1/installer").get_data(as_text=True)
    session = re.search(r"/node/v1/seed/([^/ ]+)/", script)
    assert session is not None, script
    return client, script, session[1]


def test_the_published_script_asks_for_the_installer(head: Context) -> None:
    _, script, session = begun(head, "ubuntu")
    node = head.inventory.nodes(["gpu01"])[0]
    published = publishing.render_node(head, node)[f"http/boot/{node.address}.ipxe"].content.decode()
    assert "chain --replace --autofree http://10.20.0.1/node/v1/installer" in published
    assert session not in published, "what anybody at that address can read holds no secret"
    assert script.startswith("#!ipxe\n")
    assert "set base http://10.20.0.1/images/ubuntu-24.04@1" in script


def test_ubuntu_gets_its_answers_with_the_session_only(head: Context) -> None:
    client, _, session = begun(head, "ubuntu")
    found = yaml.safe_load(ask(client, f"/node/v1/seed/{session}/user-data").get_data(as_text=True))["autoinstall"]
    assert found["storage"]["config"][0]["serial"] == "SSD-1"
    assert found["reporting"]["headnode"]["endpoint"] == f"http://10.20.0.1/node/v1/seed/{session}/report"
    for name in ("meta-data", "vendor-data", "network-config", "agent.pyz"):
        assert ask(client, f"/node/v1/seed/{session}/{name}").status_code == 200
    for path in (
        "/node/v1/seed/guessed/user-data",
        f"/node/v1/seed/{session}/other",
    ):
        assert ask(client, path).status_code == 404
    assert ask(client, f"/node/v1/seed/{session}/user-data", "10.20.9.9").status_code == 404
    assert ask(client, "/node/v1/installer", "10.20.9.9").status_code == 404


def test_a_second_start_ends_the_first_ones_session(head: Context) -> None:
    client, _, first = begun(head, "ubuntu")
    script = ask(client, "/node/v1/installer").get_data(as_text=True)
    assert first not in script
    assert ask(client, f"/node/v1/seed/{first}/user-data").status_code == 404


def test_reports_become_progress_and_events(head: Context) -> None:
    client, _, session = begun(head, "ubuntu")
    headers = {"X-Real-IP": address_of(client)}
    for said in (
        {"name": "subiquity/Install/install", "description": "installing system", "event_type": "start"},
        {
            "name": "subiquity/Install/install/curtin_install/partitioning/x",
            "description": "deep",
            "event_type": "start",
        },
        {"name": "cmd-install/stage", "description": "broke", "event_type": "finish", "result": "FAIL"},
    ):
        assert client.post(f"/node/v1/seed/{session}/report", json=said, headers=headers).status_code == 200
    assert client.post(f"/node/v1/seed/{session}/report", data=b"\xff", headers=headers).status_code == 200
    messages = [event.message for event in head.inventory.events(node="gpu01")]
    assert "subiquity/Install/install: installing system" in messages
    assert "cmd-install/stage: broke" in messages
    assert not any("deep" in message for message in messages)
    assert not any(session in message for message in messages)


def test_done_is_answered_after_booting_from_disk_is_live(head: Context) -> None:
    client, _, session = begun(head, "ubuntu")
    headers = {"X-Real-IP": address_of(client), "Authorization": f"Bearer {session}"}
    overlay = client.get("/node/v1/overlay", headers=headers).get_json()["files"]
    assert any(file["path"] == "/etc/headnode/report.json" for file in overlay)
    assert client.post("/node/v1/done", json={}, headers=headers).status_code == 200
    node = head.inventory.nodes(["gpu01"])[0]
    assert (node.state, node.intent) == (State.VERIFYING, Intent.DISK)
    live = (head.paths.published / f"http/boot/{node.address}.ipxe").read_text()
    assert "starts from its own disk" in live
    assert ask(client, "/node/v1/installer").status_code == 404, "a node that starts again is not installed again"
    assert ask(client, f"/node/v1/seed/{session}/user-data").status_code == 404, "answers end with the deployment"
    assert client.post("/node/v1/done", json={}, headers=headers).status_code == 200, "said twice, because unheard"


def test_failed_keeps_the_log_and_the_reason(head: Context) -> None:
    client, _, session = begun(head, "ubuntu")
    headers = {"X-Real-IP": address_of(client), "Authorization": f"Bearer {session}"}
    said = {"step": "installer", "reason": "curtin: disk is full", "log": "==> curtin-install.log <==\ndisk is full\n"}
    assert client.post("/node/v1/failed", json=said, headers=headers).status_code == 200
    node = head.inventory.nodes(["gpu01"])[0]
    assert (node.state, node.reason) == (State.FAILED, "curtin: disk is full")
    (log,) = (head.paths.logs / "deployments").iterdir()
    assert "disk is full" in log.read_text()


def test_debian_gets_its_answers(head: Context) -> None:
    client, script, session = begun(head, "debian")
    assert f"auto=true priority=critical url=http://10.20.0.1/node/v1/seed/{session}/preseed.cfg" in script
    text = ask(client, f"/node/v1/seed/{session}/preseed.cfg").get_data(as_text=True)
    assert "partman-auto/expert_recipe string single-disk ::" in text
    assert "wanted='SSD-1'" in ask(client, f"/node/v1/seed/{session}/disk.sh").get_data(as_text=True)
    assert ask(client, f"/node/v1/seed/{session}/step/started").status_code == 200
    assert ask(client, f"/node/v1/seed/{session}/step/anything").status_code == 404
    assert "the installer runs and has its answers" in [e.message for e in head.inventory.events(node="gpu01")]
    assert ask(client, f"/node/v1/seed/{session}/step/no-disk").status_code == 200
    assert head.inventory.nodes(["gpu01"])[0].state is State.FAILED


@pytest.mark.parametrize(
    ("profile", "facts", "args", "words"),
    [
        ("ubuntu", {**FACTS, "memory_bytes": 1 << 30}, (), "gpu01 has 1.0 GiB of memory"),
        ("ubuntu", {**FACTS, "disks": []}, (), "disk"),
        ("ubuntu", None, ("--image", "debian-12"), "method is 'autoinstall', and debian-12@1 is for method preseed"),
        (
            "debian",
            None,
            ("--image", "ubuntu-24.04"),
            "method is 'preseed', and ubuntu-24.04@1 is for method autoinstall",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_changed(
    head: Context, profile: str, facts: dict[str, Any] | None, args: tuple[str, ...], words: str
) -> None:
    enrolled(head, profile, facts)
    told = headnode(head.paths.root, "deploy", "gpu01", "--no-power", "--yes", *args)
    assert told.code in (1, 2)
    assert words in told.err
    assert head.inventory.nodes(["gpu01"])[0].intent is Intent.DISK


def test_an_uninspected_node_and_secure_boot_are_refused(head: Context) -> None:
    root = head.paths.root
    assert headnode(root, "enroll", "gpu01", "--mac", "52:54:00:aa:00:01", "--profile", "ubuntu", "--yes").code == 0
    told = headnode(root, "deploy", "gpu01", "--no-power", "--yes")
    assert "gpu01 was never inspected" in told.err
    path = root / "etc/headnode/site.yaml"
    path.write_text(path.read_text() + "\nboot: {uefi: shim}\n")
    told = headnode(root, "deploy", "gpu01", "--no-power", "--yes")
    assert "boot.uefi is 'shim'" in told.err


def test_a_dry_run_says_what_the_installer_will_do(head: Context) -> None:
    enrolled(head, "debian")
    told = headnode(head.paths.root, "deploy", "gpu01", "--dry-run")
    assert told.code == 0, told.err
    assert "installer debian-12@1 (Debian 12), by preseed" in told.out
    assert "disk system: /dev/sda, serial SSD-1" in told.out
    assert "6 root:" in told.out


def test_an_answer_that_cannot_be_made_is_the_nodes_reason(head: Context) -> None:
    client, _, session = begun(head, "ubuntu")
    node = head.inventory.nodes(["gpu01"])[0]
    with head.inventory.change("tester", "a test") as change:
        change.remember_hardware(node, {**FACTS, "disks": []})
    answer = ask(client, f"/node/v1/seed/{session}/user-data")
    assert answer.status_code == 409
    assert head.inventory.nodes(["gpu01"])[0].state is State.FAILED
    assert deploy.token_for(head, address_of(client)) is None
    assert json.loads(answer.data)["reason"]
