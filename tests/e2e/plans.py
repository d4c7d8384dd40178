"""A hand-written plan: the whole of one disk, for both firmwares, as the planner would write it."""

import base64
from typing import Any

from images.store import Image

TABLE = """label: gpt
size=1MiB, type=21686148-6449-6E6F-744E-656564454649, name=bios
size=64MiB, type=uefi, name=esp
type=linux, name=root
"""
# Says on the console what the node has become.
SERVICE = """[Unit]
Description=Say hello
After=local-fs.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo HEADNODE-BOOTED $(hostname) $(findmnt -no SOURCE,FSTYPE /) boot=$(wc -l < /etc/boots)'
ExecStartPre=/bin/sh -c 'echo boot >> /etc/boots'
StandardOutput=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=multi-user.target
"""
GRUB = """set timeout=0
search --no-floppy --label root --set=root
linux /boot/vmlinuz-{kernel} root=LABEL=root ro console=ttyS0,115200 quiet
initrd /boot/initrd.img-{kernel}
boot
"""


def file(path: str, content: str, mode: str = "0644", owner: str = "root:root") -> dict[str, Any]:
    return {"path": path, "mode": mode, "owner": owner, "content_base64": base64.b64encode(content.encode()).decode()}


def overlay(node: str, image: Image) -> list[dict[str, Any]]:
    return [
        file("/etc/hostname", f"{node}\n"),
        file("/etc/fstab", "LABEL=root / ext4 errors=remount-ro 0 1\nLABEL=ESP /boot/efi vfat umask=0077 0 2\n"),
        file("/boot/grub/grub.cfg", GRUB.format(kernel=image.manifest["kernel"]), "0600"),
        file("/etc/systemd/system/hello.service", SERVICE),
    ]


def plan(facts: dict[str, Any], image: Image, node: str = "n1") -> dict[str, Any]:
    (disk,) = facts["disks"]
    device = disk["device"]
    steps: list[dict[str, Any]] = [
        {"name": "look at the disks again", "do": "check-disks"},
        run("partition", "sfdisk", "--wipe=always", "--wipe-partitions=always", device, text=TABLE, destroys=[device]),
        run("wait for the partitions", "udevadm", "settle"),
        run("format the ESP", "mkfs.vfat", "-n", "ESP", f"{device}2", destroys=[device]),
        run("format /", "mkfs.ext4", "-q", "-F", "-L", "root", f"{device}3", destroys=[device]),
        run("mount /", "mount", f"{device}3", "/target"),
        run("make /boot/efi", "mkdir", "-p", "/target/boot/efi"),
        run("mount /boot/efi", "mount", f"{device}2", "/target/boot/efi"),
        {"name": "stream the image", "do": "image", "url": image.url, "sha256": image.sha256, "size": image.size,
         "target": "/target"},
        {"name": "write the node's own files", "do": "overlay", "target": "/target"},
        chroot("start our service", "systemctl", "enable", "hello.service"),
        chroot("install GRUB for BIOS", "grub-install", "--target=i386-pc", device),
        chroot("install GRUB for UEFI", "grub-install", "--target=x86_64-efi", "--efi-directory=/boot/efi",
               "--bootloader-id=debian", "--no-nvram", "--force-extra-removable", "--uefi-secure-boot"),
    ]  # fmt: skip
    keys = ("name", "device", "serial", "wwn", "size")
    return {
        "version": 1, "node": node, "deployment": 1, "disks": [{key: disk[key] for key in keys}], "steps": steps,
        "image": {"name": image.reference, "url": image.url, "sha256": image.sha256, "size": image.size,
                  "unpacked_size": image.unpacked_size},
    }  # fmt: skip


def run(name: str, *argv: str, text: str | None = None, destroys: list[str] | None = None) -> dict[str, Any]:
    return {"name": name, "do": "run", "argv": list(argv), "input": text, "destroys": destroys or []}


def chroot(name: str, *argv: str) -> dict[str, Any]:
    return {"name": name, "do": "chroot", "argv": list(argv), "target": "/target"}
