"""The lab under Vagrant, as far as it goes without a hypervisor: Vagrant's own checker, and virsh's test driver."""

import os
import subprocess
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError
from vagrant.bmcs import VirtualMachine

HERE = Path(__file__).parents[1] / "vagrant"


def validate(vagrantfile: Path, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "VAGRANT_CWD": str(HERE),
        "VAGRANT_VAGRANTFILE": str(vagrantfile),
        "VAGRANT_HOME": str(tmp_path / "home"),
        "VAGRANT_DOTFILE_PATH": str(tmp_path / "dot"),
        **env,
    }
    return subprocess.run(
        ["vagrant", "validate", "--ignore-provider"], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.program("vagrant")
def test_vagrant_finds_nothing_wrong(tmp_path: Path) -> None:
    said = validate(HERE / "Vagrantfile", tmp_path, NODES="3")
    assert said.returncode == 0, said.stderr
    assert "node03" in said.stdout
    mistaken = tmp_path / "Vagrantfile"
    mistaken.write_text((HERE / "Vagrantfile").read_text().replace("boot_timeout", "boot_timeoot"))
    assert validate(mistaken, tmp_path).returncode == 1, "and would have, if there were"


@pytest.mark.program("virsh")
def test_the_power_button_is_virsh(monkeypatch: pytest.MonkeyPatch) -> None:
    # libvirt's own stand-in: one running machine, and every command starts from there.
    monkeypatch.setenv("LIBVIRT_DEFAULT_URI", "test:///default")
    machine = VirtualMachine("libvirt", "test")
    assert machine.powered()
    machine.set_power(True)
    machine.set_power(False)
    machine.shut_down()
    with pytest.raises(HeadnodeError, match="nobody"):
        VirtualMachine("libvirt", "nobody").powered()


@pytest.mark.program("shellcheck")
def test_shell_scripts_are_sound() -> None:
    scripts = [HERE / "install-head", *(HERE.parent / "packaging").iterdir()]
    said = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout
