"""First-stage boot programs: taken from the distribution's packages, and one small GRUB that we make ourselves."""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

import templates
from headnode import run
from headnode.paths import Paths

GRUB_MODULES = (
    "part_gpt part_msdos fat ext2 xfs search search_fs_file chain boot normal configfile test echo sleep reboot"
)


@dataclass(frozen=True)
class Asset:
    """A boot program, where distributions keep it, and the package that brings it."""

    name: str
    sources: tuple[str, ...]
    package: str
    needed: bool = True


ASSETS = (
    Asset("undionly.kpxe", ("/usr/lib/ipxe/undionly.kpxe",), "ipxe"),
    Asset("ipxe.efi", ("/usr/lib/ipxe/ipxe.efi", "/boot/ipxe.efi"), "ipxe"),
    Asset("snponly.efi", ("/usr/lib/ipxe/snponly.efi",), "ipxe"),
    Asset("shimx64.efi", ("/usr/lib/shim/shimx64.efi.signed",), "shim-signed", needed=False),
    Asset(
        "grubx64.efi",
        ("/usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed",),
        "grub-efi-amd64-signed",
        needed=False,
    ),
    # Debian 12 has no iPXE for arm64; newer releases and an arm64 head node do.
    Asset(
        "ipxe-arm64.efi",
        ("/usr/lib/ipxe/arm64/ipxe.efi", "/usr/lib/ipxe/ipxe-arm64.efi", "/boot/ipxe-arm64.efi"),
        "ipxe",
        needed=False,
    ),
)


def install(places: Paths) -> list[str]:
    """Put the boot programs where dnsmasq and nginx serve them; returns what could not be found."""
    missing: list[str] = []
    places.tftp.mkdir(parents=True, exist_ok=True)
    for asset in ASSETS:
        source = next((Path(name) for name in asset.sources if Path(name).exists()), None)
        if source is None:
            missing.append(f"{asset.name} (package {asset.package})")
        else:
            place(places.tftp / asset.name, source.read_bytes())
    for name, target in (("boot", "tftp/boot"), ("grub", "tftp/grub")):
        link(places.tftp / name, places.published / target)
    link(places.tftp / "ramdisk", places.state / "ramdisk")
    missing += make_disk_starter(places)
    return missing


def make_disk_starter(places: Paths) -> list[str]:
    """A GRUB that finds and starts a disk's own loader; made once, and again when its script changes."""
    places.grub.mkdir(parents=True, exist_ok=True)
    script = templates.render("grub/disk.cfg.j2", made_from="UEFI machines")
    target = places.grub / "disk-x86_64.efi"
    stamp = places.grub / "disk-x86_64.made-from"
    digest = hashlib.sha256(script.encode()).hexdigest()
    if target.exists() and stamp.exists() and stamp.read_text() == digest:
        return []
    if not run.have("grub-mkstandalone") or not Path("/usr/lib/grub/x86_64-efi").exists():
        return ["disk-x86_64.efi (packages grub-common and grub-efi-amd64-bin)"]
    with tempfile.TemporaryDirectory() as scratch:
        config, made = Path(scratch) / "grub.cfg", Path(scratch) / "disk.efi"
        config.write_text(script)
        run.run(
            ["grub-mkstandalone", "--format=x86_64-efi", f"--install-modules={GRUB_MODULES}",
             f"--modules={GRUB_MODULES}", "--locales=", "--fonts=", "--themes=", f"--output={made}",
             f"boot/grub/grub.cfg={config}"]
        )  # fmt: skip
        place(target, made.read_bytes())
    stamp.write_text(digest)
    return []


def place(target: Path, content: bytes) -> None:
    if target.exists() and target.read_bytes() == content:
        return
    draft = target.with_name(target.name + ".draft")
    draft.write_bytes(content)
    draft.chmod(0o644)
    draft.replace(target)


def link(name: Path, target: Path) -> None:
    if not name.is_symlink() and not name.exists():
        name.symlink_to(target)
