"""The lab under Vagrant, as far as it goes without a hypervisor: Vagrant's own checker, and virsh's test driver."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError
from headnode.lab.net import namespace
from vagrant.bmcs import VirtualMachine

RUNNING = """<node><domain type="test">
<name>headnode-node01</name><memory>8192</memory><os><type>hvm</type></os>
</domain></node>"""
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


@pytest.mark.integration
@pytest.mark.root
@pytest.mark.program("ip", "ipmi_sim", "ipmitool", "virsh")
def test_a_bmc_answers_for_a_machine_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text(RUNNING)
    password = tmp_path / "password"
    password.write_text("vagrant-lab")
    env = {**os.environ, "LIBVIRT_DEFAULT_URI": f"test://{tmp_path}/node.xml"}
    with namespace("vagrant", "host") as host:
        host.ip("link add d0 type bridge", "addr add 192.168.56.1/24 dev d0", "link set d0 up", "link set lo up")
        command: list[str | Path] = [
            sys.executable,
            HERE / "bmcs.py",
            "libvirt",
            "--nodes",
            "1",
            "--password-file",
            password,
        ]
        with subprocess.Popen(host.argv(command), env=env, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                assert process.stderr.readline() == "node01: BMC at 192.168.56.11, user admin\n"
                lan: list[str | Path] = [
                    "ipmitool",
                    "-I",
                    "lanplus",
                    "-C",
                    "3",
                    "-H",
                    "192.168.56.11",
                    "-U",
                    "admin",
                    "-f",
                    password,
                ]
                assert host.run([*lan, "power", "status"]).stdout == "Chassis Power is on\n"
                host.run([*lan, "power", "off"])
            finally:
                process.terminate()
            assert process.wait(20) == 0
        assert "192.168.56.11" not in host.run(["ip", "address"]).stdout


@pytest.mark.program("shellcheck")
def test_shell_scripts_are_sound() -> None:
    scripts = [HERE / "install-head", *(HERE.parent / "headnode/packaging").iterdir()]
    said = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout
