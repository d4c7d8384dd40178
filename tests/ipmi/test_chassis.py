"""The lab's power buttons and what ipmi_sim is told."""

from pathlib import Path

import pytest

from headnode.errors import InvalidInput
from headnode.lab import chassis_client
from headnode.lab.bmc import LabBmc, emulation, lan_conf, simulators
from headnode.lab.chassis import ChassisService, FakeChassis, answer


def test_the_language_of_ipmi_sim() -> None:
    machine = FakeChassis()
    assert answer(machine, ["get", "power"]) == "power:0\n"
    assert answer(machine, ["set", "power", "1"]) == ""
    assert answer(machine, ["set", "boot", "pxe"]) == ""
    assert answer(machine, ["get", "power", "boot"]) == "power:1\nboot:pxe\n"
    assert answer(machine, ["set", "reset", "1"]) == ""
    assert answer(machine, ["set", "shutdown", "1"]) == ""
    assert answer(machine, ["set", "identify", "15", "0"]) == ""
    assert machine.history == ["on", "boot pxe", "reset", "soft", "identify 15"]
    assert not machine.on


def test_the_client_asks_over_the_socket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machines = {"gpu01": FakeChassis(on=True)}
    with ChassisService(tmp_path / "chassis.sock", machines) as service:
        assert chassis_client.main([str(service.path), "gpu01", "get", "power"]) == 0
        assert capsys.readouterr().out == "power:1\n"
        assert chassis_client.main([str(service.path), "gpu02", "get", "power"]) == 1
        assert chassis_client.main([str(service.path), "gpu01", "dance"]) == 1
    assert not service.path.exists()


def test_configuration_names_each_bmc_once() -> None:
    bmcs = [LabBmc(f"n{i}", f"127.0.3.{i}", "pw", mc=0x20 + i) for i in range(1, 4)]
    text = lan_conf("three", bmcs)
    assert text.count("startlan 1") == 3
    assert "addr 127.0.3.2 623" in text
    assert text.startswith("# Made by headnode from templates/lab/lan.conf.j2")
    emu = emulation("three", bmcs)
    assert emu.count("mc_add ") == 3
    assert emu.count("main_sdr_add") == 3 * 7


def test_many_bmcs_share_few_processes(tmp_path: Path) -> None:
    made = simulators([LabBmc(f"n{i}", f"127.0.4.{i % 250}", "pw") for i in range(250)], tmp_path)
    assert [len(simulator.bmcs) for simulator in made] == [100, 100, 50]
    assert all(len({bmc.mc for bmc in simulator.bmcs}) == len(simulator.bmcs) for simulator in made)


def test_no_setting_can_break_out_of_the_configuration() -> None:
    for password in ('a"b', "a\nuser 3"):
        with pytest.raises(InvalidInput, match="quote or control character"):
            LabBmc("n1", "127.0.3.1", password)
