"""The commands that stand in for a walk to the rack, against real BMC simulators, without the daemon."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.bmc_lab import ipmitool
from tests.integration.bmc_site import CANARY, BmcSite, address, bmc_site

pytestmark = [pytest.mark.integration, pytest.mark.root, pytest.mark.program("ipmi_sim", "ipmitool")]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[BmcSite]:
    with bmc_site(tmp_path, 5) as made:
        yield made


def test_power_is_switched_and_folded_and_ipmitool_agrees(site: BmcSite) -> None:
    assert site.headnode("power", "status", "gpu[01-05]").out == "gpu[01-05]: off\n"
    assert site.headnode("power", "on", "gpu[01-03]").out == "gpu[01-03]: on\n"
    assert site.headnode("power", "status", "gpu[01-05]").out == "gpu[01-03]: on\ngpu[04-05]: off\n"
    assert "is on" in ipmitool(address(1), "chassis", "power", "status", password=CANARY)
    assert "is off" in ipmitool(address(4), "chassis", "power", "status", password=CANARY)
    assert site.headnode("power", "reset", "gpu01", "--yes").code == 0
    assert site.headnode("power", "soft", "gpu02", "--yes").code == 0
    assert site.headnode("power", "off", "gpu03", "--yes").out == "gpu03: off\n"
    assert site.machines["gpu01"].history == ["on", "reset"]
    assert site.machines["gpu02"].history == ["on", "soft"]
    assert site.machines["gpu03"].history == ["on", "off"]
    assert site.events("bmc.power", "gpu03") == ["power on: on", "power off: off"]


def test_cycling_what_is_off_switches_it_on(site: BmcSite) -> None:
    assert site.headnode("power", "cycle", "gpu01", "--yes").out == "gpu01: on\n"


def test_boot_device_light_identity(site: BmcSite) -> None:
    assert site.headnode("bootdev", "pxe", "gpu[01-02]").out == "gpu[01-02]: pxe, once\n"
    assert site.machines["gpu01"].boot == "pxe"
    assert site.headnode("bootdev", "none", "gpu01").out == "gpu01: none\n"
    assert site.headnode("bmc", "identify", "gpu01", "--for", "5").out == "gpu01: blinking\n"
    shown = site.answers("bmc", "show", "gpu01")["gpu01"]
    assert shown["serial"] == "SN-gpu01"
    assert shown["address"] == address(1)


def test_sensors_and_event_log(site: BmcSite) -> None:
    rows = json.loads(site.headnode("sensors", "gpu01", "-o", "json").out)
    assert {row["sensor"]: row["value"] for row in rows}["Inlet Temp"] == 24
    site.simulator.control("sensor_set_value 0x20 0 1 44 1")
    entries = json.loads(site.headnode("sel", "gpu01", "-o", "json").out)
    assert any(entry["source"] == "Inlet Temp" and entry["health"] == "critical" for entry in entries), entries
    assert "Inlet Temp" in site.headnode("sensors", "gpu01", "--match", "inlet").out
    assert site.headnode("sel", "gpu01", "--clear", "--yes").out == "gpu01: cleared\n"
    assert json.loads(site.headnode("sel", "gpu01", "-o", "json").out) == []


def test_one_bad_node_is_told_and_the_rest_is_done(site: BmcSite) -> None:
    with site.context() as context:
        from headnode.workflows import nodes

        nodes.set_fields(context, ["gpu05"], {"bmc": "127.44.9.9"})
    done = site.headnode("power", "on", "gpu[01-05]")
    assert done.code == 1
    assert done.out == "gpu[01-04]: on\ngpu05: unreachable\n"
    assert "hint: check the BMC's cable" in done.err
    failed = site.answers("power", "status", "gpu[01-05]")["gpu05"]
    assert (failed["ok"], failed["status"]) == (False, "unreachable")


def test_destructive_verbs_on_many_ask_for_the_number(site: BmcSite) -> None:
    assert site.headnode("power", "off", "gpu[01-05]").code == 2
    assert site.headnode("power", "off", "gpu[01-05]", typed=b"4\n").code == 2
    assert all(machine.history == [] for machine in site.machines.values())
    assert site.headnode("power", "off", "gpu[01-05]", typed=b"5\n").code == 0
    assert site.headnode("power", "off", "gpu01", typed=b"n\n").code == 130
    assert site.headnode("sel", "gpu[01-05]", "--clear").code == 2


def test_locked_nodes_and_the_head_node_are_refused(site: BmcSite) -> None:
    site.headnode("set", "gpu02", "locked=true", "--yes", "--no-publish")
    for words in (["power", "on"], ["power", "off", "--yes"], ["bootdev", "pxe"]):
        done = site.headnode(words[0], words[1], "gpu[01-03]", *words[2:])
        assert done.code == 2
        assert "gpu02 is locked" in done.err
    text = site.paths.site_file.read_text().replace("bmc:\n", f"bmc:\n  head: {address(3)}\n", 1)
    site.paths.site_file.write_text(text)
    assert "head node itself" in site.headnode("power", "off", "gpu03", "--yes").err
    assert all(machine.history == [] for machine in site.machines.values())


def test_a_new_password_is_proven_before_the_old_one_goes(site: BmcSite, tmp_path: Path) -> None:
    done = site.headnode("bmc", "set-password", "gpu[01-02]", "--random", "--yes")
    assert done.out == "gpu[01-02]: changed\n"
    assert site.headnode("power", "status", "gpu[01-03]").out == "gpu[01-03]: off\n"
    assert "is off" not in ipmitool(address(1), "chassis", "power", "status", password=CANARY)
    (tmp_path / "new").write_text("Another-One.42\n")
    done = site.headnode("bmc", "set-password", "gpu01", "--password-file", str(tmp_path / "new"), "--yes")
    assert done.code == 0, done.err
    assert "is off" in ipmitool(address(1), "chassis", "power", "status", password="Another-One.42")
    (tmp_path / "new").write_text("admin\n")
    done = site.headnode("bmc", "set-password", "gpu01", "--password-file", str(tmp_path / "new"), "--yes")
    assert done.code == 2
    assert "shipped with" in done.err


def test_an_interrupted_change_locks_nobody_out(site: BmcSite) -> None:
    """The BMC has the new password and we were killed before we could write that down."""
    from headnode import vault
    from headnode.workflows import bmcpasswords

    out = ipmitool(address(1), "user", "set", "password", "2", "Left-Behind.7", password=CANARY)
    with site.context() as context, context.inventory.change("tester", "a test") as change:
        sealed = vault.seal("Left-Behind.7", context.paths.secret_key)
        change.set_secret(bmcpasswords.PENDING.format("gpu01"), sealed)
    done = site.headnode("bmc", "set-password", "gpu01", "--random", "--yes")
    assert done.code == 0, done.err + out
    assert site.headnode("power", "status", "gpu01").out == "gpu01: off\n"


def test_a_known_password_is_only_remembered(site: BmcSite, tmp_path: Path) -> None:
    ipmitool(address(1), "user", "set", "password", "2", "By-Hand.7", password=CANARY)
    assert site.headnode("power", "status", "gpu01").out == "gpu01: wrong credentials\n"
    (tmp_path / "known").write_text("By-Hand.7\n")
    words = ("bmc", "set-password", "gpu01", "--known", "--password-file", str(tmp_path / "known"), "--yes")
    assert site.headnode(*words).out == "gpu01: remembered\n"
    assert site.headnode("power", "status", "gpu01").out == "gpu01: off\n"
