"""Debian's Chromium in front of a real door, real BMCs and a console that answers."""

import json
from collections.abc import Iterator

import pytest

from headnode.workflows import doors
from tests.integration.bmc_site import eventually
from tests.web import machines
from tests.web.machines import Lab

pytestmark = [
    pytest.mark.integration,
    pytest.mark.program("chromium", "node", "npm", "ipmi_sim"),
    pytest.mark.root,
    # Chromium beside other work on two cores takes its time.
    pytest.mark.timeout(700),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with machines.lab(tmp_path_factory.mktemp("web")) as made:
        yield made


def test_from_the_first_admin_to_the_audit_log(lab: Lab) -> None:
    with lab.site.context() as context:
        link = doors.first_link(context)
    assert link is not None
    agent = machines.play_agent(lab.site.root, "gpu01")
    said = lab.run("journey.mjs", LINK=link)
    assert "failed" not in said, said
    eventually(lambda: not agent.is_alive(), 20)
    assert said["troubles"] == []
    assert "web02's mac" in said["problem"] or "mac is" in said["problem"]
    audit = " | ".join(said["audit"])
    for words in ("power-off gpu01 done", "power-off gpu01 asked", "power-off gpu01 refused", "deploy gpu01 done"):
        assert words in audit, audit
    assert not lab.site.machines["gpu01"].on
    assert b"whoami" in lab.line.typed


def test_every_page_is_accessible_and_asks_nobody_else(lab: Lab) -> None:
    said = lab.run("pages.mjs", PAGES=json.dumps(machines.PAGES))
    assert said["violations"] == []
    assert said["troubles"] == []
