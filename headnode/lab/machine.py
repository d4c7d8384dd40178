"""An emulated machine as data, and the exact QEMU command line that it means. Pure; qemu.py runs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from headnode.errors import InvalidField

OVMF = Path("/usr/share/OVMF")
# Machines say where they boot from by order: NICs from here, disks after them.
FIRST_NIC, FIRST_DISK = 1, 11
LAST_BOOT = 200


class Firmware(StrEnum):
    BIOS = "bios"
    UEFI = "uefi"
    SECURE_BOOT = "secureboot"

    @property
    def code(self) -> Path | None:
        """OVMF's program part, shared and read-only; none for SeaBIOS, which QEMU brings along."""
        names = {Firmware.UEFI: "OVMF_CODE_4M.fd", Firmware.SECURE_BOOT: "OVMF_CODE_4M.secboot.fd"}
        return OVMF / names[self] if self in names else None

    @property
    def variables(self) -> Path | None:
        """OVMF's settings as delivered, copied for each machine; Microsoft's keys are enrolled in 'ms'."""
        names = {Firmware.UEFI: "OVMF_VARS_4M.fd", Firmware.SECURE_BOOT: "OVMF_VARS_4M.ms.fd"}
        return OVMF / names[self] if self in names else None


class NicModel(StrEnum):
    VIRTIO = "virtio-net-pci"
    E1000 = "e1000"
    E1000E = "e1000e"


class Accelerator(StrEnum):
    KVM = "kvm"
    EMULATION = "tcg,thread=multi"

    @property
    def cpu(self) -> str:
        return "host" if self is Accelerator.KVM else "max"


@dataclass(frozen=True)
class Disk:
    """A raw, sparse file; made when it is not there, and kept when it is."""

    path: Path
    size: int
    serial: str
    # Every write fails, as on a disk that is worn out.
    worn_out: bool = False
    # Which disk the firmware starts from is its own setting, and no matter of slots; by default it is the first.
    boot_order: int | None = None


@dataclass(frozen=True)
class Machine:
    name: str
    macs: tuple[str, ...]
    firmware: Firmware = Firmware.BIOS
    memory_mib: int = 1024
    cpus: int = 1
    disks: tuple[Disk, ...] = ()
    serial: str = ""
    uuid: str | None = None
    nic_model: NicModel = NicModel.VIRTIO
    # QEMU's own ROM already is iPXE; another one (or none, as an empty path) shows what real firmware does.
    nic_rom: Path | None = None
    network_first: bool = True
    # What its hardware clock shows when it is switched on, as QEMU writes it; the right time when not given.
    clock: str = ""
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # SMBIOS values stand in a comma-separated option of QEMU's.
        for field, value in (("name", self.name), ("serial", self.serial)):
            if "," in value or not value.isprintable():
                raise InvalidField(field, value, "commas and control characters are not allowed here")


@dataclass(frozen=True)
class MachineFiles:
    """Where one machine's own files are; sockets apart, because their paths have at most 107 characters."""

    directory: Path
    sockets: Path

    @property
    def console(self) -> Path:
        return self.directory / "console.log"

    @property
    def console_socket(self) -> Path:
        return self.sockets / "console.sock"

    @property
    def qmp_socket(self) -> Path:
        return self.sockets / "qmp.sock"

    @property
    def variables(self) -> Path:
        return self.directory / "efivars.fd"


def qemu_argv(machine: Machine, files: MachineFiles, taps: Sequence[str], accelerator: Accelerator) -> list[str]:
    """The whole command line; the machine has exactly what is written here, none of QEMU's defaults."""
    board = {Firmware.BIOS: "pc", Firmware.UEFI: "q35", Firmware.SECURE_BOOT: "q35,smm=on"}[machine.firmware]
    # The log is written by QEMU itself, so that nothing is lost while nobody watches.
    log = f",logfile={files.console},logappend=on"
    return [
        "qemu-system-x86_64",
        "-name", machine.name,
        # graphics=off makes SeaBIOS, and so iPXE, talk on the serial port.
        "-machine", f"{board},graphics=off",
        "-accel", accelerator.value,
        "-cpu", accelerator.cpu,
        "-smp", str(machine.cpus),
        "-m", f"{machine.memory_mib}M",
        "-nodefaults", "-no-user-config", "-display", "none",
        "-smbios", f"type=1,manufacturer=Headnode,product=Lab,serial={machine.serial or machine.name}",
        *(("-uuid", machine.uuid) if machine.uuid else ()),
        *(("-rtc", f"base={machine.clock}") if machine.clock else ()),
        *_firmware(machine.firmware, files),
        "-chardev", f"socket,id=console,path={files.console_socket},server=on,wait=off{log}",
        "-device", "isa-serial,chardev=console",
        "-qmp", f"unix:{files.qmp_socket},server=on,wait=off",
        "-device", "virtio-rng-pci",
        *_nics(machine, taps),
        *_disks(machine),
        *machine.extra,
    ]  # fmt: skip


def _firmware(firmware: Firmware, files: MachineFiles) -> list[str]:
    if firmware.code is None:
        return []
    # Only firmware in system-management mode may write the settings, or Secure Boot would protect nothing.
    secure = ["-global", "driver=cfi.pflash01,property=secure,value=on"] if firmware is Firmware.SECURE_BOOT else []
    return [
        *secure,
        "-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={firmware.code}",
        "-drive", f"if=pflash,format=raw,unit=1,file={files.variables}",
    ]  # fmt: skip


def _nics(machine: Machine, taps: Sequence[str]) -> list[str]:
    rom = machine.nic_rom
    if rom is None and machine.firmware is not Firmware.BIOS:
        # OVMF drives virtio NICs itself, as the firmware of a real machine does.
        rom = Path()
    words = []
    for number, (mac, tap) in enumerate(zip(machine.macs, taps, strict=True)):
        device = f"{machine.nic_model.value},id=nic{number},netdev=net{number},mac={mac}"
        device += f",bootindex={(FIRST_NIC if machine.network_first else LAST_BOOT) + number}"
        if rom is not None:
            device += f",romfile={'' if rom == Path() else rom}"
        words += ["-netdev", f"tap,id=net{number},ifname={tap},script=no,downscript=no", "-device", device]
    return words


def _disks(machine: Machine) -> list[str]:
    words = []
    for number, disk in enumerate(machine.disks):
        device = f"virtio-blk-pci,id=disk{number},drive=drive{number},serial={disk.serial}"
        file = f"file={disk.path}"
        if disk.worn_out:
            error = "file.inject-error.0.event=none,file.inject-error.0.iotype=write,file.inject-error.0.errno=5"
            file = f"file.driver=blkdebug,file.image.driver=file,file.image.filename={disk.path},{error}"
        words += [
            "-drive", f"if=none,id=drive{number},format=raw,discard=unmap,{file}",
            "-device", f"{device},bootindex={FIRST_DISK + (number if disk.boot_order is None else disk.boot_order)}",
        ]  # fmt: skip
    return words
