"""headnode enroll --bmc-scan against real simulators on the loopback network."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headnode.lab.bmc import LabBmc, Simulator
from headnode.paths import Paths
from tests.integration.bmc_lab import ipmitool
from tests.integration.bmc_site import CANARY, LOOPBACK, address, make_root
from tests.support import headnode, mac

pytestmark = [pytest.mark.integration, pytest.mark.root, pytest.mark.program("ipmi_sim", "ipmitool")]


@contextmanager
def strangers(directory: Path) -> Iterator[Path]:
    """Two BMCs as they were shipped, and one that somebody has taken care of."""
    root = make_root(directory / "root")
    bmcs = [
        LabBmc("a", address(1), "ADMIN", user="ADMIN", mc=0x20, serial_number="SN-a"),
        LabBmc("b", address(2), "password", mc=0x21, serial_number="SN-b"),
        LabBmc("c", address(9), CANARY, mc=0x22, serial_number="SN-c"),
    ]
    simulator = Simulator("strangers", bmcs, directory / "sim")
    simulator.start()
    try:
        simulator.wait_ready()
        yield root
    finally:
        simulator.stop()


def scanned(root: Path, *words: str) -> dict[str, dict[str, str]]:
    done = headnode(root, "enroll", "--bmc-scan", f"{LOOPBACK}.0.0/28", *words, "-o", "json")
    return {item["address"]: item for item in json.loads(done.out)}


def test_only_the_management_network_is_scanned(tmp_path: Path) -> None:
    root = make_root(tmp_path / "root")
    for network in ("10.20.0.0/24", "127.0.0.0/8", "0.0.0.0/0", "nonsense"):
        done = headnode(root, "enroll", "--bmc-scan", network)
        assert done.code == 2
        assert f"{LOOPBACK}.0.0/16" in done.err or "use a network" in done.err


def test_vendor_passwords_are_refused_until_they_are_rotated(tmp_path: Path) -> None:
    with strangers(tmp_path) as root:
        found = scanned(root)
        assert {at: item["status"] for at, item in found.items()} == {
            address(1): "vendor default",
            address(2): "vendor default",
            address(9): "wrong credentials",
        }
        assert found[address(1)]["serial"] == "SN-a"
        assert headnode(root, "enroll", "--bmc-scan", f"{LOOPBACK}.0.0/28", "-o", "csv").out == ""
        rotated = scanned(root, "--rotate")
        assert rotated[address(1)]["status"] == rotated[address(2)]["status"] == "ok"
        assert rotated[address(1)]["password"] == "new, random"
        assert "is off" not in ipmitool(address(2), "chassis", "power", "status", password="password")
        # Again: what the first scan set is known.
        listed = headnode(root, "enroll", "gpu[01-02]", "--bmc-scan", f"{LOOPBACK}.0.0/28", "-o", "csv")
        rows = list(csv.DictReader(io.StringIO(listed.out)))
        assert [(row["name"], row["bmc"], row["mac"]) for row in rows] == [
            ("gpu01", address(1), ""),
            ("gpu02", address(2), ""),
        ]
        assert "MAC of the port" in listed.err
        filled = tmp_path / "nodes.csv"
        lines = [f"{row['name']},{mac(n)},{row['bmc']},gpu" for n, row in enumerate(rows, 1)]
        filled.write_text("\n".join(["name,mac,bmc,profile", *lines]) + "\n")
        enrolled = headnode(root, "enroll", "--from", str(filled), "--yes")
        assert enrolled.code == 0, enrolled.err
        assert "no BMC password" not in enrolled.err
        # The user that was found goes with the node, and so does its password.
        assert headnode(root, "power", "status", "gpu[01-02]").out == "gpu[01-02]: off\n"
        assert scanned(root)[address(1)]["node"] == "gpu01"


def test_given_credentials_are_the_only_ones_tried(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(CANARY + "\n")
    with strangers(tmp_path) as root:
        found = scanned(root, "--bmc-user", "admin", "--bmc-password-file", str(tmp_path / "password"))
        assert {at: item["status"] for at, item in found.items()} == {
            address(1): "wrong credentials",
            address(2): "wrong credentials",
            address(9): "ok",
        }
        assert CANARY not in json.dumps(found)
        assert CANARY.encode() not in Paths(root).database.read_bytes()
