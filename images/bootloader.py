"""GRUB on the new disk, for BIOS or UEFI, with a boot menu of our own.

The menu is generated because `update-grub` in an emulated machine takes a minute and this takes a second; it finds the
kernel when it runs, so a kernel upgraded later is started too.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import templates
from headnode.errors import LayoutRefused
from headnode.site import Layout
from images.filesystems import boot_volume, source
from images.layouts import Resolved
from images.owner import Owner
from images.steps import TARGET, Step, chroot, run

# What the kernel calls a serial console, such as ttyS1,115200n8.
SERIAL = re.compile(r"ttyS(?P<unit>[0-9]+)(,(?P<speed>[0-9]+).*)?", re.ASCII)
# grub-install waits for the disk after each of its 300 small files. It copies but a few here, and a plain copy of the
# rest follows, which is on the disk before the node is told to start from it like everything else.
FEW = ("--install-modules=normal", "--fonts=", "--themes=", "--locales=")
# Two bytes of machine code, INT 18h: "nothing to start here, go on with the next". Every partitioned disk is marked as
# one to start from, and without any code a BIOS, or iPXE, that tries it first would run zeros for ever.
NOTHING_HERE = "import sys; open(sys.argv[1], 'r+b', buffering=0).write(b'\\xcd\\x18')"
EFI_TARGETS = {"x86_64": "x86_64-efi", "aarch64": "arm64-efi"}


@dataclass(frozen=True)
class BootLoader:
    efi: bool
    # Where GRUB goes: mounted EFI system partitions, or whole disks with a BIOS boot partition.
    places: tuple[str, ...]
    architecture: str
    bootloader_id: str
    menu: str
    # For BIOS: the layout's other disks, which nothing is started from.
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, resolved: Resolved, facts: Mapping[str, Any], settings: Mapping[str, Any]) -> "BootLoader":
        firmware = facts.get("firmware")
        if firmware not in ("bios", "uefi"):
            raise LayoutRefused(f"the facts do not say whether this machine starts by BIOS or UEFI, but {firmware!r}")
        efi = firmware == "uefi"
        places = esp_directories(resolved) if efi else bios_disks(resolved)
        if not places:
            what = "mounted volume of type esp" if efi else "volume of type bios-boot"
            raise LayoutRefused(
                f"this machine starts by {firmware.upper()}, and layout '{resolved.layout}' has no {what}"
            )
        architecture = str(settings.get("architecture") or "x86_64")
        menu = grub_menu(resolved.definition, resolved.owner, settings)
        others = () if efi else tuple(t.disk.device for t in resolved.tables if t.disk.device not in places)
        return cls(efi, places, architecture, str(settings.get("os") or "debian"), menu, others)

    def steps(self) -> Iterator[Step]:
        path = f"{TARGET}/boot/grub/grub.cfg"
        yield run("write the boot menu", "install", "-D", "-m", "644", "/dev/stdin", path, input=self.menu)
        for place in self.places:
            yield self.install_efi(place) if self.efi else self.install_bios(place)
        for device in self.others:
            argv = ("python3", "-c", NOTHING_HERE, device)
            yield run(f"have the firmware pass over {device}", *argv, destroys=[device])
        modules = (f"{TARGET}/usr/lib/grub/{self.target}", "-maxdepth", "1", "-name", "*.[lm][os][dt]")
        copy = ("-exec", "cp", "--target-directory", f"{TARGET}/boot/grub/{self.target}", "{}", "+")
        yield run("give GRUB its modules", "find", *modules, *copy)

    @property
    def target(self) -> str:
        return EFI_TARGETS[self.architecture] if self.efi else "i386-pc"

    def install_bios(self, device: str) -> Step:
        return chroot(f"install GRUB for BIOS on {device}", "grub-install", f"--target={self.target}", *FEW, device)

    def install_efi(self, directory: str) -> Step:
        # The network stays first in the firmware's order (--no-nvram), and the fallback path is found without an entry.
        return chroot(
            f"install GRUB for UEFI in {directory}", "grub-install", f"--target={self.target}", *FEW,
            f"--efi-directory={directory}", f"--bootloader-id={self.bootloader_id}", "--no-nvram",
            "--force-extra-removable", "--uefi-secure-boot",
        )  # fmt: skip


def esp_directories(resolved: Resolved) -> tuple[str, ...]:
    return tuple(str(place.volume.mount) for place in resolved.mounts if place.volume.type == "esp")


def bios_disks(resolved: Resolved) -> tuple[str, ...]:
    return tuple(
        table.disk.device for table in resolved.tables if any(part.volume.type == "bios-boot" for part in table.parts)
    )


def kernel_line(layout: Layout, owner: Owner, settings: Mapping[str, Any]) -> str:
    """Arguments of the installed kernel."""
    root = next(volume for volume in layout.volumes if volume.mount == "/")
    words = [f"root={source(layout, root, owner)}", "ro"]
    if settings.get("console"):
        # The last console is the one that /dev/console means: the serial one that the BMC records.
        words += ["console=tty0", f"console={settings['console']}"]
    return " ".join([*words, *(settings.get("kernel_args") or ())])


def grub_menu(layout: Layout, owner: Owner, settings: Mapping[str, Any]) -> str:
    boot = boot_volume(layout)
    serial = SERIAL.fullmatch(str(settings.get("console") or ""))
    return templates.render(
        "overlay/grub.cfg.j2",
        made_from=f"node {owner.node}",
        node=owner.node,
        fs_uuid=owner.id("fs", boot.name),
        prefix="" if boot.mount == "/boot" else "/boot",
        arguments=kernel_line(layout, owner, settings),
        serial={"unit": serial["unit"], "speed": serial["speed"] or "115200"} if serial else None,
    )
