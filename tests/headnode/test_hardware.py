"""What an inspection found, as people see it."""

import json
from pathlib import Path
from typing import Any

from headnode.workflows import deploy, enroll
from headnode.workflows.context import Context
from headnode.workflows.hardware import MOST_ROWS, shown
from tests.support import headnode, mac, row

GPU = {"address": "0000:17:00.0", "vendor": "10de", "device": "2330", "bars_assigned": False, "link_speed": "32.0 GT/s",
       "link_width": "16", "numa": "0"}  # fmt: skip
FACTS: dict[str, Any] = {
    "cpus": 128, "cpu_sockets": 2, "cpu_cores": 64, "cpu_model": "Some Xeon", "memory_bytes": 2 << 40,
    "product": "DGX", "manufacturer": "NVIDIA", "serial": "SN1", "firmware": "uefi", "secure_boot": False,
    "bmc": {"address": "10.21.0.11", "mac": "aa:bb:cc:00:00:01", "source": "DHCP"},
    "dimms": [{"slot": "A1", "size": 64 << 30, "type": "DDR5", "speed": 4800, "serial": "D1"}],
    "nics": [{"name": "eno1", "mac": "52:54:00:aa:00:01", "link": True, "speed_mbps": 25000, "driver": "mlx5_core",
              "lldp": {"system": "leaf-3", "chassis": "00:11:22:33:44:55", "port": "Ethernet17"}}],
    "disks": [{"name": "sda", "device": "/dev/sda", "size": 480 << 30, "type": "ssd", "serial": "S1", "wwn": "0x5000",
               "by_path": "pci-1", "holds": [{"device": "/dev/sda1", "type": "ext4", "label": "payroll"}]}],
    "gpus": [GPU, {**GPU, "address": "0000:65:00.0", "bars_assigned": True}],
    "nvswitches": [{"address": "0000:05:00.0", "vendor": "10de", "device": "22a3"}],
}  # fmt: skip


def test_everything_that_the_agent_reports_is_shown(context: Context, root: Path) -> None:
    rows = [row(name=f"gpu{number:02}", mac=mac(number), profile="gpu") for number in (1, 2)]
    assert enroll.enroll(context, rows).problems == []
    missing = headnode(root, "show", "gpu[01-02]", "--hardware")
    assert (missing.code, "no hardware was reported yet" in missing.err) == (2, True)
    assert "headnode inspect gpu[01-02]" in missing.err
    deploy.report_hardware(context, context.inventory.nodes(["gpu01"])[0], FACTS)
    found = headnode(root, "show", "gpu[01-02]", "--hardware")
    assert found.code == 0
    assert "1 of them have not been inspected yet" in found.err
    for words in ("Some Xeon", "2 TiB", "uefi", "Secure Boot  no", "10.21.0.11 aa:bb:cc:00:00:01", "64 GiB", "DDR5",
                  "leaf-3 Ethernet17", "0x5000", "payroll", "10de:2330  not assigned", "10de:2330  assigned",
                  "NVSwitches: 1", "10de:22a3", "GPUs: 2"):  # fmt: skip
        assert words in found.out, words
    assert json.loads(headnode(root, "show", "gpu01", "--hardware", "-o", "json").out)["hardware"] == FACTS


def test_a_node_cannot_write_to_the_terminal_or_fill_it() -> None:
    hostile = {
        "product": "\x1b[2Jgone\nforever", "bmc": "none", "cpu_model": {"a": 1}, "nvswitches": "x",
        "gpus": [1, None, {}],
        "nics": [{"lldp": "\x07", "name": ["a"], "mac": None}] * (MOST_ROWS + 5),
        "memory_bytes": float("inf"), "dimms": [{"size": 10**400}, {"size": float("nan")}, {"size": -1}],
        "disks": [{"size": "huge", "holds": [1, {"label": "\x1b]0;x"}]}],
    }  # fmt: skip
    found = shown(hostile)
    cells = [value for _, value in found.facts] + [cell for table in found.tables for row in table.rows for cell in row]
    assert all(cell.isprintable() and len(cell) <= 200 for cell in cells)
    ports = next(table for table in found.tables if table.title == "Network ports")
    assert (len(ports.rows), ports.total) == (MOST_ROWS, MOST_ROWS + 5)
