"""What programs on nodes say, whole, broken and cut off. Nothing that is cut off is ever taken for good."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from images.nodecheck import gather, judge_gpus, judge_machine
from images.nodecheck.burnin import heat, judged, run
from images.nodecheck.infiniband import parse_ibstat
from images.nodecheck.judge_gpus import GpuFacts, judge
from images.nodecheck.nvidia import Smi, parse_nvlink, parse_smi, parse_version, parse_xids
from images.nodecheck.pci import parse_lspci
from images.nodecheck.programs import Said, ask

RECORDED = Path(__file__).parent / "recorded"


def said(name: str) -> str:
    return (RECORDED / name).read_text()


def gpus(lspci: str = "lspci-8.txt", smi: str | None = "smi-8.xml", **more: Any) -> dict[str, dict[str, Any]]:
    facts: dict[str, Any] = {
        "module": said("module.txt"), "fabric_manager": said("fabricmanager.txt"), "cuda": "8",
        "links": parse_nvlink(said("nvlink.txt")), "docker": '{"Runtimes":{"nvidia":{}}}',
    }  # fmt: skip
    made = GpuFacts(parse_lspci(said(lspci)), parse_smi(said(smi)) if smi else None, **{**facts, **more})
    return {check["name"]: check for check in judge(8, True, made)}


def failing(checks: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: check["message"] for name, check in checks.items() if not check["ok"]}


def test_eight_good_gpus_pass_everything() -> None:
    checks = gpus()
    assert failing(checks) == {}
    assert set(checks) == {
        "gpu pci", "gpu bars", "gpu driver", "gpu errors", "gpu versions", "gpu cuda", "gpu persistence",
        "gpu nvlink", "docker gpus",
    }  # fmt: skip
    assert checks["gpu driver"]["data"] == {"count": 8, "driver": "550.54.15"}


def test_an_unassigned_window_is_named_with_its_device() -> None:
    bad = failing(gpus("lspci-unassigned.txt", "smi-7-of-8.xml", cuda="7"))
    assert bad["gpu bars"] == "no room was found for 0000:90:00.0 region 1, 0000:90:00.0 region 3"
    assert bad["gpu driver"] == "the driver has 7 of 8; not 0000:90:00.0"


def test_a_gpu_that_fell_off_the_bus_is_named() -> None:
    bad = failing(gpus("lspci-rev-ff.txt", "smi-7-of-8.xml", xids=tuple(parse_xids(said("dmesg-xid79.txt")))))
    assert bad["gpu pci"] == "0000:90:00.0 has fallen off the bus (rev ff)"
    assert bad["gpu errors"] == "0000:90:00: Xid 79 (fallen off the bus)"


def test_only_the_hardwares_errors_count() -> None:
    """Xid 31 is a program's own mistake."""
    assert parse_xids(said("dmesg-xid79.txt")) == [("0000:90:00", 79)]
    assert parse_xids("") == []
    assert parse_xids("NVRM: Xid (PCI:0000:90") == []


def test_memory_errors_remapping_and_persistence() -> None:
    bad = failing(gpus(smi="smi-errors.xml"))
    assert bad == {
        "gpu errors": "0000:47:00.0: 3 uncorrectable memory errors; 0000:87:00.0: a row remapping failed; "
        "0000:b7:00.0: a row remapping waits for a reset",
        "gpu persistence": "off: 0000:b7:00.0",
    }


def test_a_lost_gpu_is_listed_and_not_well() -> None:
    assert "0000:90:00.0: fallen off the bus" in failing(gpus(smi="smi-lost.xml"))["gpu errors"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("smi-truncated.xml", "the answer of nvidia-smi is cut off or damaged"),
        ("smi-no-driver.txt", "nvidia-smi says: NVIDIA-SMI has failed because"),
        ("smi-mismatch.txt", "nvidia-smi says: Failed to initialize NVML: Driver/library version mismatch"),
    ],
)
def test_an_answer_that_is_none(name: str, words: str) -> None:
    assert parse_smi(said(name)).gpus == ()
    assert failing(gpus(smi=name))["gpu driver"].startswith(words)


def test_silence_and_a_wrong_count_are_not_good() -> None:
    assert parse_smi("").trouble == "nvidia-smi says nothing"
    text = said("smi-8.xml").replace("<attached_gpus>8<", "<attached_gpus>9<")
    assert parse_smi(text).trouble == "nvidia-smi counts 9 GPUs and lists 8"
    assert failing(gpus(smi=None))["gpu driver"] == "nvidia-smi is not installed"


def test_no_prefix_of_an_answer_is_taken_for_a_whole_one() -> None:
    """However short the pipe was cut, eight GPUs are only there when all was said."""
    text = said("smi-8.xml")
    for end in range(0, len(text.rstrip()) - 1, 97):
        found = parse_smi(text[:end])
        assert found.trouble, end


def test_versions_must_be_the_same_everywhere() -> None:
    bad = failing(gpus(fabric_manager=said("fabricmanager-old.txt")))
    assert bad == {"gpu versions": "nvidia-smi 550.54.15, kernel module 550.54.15, Fabric Manager 535.161.08"}
    assert parse_version("none at all") == ""
    assert judge_gpus.versions(Smi("", ()), GpuFacts([], None))["ok"] is False


def test_cuda_has_to_start() -> None:
    assert failing(gpus(cuda="7")) == {"gpu cuda": "CUDA starts and finds 7 of 8"}
    words = "CUDA does not start: cuInit gives 802 (system not yet initialized)"
    assert failing(gpus(cuda=words)) == {"gpu cuda": words}
    assert failing(gpus(cuda="")) == {"gpu cuda": "CUDA could not be asked"}


def test_links_between_gpus() -> None:
    bad = failing(gpus(links=parse_nvlink(said("nvlink-down.txt"))))
    assert bad == {"gpu nvlink": "down: GPU 2 link 3"}
    assert parse_nvlink("") == {}
    assert parse_nvlink(said("nvlink.txt")[:150])[0] == [True] * 4


def test_docker_has_to_know_the_gpus() -> None:
    assert failing(gpus(docker='{"Runtimes":{"runc":{}}}')) == {
        "docker gpus": "Docker knows no NVIDIA runtime and no CDI device"
    }


def test_a_list_of_devices_that_is_cut_off_gives_what_it_says() -> None:
    devices = parse_lspci(said("lspci-truncated.txt"))
    assert len(devices) == 6
    assert devices[-1].unassigned == [1]
    assert parse_lspci("") == []
    bad = {check["name"] for check in judge(8, True, GpuFacts(devices, None)) if not check["ok"]}
    assert {"gpu pci", "gpu bars"} <= bad


def test_a_switch_is_not_a_gpu() -> None:
    assert [device.kind for device in parse_lspci(said("lspci-8.txt"))] == ["3D controller"] * 8


def test_nothing_is_said_of_gpus_where_none_are_wanted() -> None:
    assert list(judge(None, False, GpuFacts([], None))) == []
    assert list(judge(0, False, GpuFacts([], None))) == []


@pytest.mark.parametrize(
    ("name", "ok", "words"),
    [
        ("ibstat.txt", True, "2 ports up of 2"),
        ("ibstat-one-down.txt", False, "1 ports up of 2; mlx5_1/1: Down/Polling"),
        ("ibstat-slow.txt", False, "2 ports up of 2; mlx5_1/1: 100 Gbit/s, 400 expected"),
        ("ibstat-truncated.txt", False, "1 ports up of 2; mlx5_1/1: Active/unknown"),
    ],
)
def test_infiniband(name: str, ok: bool, words: str) -> None:
    expected = {"infiniband_ports": 2, "infiniband_rate": 400}
    (check,) = judge_machine.infiniband(expected, parse_ibstat(said(name)))
    assert (check["ok"], check["message"]) == (ok, words)


def test_infiniband_that_says_nothing() -> None:
    (check,) = judge_machine.infiniband({"infiniband_ports": 1}, parse_ibstat("ibpanic: no adapters"))
    assert not check["ok"]
    assert list(judge_machine.infiniband({}, [])) == []


def machine(expected: dict[str, Any]) -> dict[str, tuple[bool, str]]:
    found = [
        *judge_machine.dns(expected, ["10.20.1.1"], "gpu02.demo.lan."),
        *judge_machine.memory(expected, 15 << 30),
        *judge_machine.processors(expected, 62),
        *judge_machine.disks(expected, ["A", ""]),
        *judge_machine.network_mounts({"/home": "hangs: no answer"}),
        *judge_machine.cache(expected, False),
        *judge_machine.links(expected, {"52:54:00:aa:00:01": {"name": "eth0", "up": True, "speed": 1000}}),
    ]
    return {check["name"]: (check["ok"], check["message"]) for check in found}


def test_what_differs_is_said_with_both_values() -> None:
    found = machine({
        "fqdn": "gpu01.demo.lan", "address": "10.20.1.0", "memory_bytes": 16 << 30, "cpus": 64, "disks": ["A", "B"],
        "cache": True, "macs": ["52:54:00:AA:00:01", "52:54:00:aa:00:02"], "link_speed": 10000,
    })  # fmt: skip
    assert found == {
        "dns name": (False, "gpu01.demo.lan is 10.20.1.1, not 10.20.1.0"),
        "dns address": (False, "10.20.1.0 is gpu02.demo.lan., not gpu01.demo.lan"),
        "memory": (False, "15.0 GiB, 16.0 GiB inventoried"),
        "cpus": (False, "62, 64 inventoried"),
        "disks": (False, "missing: B"),
        "nfs /home": (False, "hangs: no answer"),
        "nfs cache": (False, "cachefilesd does not run"),
        "link eth0": (False, "1000 Mbit/s, 10000 expected"),
        "link 52:54:00:aa:00:02": (False, "there is no port with MAC 52:54:00:aa:00:02"),
    }


def test_what_is_not_expected_is_not_checked() -> None:
    assert set(machine({})) == {"nfs /home"}


def test_a_program_that_hangs_is_left_behind() -> None:
    answer = ask(["sleep", "60"], 0.2)
    assert answer.code is None
    assert "did not answer within" in answer.error
    assert ask(["no-such-program"]).error == "no-such-program is not installed"


def test_a_check_that_stumbles_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> list[Any]:
        raise KeyError("thing")

    broken.__name__ = "names"
    monkeypatch.setattr(gather, "names", broken)
    found = gather.everything({"cpus": 1})
    assert found[0]["message"] == "this check itself failed: KeyError: 'thing'"
    assert any(check["name"] == "cpus" for check in found)


def test_the_package_runs_where_nothing_else_of_ours_is(tmp_path: Path) -> None:
    """As on a node: one directory, the system's Python, JSON in and out."""
    import shutil

    import images.nodecheck

    shutil.copytree(Path(images.nodecheck.__file__).parent, tmp_path / "nodecheck")
    start = f"import runpy, sys; sys.path[:0] = [{str(tmp_path)!r}]; runpy.run_module('nodecheck', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-I", "-c", start],
        input=json.dumps({"cpus": 10_000}), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [check["ok"] for check in json.loads(done.stdout)] == [False]


STRESS = """\
stress-ng: info:  [4711] dispatching hogs: 64 cpu, 2 vm
stress-ng: metrc: [4711] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s
stress-ng: metrc: [4711] cpu             5519204    600.00  38100.11     12.02      9198.67         144.81
stress-ng: info:  [4711] successful run completed in 600.10 secs
"""


def test_a_burn_in_gives_numbers_and_a_verdict() -> None:
    good = judged("stress-ng", Said(0, STRESS), 600)
    assert good["ok"]
    assert good["data"] == {"cpu_ops": 9198.67}
    assert not judged("stress-ng", Said(2, "stress-ng: fail: [3] vm: memory error"), 600)["ok"]
    assert not judged("gpu_burn", Said(0, "GPU 0: OK\nGPU 1: FAULTY"), 60)["ok"]
    assert not judged("dcgmi", Said(0, "| Memory | Fail - GPU 3 |\nFAILED"), 60)["ok"]
    assert judged("all_reduce_perf", Said(0, "# Avg bus bandwidth    : 231.4"), 60)["data"] == {"bus_gb_per_s": 231.4}
    assert not judged("dcgmi", Said(None, error="did not answer"), 60)["ok"]


def test_the_course_of_temperatures() -> None:
    check = heat([(0, {"GPU 0": 30.0}), (10, {"GPU 0": 71.0, "cpu": 50.0})])
    assert check["message"] == "at most 71 °C"
    assert check["data"]["series"] == {"GPU 0": [30.0, 71.0], "cpu": [0, 50.0]}


def test_a_burn_in_without_programs_is_not_passed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [check["ok"] for check in run(10)] == [False]


def test_a_burn_in_runs_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "stress-ng"
    script.write_text(f"#!/bin/sh\ncat <<'X'\n{STRESS}X\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = {check["name"]: check for check in run(1)}
    assert found["burn-in stress-ng"]["ok"]
    assert "burn-in heat" in found
