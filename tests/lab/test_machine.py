"""A machine's description → exactly this command line."""

from pathlib import Path

import pytest

from headnode.errors import InvalidField
from headnode.lab.machine import Accelerator, Disk, Firmware, Machine, MachineFiles, NicModel, qemu_argv

FILES = MachineFiles(Path("/lab/n1"), sockets=Path("/run/n1"))
MAC = "52:54:00:aa:00:01"


def line(machine: Machine, taps: tuple[str, ...] = ("t-n1",), how: Accelerator = Accelerator.EMULATION) -> str:
    return " ".join(qemu_argv(machine, FILES, taps, how))


def test_a_bios_machine_word_by_word() -> None:
    disk = Disk(Path("/lab/n1/disk.img"), 1 << 30, "D1")
    log = ",logfile=/lab/n1/console.log,logappend=on"
    machine = Machine("n1", (MAC,), disks=(disk,), serial="SN1", cpus=2, memory_mib=768)
    assert qemu_argv(machine, FILES, ["t-n1"], Accelerator.EMULATION) == [
        "qemu-system-x86_64", "-name", "n1",
        "-machine", "pc,graphics=off", "-accel", "tcg,thread=multi", "-cpu", "max",
        "-smp", "2", "-m", "768M", "-nodefaults", "-no-user-config", "-display", "none",
        "-smbios", "type=1,manufacturer=Headnode,product=Lab,serial=SN1",
        "-chardev", f"socket,id=console,path=/run/n1/console.sock,server=on,wait=off{log}",
        "-device", "isa-serial,chardev=console",
        "-qmp", "unix:/run/n1/qmp.sock,server=on,wait=off",
        "-device", "virtio-rng-pci",
        "-netdev", "tap,id=net0,ifname=t-n1,script=no,downscript=no",
        "-device", f"virtio-net-pci,id=nic0,netdev=net0,mac={MAC},bootindex=1",
        "-drive", "if=none,id=drive0,format=raw,discard=unmap,file=/lab/n1/disk.img",
        "-device", "virtio-blk-pci,id=disk0,drive=drive0,serial=D1,bootindex=11",
    ]  # fmt: skip


def test_uefi_has_its_own_settings_and_no_nic_rom() -> None:
    said = line(Machine("n1", (MAC,), Firmware.UEFI))
    assert "-machine q35,graphics=off" in said
    assert "unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd" in said
    assert "unit=1,file=/lab/n1/efivars.fd" in said
    assert ",romfile=" in said
    assert "secure" not in said


def test_secure_boot_has_the_mode_the_keys_and_the_lock_on_its_settings() -> None:
    said = line(Machine("n1", (MAC,), Firmware.SECURE_BOOT))
    assert "-machine q35,smm=on,graphics=off" in said
    assert "driver=cfi.pflash01,property=secure,value=on" in said
    assert "OVMF_CODE_4M.secboot.fd" in said
    assert Firmware.SECURE_BOOT.variables == Path("/usr/share/OVMF/OVMF_VARS_4M.ms.fd")


def test_nics_boot_in_their_order_and_before_disks() -> None:
    disks = (Disk(Path("/a"), 1, "A"), Disk(Path("/b"), 1, "B"))
    machine = Machine("n1", (MAC, "52:54:00:aa:01:01"), nic_model=NicModel.E1000E, disks=disks)
    said = line(machine, ("t-n1", "t-n1.2"))
    assert f"e1000e,id=nic0,netdev=net0,mac={MAC},bootindex=1" in said
    assert "e1000e,id=nic1,netdev=net1,mac=52:54:00:aa:01:01,bootindex=2" in said
    assert "serial=A,bootindex=11" in said
    assert "serial=B,bootindex=12" in said


def test_another_nic_rom_kvm_uuid_and_extras() -> None:
    rom = Path("/usr/lib/ipxe/82540em.rom")
    machine = Machine("n1", (MAC,), nic_rom=rom, uuid="7e57ab1e-0000-0000-0000-000000000001", extra=("-S",))
    said = line(machine, how=Accelerator.KVM)
    assert f"romfile={rom}" in said
    assert "-accel kvm -cpu host" in said
    assert "-uuid 7e57ab1e-0000-0000-0000-000000000001" in said
    assert said.endswith(" -S")


def test_each_nic_needs_its_tap() -> None:
    with pytest.raises(ValueError, match="zip"):
        line(Machine("n1", (MAC,)), taps=())


@pytest.mark.parametrize("serial", ["a,b", "a\nb"])
def test_a_serial_cannot_smuggle_options_in(serial: str) -> None:
    with pytest.raises(InvalidField, match="serial"):
        Machine("n1", (MAC,), serial=serial)


def test_a_worn_out_disk_and_a_wrong_clock_are_qemus_doing() -> None:
    disk = Disk(Path("/lab/n1/disk.img"), 1 << 30, "D1", worn_out=True)
    said = line(Machine("n1", (MAC,), disks=(disk,), clock="2001-09-09T01:46:40"))
    assert "file.driver=blkdebug,file.image.driver=file,file.image.filename=/lab/n1/disk.img," in said
    assert "file.inject-error.0.iotype=write,file.inject-error.0.errno=5" in said
    assert "-rtc base=2001-09-09T01:46:40" in said
    assert "-rtc" not in line(Machine("n1", (MAC,)))
