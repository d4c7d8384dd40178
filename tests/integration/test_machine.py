"""Emulated machines boot over the network from plain dnsmasq and nginx: the lab itself is what is tested."""

import shutil
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError
from headnode.lab.lab import Lab
from headnode.lab.machine import Accelerator, Disk, Firmware, Machine
from headnode.lab.net import Namespace, Switch
from headnode.lab.qemu import guest_runs, plugged_in
from headnode.lab.servers import start_dnsmasq, start_nginx

pytestmark = [
    pytest.mark.integration,
    pytest.mark.e2e,
    pytest.mark.root,
    pytest.mark.program("ip", "dnsmasq", "nginx", "qemu-system-x86_64"),
]
HEAD, ADDRESS, MAC = "10.20.0.1", "10.20.1.1", "52:54:00:aa:00:01"
IPXE = Path("/usr/lib/ipxe")
SCRIPT = "#!ipxe\necho HEADNODE-SCRIPT ${net0/mac} ${net0/ip} ${serial}\nsleep 600\n"


def start_head(lab: Lab, wire: Switch, files: Path, lines: list[str]) -> Namespace:
    """A head node as plain as can be: one host entry, first stages over TFTP, one script over HTTP."""
    head = lab.host("head")
    wire.attach(head, "eth0", address=f"{HEAD}/16")
    files.mkdir()
    (files / "boot").write_text(SCRIPT)
    common = ["interface=eth0", "dhcp-range=10.20.0.0,static,255.255.0.0,1h", f"dhcp-host={MAC},{ADDRESS}"]
    start_dnsmasq(lab, head, "dnsmasq", [*common, "enable-tftp", f"tftp-root={files}", *lines])
    start_nginx(lab, head, f"root {files};", http=f"access_log {files}/access.log;")
    return head


IPXE_LINES = [
    "dhcp-userclass=set:ipxe,iPXE",
    f"dhcp-boot=tag:ipxe,http://{HEAD}/boot",
    "dhcp-match=set:efi,option:client-arch,7",
    "dhcp-boot=tag:!ipxe,tag:efi,snponly.efi",
    "dhcp-boot=tag:!ipxe,tag:!efi,undionly.kpxe",
]


def test_a_bios_machine_runs_the_script_and_obeys_its_power_switch(running_lab: Lab, tmp_path: Path) -> None:
    wire = running_lab.switch()
    start_head(running_lab, wire, tmp_path / "www", IPXE_LINES)
    disk = Disk(tmp_path / "disk.img", 64 << 20, "LABDISK1")
    machine = Machine("n1", (MAC,), memory_mib=256, disks=(disk,), serial="SN-0001")
    with plugged_in(running_lab, machine, [wire], tmp_path / "n1") as node:
        assert not node.is_on()
        node.power_on()
        assert node.is_on()
        node.wait_for(f"HEADNODE-SCRIPT {MAC} {ADDRESS} SN-0001", 90)
        node.reset()
        node.wait_for("HEADNODE-SCRIPT", 90)
        node.boot_from_network(first=False)
        node.reset()
        node.wait_for("Booting from Hard Disk", 90)
        node.power_off()
        assert not node.is_on()
        with pytest.raises(HeadnodeError, match="is off"):
            node.wait_for("nothing more", 1)
        node.power_on()
        node.wait_for("HEADNODE-SCRIPT", 90)
    assert "t-n1" not in wire.namespace.links()
    assert (tmp_path / "www/access.log").read_text().count("GET /boot ") == 3


def test_a_uefi_machine_runs_the_script(running_lab: Lab, tmp_path: Path) -> None:
    wire = running_lab.switch()
    start_head(running_lab, wire, tmp_path / "www", IPXE_LINES)
    shutil.copy(IPXE / "snponly.efi", tmp_path / "www")
    machine = Machine("n1", (MAC,), Firmware.UEFI, memory_mib=512, serial="SN-0002")
    with plugged_in(running_lab, machine, [wire], tmp_path / "n1") as node:
        node.power_on()
        node.wait_for(f"HEADNODE-SCRIPT {MAC} {ADDRESS} SN-0002", 150)


@pytest.mark.slow
def test_a_secure_boot_machine_goes_from_signed_shim_to_grub_to_our_script(running_lab: Lab, tmp_path: Path) -> None:
    wire = running_lab.switch()
    files = tmp_path / "www"
    start_head(running_lab, wire, files, ["dhcp-boot=shimx64.efi"])
    shutil.copy("/usr/lib/shim/shimx64.efi.signed", files / "shimx64.efi")
    shutil.copy("/usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed", files / "grubx64.efi")
    (files / "grub").mkdir()
    (files / "grub/grub.cfg").write_text("echo HEADNODE-GRUB $net_default_mac $net_default_ip\nsleep 600\n")
    machine = Machine("n1", (MAC,), Firmware.SECURE_BOOT, memory_mib=512)
    with plugged_in(running_lab, machine, [wire], tmp_path / "n1") as node:
        node.power_on()
        node.wait_for(f"HEADNODE-GRUB {MAC} {ADDRESS}", 200)


@pytest.mark.slow
def test_secure_boot_refuses_an_unsigned_loader(running_lab: Lab, tmp_path: Path) -> None:
    """Otherwise the test above would show nothing."""
    wire = running_lab.switch()
    start_head(running_lab, wire, tmp_path / "www", IPXE_LINES)
    shutil.copy(IPXE / "snponly.efi", tmp_path / "www")
    machine = Machine("n1", (MAC,), Firmware.SECURE_BOOT, memory_mib=512)
    with plugged_in(running_lab, machine, [wire], tmp_path / "n1") as node:
        node.power_on()
        node.wait_for("Access Denied", 150)


def test_two_nics_on_two_switches(running_lab: Lab, tmp_path: Path) -> None:
    """The second network has no server: the machine boots from the first, and is wired to both."""
    first, second = running_lab.switch("provision"), running_lab.switch("data")
    start_head(running_lab, first, tmp_path / "www", IPXE_LINES)
    machine = Machine("n1", (MAC, "52:54:00:aa:01:01"), memory_mib=256)
    with plugged_in(running_lab, machine, [first, second], tmp_path / "n1") as node:
        node.power_on()
        node.wait_for(f"HEADNODE-SCRIPT {MAC} {ADDRESS}", 90)
        assert node.taps == ("t-n1", "t-n1.2")


def test_the_trial_guest_tells_whether_an_accelerator_works() -> None:
    assert guest_runs(Accelerator.EMULATION)
