"""Seed media: made by the real grub-mkrescue, and read back."""

import stat
from pathlib import Path

import pytest
import yaml
from pycdlib import PyCdlib

from headnode import run
from headnode.workflows.context import Context
from images.media import opened
from tests.headnode.test_installing import enrolled, head
from tests.support import headnode

__all__ = ["head"]


@pytest.mark.program("grub-mkrescue", "xorriso", "grub-script-check")
def test_a_bootable_medium_for_both_firmwares(head: Context, tmp_path: Path) -> None:
    enrolled(head, "ubuntu")
    target = tmp_path / "gpu01.iso"
    told = headnode(head.paths.root, "image", "seed", "gpu01", "--output", str(target))
    assert told.code == 0, told.err
    with opened(target) as iso:
        assert "chain --replace --autofree http://10.20.0.1/boot" in str(iso.text("/headnode/boot.ipxe"))
        assert iso.has("/headnode/ipxe.efi")
        config = str(iso.text("/boot/grub/grub.cfg"))
    run.run(["grub-script-check", "/dev/stdin"], input=config + "\n")
    report = run.run(["xorriso", "-indev", target, "-report_el_torito", "plain"]).stdout
    assert " BIOS " in report
    assert " UEFI " in report
    assert target.read_bytes()[510:512] == b"\x55\xaa", "a USB stick starts from it too"
    again = headnode(head.paths.root, "image", "seed", "gpu01", "--output", str(target))
    assert again.code == 2
    assert "exists already" in again.err


def test_answers_for_ubuntus_own_medium(head: Context, tmp_path: Path) -> None:
    enrolled(head, "ubuntu")
    root, target = head.paths.root, tmp_path / "answers.iso"
    early = headnode(root, "image", "seed", "gpu01", "--cidata", "--output", str(target))
    assert early.code == 2
    assert "no deployment waits for gpu01" in early.err
    assert headnode(root, "deploy", "gpu01", "--no-power", "--yes").code == 0
    told = headnode(root, "image", "seed", "gpu01", "--cidata", "--output", str(target))
    assert told.code == 0, told.err
    assert stat.S_IMODE(target.stat().st_mode) == 0o600, "it holds a secret"
    iso = PyCdlib()
    iso.open(str(target))
    assert iso.pvd.volume_identifier.decode().strip() == "cidata"
    iso.close()
    with opened(target) as found:
        document = yaml.safe_load(str(found.text("/user-data")))
        assert document["autoinstall"]["version"] == 1
        assert "instance-id: gpu01-" in str(found.text("/meta-data"))


def test_only_autoinstall_reads_a_cidata_volume(head: Context, tmp_path: Path) -> None:
    enrolled(head, "debian")
    told = headnode(head.paths.root, "image", "seed", "gpu01", "--cidata", "--output", str(tmp_path / "x.iso"))
    assert told.code == 2
    assert "method is 'preseed'" in told.err
