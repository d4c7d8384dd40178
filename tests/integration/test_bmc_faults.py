"""Faults of BMCs and what consoles show, with real simulators and headnode-bmc: 'headnode why' names each."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headnode.model import Intent
from headnode.workflows import deploy, nodes, power
from headnode.workflows.evidence import Evidence
from tests.headnode.why.recorded import CASES, to_document, write
from tests.integration.bmc_lab import ipmitool
from tests.integration.bmc_site import CANARY, BmcSite, SerialLine, address, bmc_site, daemon, eventually
from tests.integration.test_bad_bmcs import BadWire
from tests.integration.test_bad_bmcs_cli import bad_wires

pytestmark = [pytest.mark.integration, pytest.mark.root, pytest.mark.program("ipmi_sim", "ipmitool")]
BOOT = "SeaBIOS (version 1.16)\r\n"


@dataclass(frozen=True)
class Case:
    about: str
    cause: str
    says: str = ""


# Consoles first: the first nodes have a serial line each.
CASES_OF = {
    "gpu01": Case(
        "it starts from its disk", "boot-order", BOOT + "Welcome to GRUB!\r\nLinux version 6.1.0\r\nn login: "
    ),
    "gpu02": Case("no cable", "no-link", BOOT + "iPXE 1.21\r\nPXE-E61: Media test failure, check cable\r\n"),
    "gpu03": Case("another VLAN", "wrong-network", BOOT + "iPXE initialising devices...\r\n"),
    "gpu04": Case("too hot", "too-hot"),
    "gpu05": Case("its BMC does not answer", "bmc-unreachable"),
    "gpu06": Case("another tool holds the BMC's sessions", "bmc-sessions"),
    "gpu07": Case("the password at the BMC is another", "bmc-credentials"),
    "gpu08": Case("the BMC says yes and does nothing", "bmc-did-nothing"),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    directory = tmp_path_factory.mktemp("bmcs")
    with ExitStack() as stack:
        lines = [stack.enter_context(closing(SerialLine())) for _ in range(3)]
        site = stack.enter_context(bmc_site(directory, 8, serial_ports=[line.port for line in lines]))
        with site.context() as context:
            nodes.set_fields(context, ["gpu05"], {"bmc": "127.44.1.5"})
            nodes.set_fields(context, ["gpu06"], {"bmc": "127.44.1.6"})
        ipmitool(address(7), "user", "set", "password", "2", "Changed.1", password=CANARY)
        stuck(site, "gpu08")
        wire = BadWire(one_session=True, holder=b"them")
        stack.enter_context(bad_wires({"127.44.1.6": (wire, address(6))}))
        stack.enter_context(daemon(site.root))
        stack.enter_context(reconcile(site.root))
        switch_on(site)
        for line, case in zip(lines, CASES_OF.values(), strict=False):
            line.say(case.says)
        # ipmi_sim is told a temperature beyond the limit, as a real sensor would tell its BMC.
        wait_for_news(site)
        with site.context() as context:
            said = {name: ask(site, name) for name in CASES_OF}
            yield {"said": said, "context": context, "evidence": Evidence(context)}


@contextmanager
def reconcile(root: Path) -> Iterator[None]:
    """The loop alone: without its wires it can neither watch nor probe, and says so."""
    environment = {**os.environ, "HEADNODE_ROOT": str(root)}
    with (root / "reconcile.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "headnode.reconcile"], env=environment, stdout=log, stderr=log
        )
    try:
        eventually((root / "run/headnode/control.sock").exists, 30)
        yield
    finally:
        process.terminate()
        process.wait(20)


def stuck(site: BmcSite, name: str) -> None:
    chassis = site.machines[name]
    chassis.set_power = lambda on: None  # type: ignore[method-assign]
    chassis.reset = lambda: None  # type: ignore[method-assign]


def switch_on(site: BmcSite) -> None:
    with site.context() as context:
        deploy.begin(context, list(CASES_OF), Intent.DEPLOY, image="node@1")
        power.boot_from_network(context, context.inventory.nodes(list(CASES_OF)))


def wait_for_news(site: BmcSite) -> None:
    eventually(lambda: any("login" in said for said in site.events("console.phase", "gpu01")), 30)
    eventually(lambda: any("PXE-E61" in said for said in site.events("console.phase", "gpu02")), 30)
    eventually(lambda: site.events("console.phase", "gpu03"), 30)
    heat(site)
    eventually(lambda: site.events("sensor", "gpu04"), 30)
    # So that nobody is still in time.
    with site.context() as context:
        for node in context.inventory.nodes(list(CASES_OF)):
            deploy.fail(context, node, "deploying", "no end of deploying within 60 minutes", actor="reconcile")


def heat(site: BmcSite) -> None:
    site.simulators["gpu04"].control("sensor_set_value 0x20 0 1 97 1")


def ask(site: BmcSite, name: str) -> dict[str, Any]:
    found = json.loads(site.headnode("why", name, "-o", "json").out)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", CASES_OF)
def test_a_fault_of_power_or_console_is_named(
    answers: dict[str, Any], name: str, request: pytest.FixtureRequest
) -> None:
    case, answer = CASES_OF[name], answers["said"][name]
    if request.config.getoption("--update-golden"):
        found = answers["evidence"].case(answers["context"].inventory.node(name))
        expect = {key: answer.get(key) for key in ("cause", "confidence", "sentence", "missing")}
        write(CASES / f"{case.cause}.yaml", to_document(found, case.about, expect))
    assert answer["cause"] == case.cause, json.dumps(answer, indent=1)
    assert answer["next"].startswith("headnode ")


def test_each_is_another_cause(answers: dict[str, Any]) -> None:
    count: Callable[[str], int] = [answer["cause"] for answer in answers["said"].values()].count
    assert all(count(case.cause) == 1 for case in CASES_OF.values())
