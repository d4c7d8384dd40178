"""Seed media: small bootable images for machines whose firmware cannot start over the network."""

import io
import shutil
from collections.abc import Mapping
from pathlib import Path

from pycdlib import PyCdlib

import templates
from headnode import run
from headnode.errors import HeadnodeError
from headnode.files import write_new
from headnode.model import Node
from headnode.site import Site

IPXE = Path("/usr/lib/ipxe")
PROGRAMS = ("ipxe.lkrn", "ipxe.efi")


def bootable(site: Site, node: Node, target: Path, work: Path) -> None:
    """An image for CD and USB, BIOS and UEFI: GRUB starts iPXE, and iPXE asks the head node."""
    missing = [name for name in PROGRAMS if not (IPXE / name).is_file()]
    if missing:
        raise HeadnodeError(f"{IPXE}/{missing[0]} is not there", hint="install the package ipxe")
    tree = work / "tree"
    (tree / "headnode").mkdir(parents=True)
    (tree / "boot/grub").mkdir(parents=True)
    for name in PROGRAMS:
        shutil.copyfile(IPXE / name, tree / "headnode" / name)
    for name, place in (("boot.ipxe", "headnode"), ("grub.cfg", "boot/grub")):
        (tree / place / name).write_text(script(name, site, node))
    made = work / "seed.iso"
    run.run(["grub-mkrescue", f"--output={made}", tree], timeout=300)
    shutil.copyfile(made, target)


def script(name: str, site: Site, node: Node) -> str:
    return templates.render(f"seed/{name}.j2", site=site, node=node, made_from=f"node {node.name}")


def cidata(answers: Mapping[str, bytes], target: Path) -> None:
    """A volume that Ubuntu's installer, started from its own medium, takes its answers from. It holds a secret."""
    made = PyCdlib()
    made.new(interchange_level=3, vol_ident="cidata", rock_ridge="1.09", joliet=3)
    for number, (name, content) in enumerate(sorted(answers.items())):
        made.add_fp(io.BytesIO(content), len(content), f"/F{number}.;1", rr_name=name, joliet_path=f"/{name}")
    buffer = io.BytesIO()
    made.write_fp(buffer)
    made.close()
    write_new(target, buffer.getvalue(), 0o600)
