"""What programs say, whole, broken off and nonsense, as facts."""

from pathlib import Path
from typing import Any

import pytest

from images.agent import bmc, disks, dmi, efi, inventory, lldp, nics, pci
from images.agent.errors import AgentError, StepFailed
from images.agent.plan import PlannedDisk
from images.agent.settings import Settings, parse_command_line
from tests.images.agent.recordings import recorded

BY_PATH = {"sda": "pci-0000:00:17.0-ata-1", "nvme0n1": "pci-0000:41:00.0-nvme-1"}


def facts() -> list[dict[str, Any]]:
    return disks.parse_lsblk(recorded("lsblk-nvme.json"), BY_PATH)


def test_disks_are_real_ones_with_what_they_hold() -> None:
    found = {disk["name"]: disk for disk in facts()}
    assert list(found) == ["sda", "sdc", "nvme0n1"]
    assert [disk["type"] for disk in found.values()] == ["ssd", "hdd", "nvme"]
    assert found["nvme0n1"]["serial"] == "S64HNE0T500001"
    assert found["nvme0n1"]["model"] == "SAMSUNG MZQL23T8HCLS-00A07"
    assert found["nvme0n1"]["holds"] == []
    assert found["nvme0n1"]["by_path"] == "pci-0000:41:00.0-nvme-1"
    esp, member = found["sda"]["holds"]
    assert (esp["device"], esp["type"], esp["partlabel"], esp["start"]) == ("/dev/sda1", "vfat", "esp", 1 << 20)
    assert member["type"] == "linux_raid_member"
    (whole,) = found["sdc"]["holds"]
    assert (whole["device"], whole["type"], whole["label"]) == ("/dev/sdc", "ext4", "old data")
    assert found["sdc"]["sector"] == 4096


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"blockdevices": null}', '{"blockdevices": [1, null]}', "lsblk: error"]
)
def test_no_disks_in_nonsense(text: str) -> None:
    assert disks.parse_lsblk(text, {}) == []


def test_no_disks_in_an_output_that_breaks_off() -> None:
    text = recorded("lsblk-nvme.json")
    for end in range(0, len(text) - 2, 97):
        assert disks.parse_lsblk(text[:end], {}) == []


def planned(**changes: object) -> PlannedDisk:
    values = {"name": "system", "device": "/dev/nvme0n1", "serial": "S64HNE0T500001", "wwn": "", "size": 3840755982336}
    return PlannedDisk(**{**values, **changes})  # type: ignore[arg-type]


def test_the_disk_the_plan_was_made_for() -> None:
    disks.check([planned()], facts())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device": "/dev/nvme1n1"}, "not there any more"),
        ({"serial": "OTHER"}, "its serial number is S64HNE0T500001, and OTHER was expected"),
        ({"wwn": "eui.1"}, "its WWN is eui.36344830545000010025384e00000001"),
        ({"size": 1}, "its size is 3840755982336"),
        ({"device": "/dev/sda"}, "its serial number is S45PNA0M912345"),
    ],
)
def test_another_disk_is_refused(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(StepFailed, match=reason):
        disks.check([planned(**changes)], facts())


def test_a_read_only_disk_is_refused() -> None:
    read_only = [{**fact, "read_only": True} for fact in facts()]
    with pytest.raises(StepFailed, match="is read-only"):
        disks.check([planned()], read_only)


def test_memory_modules() -> None:
    first, second = dmi.dimms(recorded("dmidecode-17.txt"))
    assert first["slot"] == "DIMMA1"
    assert first["size"] == 64 << 30
    assert (first["speed"], first["part"], first["serial"]) == (2933, "M393A8G40AB2-CWE", "03B5C1F2")
    assert (second["size"], second["speed"], second["bank"], second["manufacturer"]) == (16 << 30, None, "", "")


def test_broken_dmi_tables_stop_nothing() -> None:
    text = recorded("dmidecode-17.txt")
    for end in range(0, len(text), 41):
        assert len(dmi.dimms(text[:end])) <= 2
    assert dmi.dimms("# No SMBIOS nor DMI entry point found, sorry.\n") == []


@pytest.mark.parametrize("filler", ["To Be Filled By O.E.M.", "Default string", "Not Specified", " None "])
def test_vendors_fillers_say_nothing(filler: str) -> None:
    assert dmi.said(filler) == ""


def test_the_bmc_in_band() -> None:
    found = bmc.parse_lan(recorded("ipmitool-lan.txt"))
    assert found == {"address": "10.21.0.17", "mac": "3c:ec:ef:12:34:56", "source": "Static Address"}


@pytest.mark.parametrize(
    "text",
    ["", "Channel 1 is not a LAN channel\n", "IP Address              : 0.0.0.0\nMAC Address : 00:00:00:00:00:00\n"],
)
def test_no_bmc(text: str) -> None:
    assert bmc.parse_lan(text) is None


def test_a_bmc_without_an_address_still_has_its_mac() -> None:
    text = recorded("ipmitool-lan.txt").replace("10.21.0.17", "0.0.0.0")
    assert bmc.parse_lan(text) == {"address": "", "mac": "3c:ec:ef:12:34:56", "source": "Static Address"}


def device(vendor: str, kind: str, resource: str = "") -> dict[str, object]:
    return pci.device_facts("0000:1b:00.0", {"vendor": f"0x{vendor}\n", "class": f"0x{kind}00\n", "resource": resource})


@pytest.mark.parametrize(
    ("vendor", "kind", "gpu", "nvswitch"),
    [
        ("10de", "0302", True, False), ("10de", "0300", True, False), ("1002", "1200", True, False),
        ("10de", "0680", False, True), ("1a03", "0300", False, False), ("8086", "0300", False, False),
        ("8086", "0380", True, False), ("10de", "0403", False, False), ("", "", False, False),
    ],
)  # fmt: skip
def test_what_is_a_gpu(vendor: str, kind: str, gpu: bool, nvswitch: bool) -> None:
    found = device(vendor, kind)
    assert (pci.is_gpu(found), pci.is_nvswitch(found)) == (gpu, nvswitch)


def test_memory_windows() -> None:
    assert device("10de", "0302", recorded("pci-resource-h100.txt"))["bars_assigned"] is True
    assert device("10de", "0302", recorded("pci-resource-unassigned.txt"))["bars_assigned"] is False
    assert device("10de", "0302", "")["bars_assigned"] is False
    assert device("10de", "0302", "nonsense\n0x1")["bars_assigned"] is False


def tlv(kind: int, value: bytes) -> bytes:
    return ((kind << 9) | len(value)).to_bytes(2, "big") + value


FRAME = (
    bytes.fromhex("0180c200000e" + "001122334455" + "88cc")
    + tlv(1, b"\x04" + bytes.fromhex("001122334455"))
    + tlv(2, b"\x05Ethernet12")
    + tlv(3, b"\x00\x78")
    + tlv(4, b"gpu01 eno1")
    + tlv(5, b"tor-r1\x07")
    + tlv(0, b"")
    + b"\0" * 8
)


def test_the_neighbour_names_itself() -> None:
    assert lldp.parse_frame(FRAME) == {
        "chassis": "00:11:22:33:44:55", "port": "Ethernet12", "port_description": "gpu01 eno1", "system": "tor-r1",
    }  # fmt: skip


def test_frames_that_break_off_or_are_others() -> None:
    for end in range(len(FRAME)):
        found = lldp.parse_frame(FRAME[:end])
        assert found is None or {"chassis", "port"} <= found.keys()
    assert lldp.parse_frame(FRAME[:12] + b"\x08\x00" + FRAME[14:]) is None


def test_the_network_stays_first() -> None:
    variables = efi.parse(recorded("efibootmgr.txt"))
    assert variables.order == ("0007", "0000", "0003", "0004", "0001")
    assert efi.network_first(variables) == ("0003", "0007", "0000", "0004", "0001")


def test_without_a_known_origin_the_first_network_entry_is_taken() -> None:
    text = recorded("efibootmgr.txt").replace("BootCurrent: 0003", "BootCurrent: 0007")
    assert efi.network_first(efi.parse(text))[0] == "0003"
    no_network = "BootOrder: 0001,0002\nBoot0001* disk\nBoot0002* other\n"
    assert efi.network_first(efi.parse(no_network)) == ("0001", "0002")
    assert efi.network_first(efi.parse("EFI variables are not supported on this system.")) == ()


def test_interfaces(tmp_path: Path) -> None:
    for name, mac in (("eno1", "3C:EC:EF:00:00:01"), ("lo", "00:00:00:00:00:00")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "address").write_text(f"{mac}\n")
    (tmp_path / "eno1/device").mkdir()
    (tmp_path / "eno1/carrier").write_text("1\n")
    (tmp_path / "eno1/speed").write_text("-1\n")
    (found,) = nics.collect({"eno1": {"system": "tor-r1"}}, tmp_path)
    assert (found["name"], found["mac"], found["link"]) == ("eno1", "3c:ec:ef:00:00:01", True)
    assert (found["speed_mbps"], found["lldp"]) == (None, {"system": "tor-r1"})


def test_processors_and_memory() -> None:
    one = "processor\t: {n}\nmodel name\t: AMD EPYC 7763 64-Core Processor\nphysical id\t: {s}\ncpu cores\t: 2\n\n"
    text = "".join(one.format(n=n, s=n // 4) for n in range(8))
    found = inventory.cpu_facts(text)
    assert (found["cpus"], found["cpu_sockets"], found["cpu_cores"]) == (8, 2, 4)
    assert inventory.cpu_facts("")["cpus"] == 0
    assert inventory.memory_bytes("MemTotal:       1048576 kB\nMemFree: 1 kB\n") == 1 << 30
    assert inventory.memory_bytes("") == 0


def test_secure_boot(tmp_path: Path) -> None:
    variable = tmp_path / "SecureBoot"
    assert inventory.secure_boot(variable) is False
    variable.write_bytes(b"\x06\0\0\0\x01")
    assert inventory.secure_boot(variable) is True
    variable.write_bytes(b"\x06\0")
    assert inventory.secure_boot(variable) is False


def test_by_path_takes_the_plainest_name(tmp_path: Path) -> None:
    for name in ("pci-0000:00:05.0", "virtio-pci-0000:00:05.0"):
        (tmp_path / name).symlink_to("../../vda")
    assert inventory.by_path(tmp_path) == {"vda": "pci-0000:00:05.0"}
    assert inventory.by_path(tmp_path / "none") == {}


def test_the_kernels_command_line() -> None:
    text = "initrd=initrd headnode.intent=deploy headnode.url=http://10.20.0.1/ BOOTIF=01-52-54-00-AA-00-01 quiet\n"
    assert parse_command_line(text) == Settings("http://10.20.0.1", "deploy", "52:54:00:aa:00:01")
    assert parse_command_line(text + " headnode.lldp=35").lldp_seconds == 35


@pytest.mark.parametrize("text", ["", "headnode.url=", "headnode.url=ftp://10.0.0.1", "headnode.url=http://"])
def test_a_command_line_without_a_head_node(text: str) -> None:
    with pytest.raises(AgentError, match="where the head node is"):
        parse_command_line(text)
