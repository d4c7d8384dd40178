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
from images.nodecheck.storage import parse_mdstat, parse_mounts, parse_swaps

RECORDED = Path(__file__).parent / "recorded"


def said(name: str) -> str:
    return (RECORDED / name).read_text()


def gpus(lspci: str = "lspci-8.txt", smi: str | None = "smi-8.xml", **more: Any) -> dict[str, dict[str, Any]]:
    facts: dict[str, Any] = {
        "module": said("module.txt"), "fabric_manager": said("fabricmanager.txt"), "cuda": "8",
        "links": parse_nvlink(said("nvlink.txt")), "docker": said("docker-runtime.json"),
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


@pytest.mark.parametrize(
    ("name", "cdi", "words"),
    [
        ("docker-runtime.json", False, "Docker has the NVIDIA runtime"),
        ("docker-runtime.json", True, "Docker has the NVIDIA runtime"),
        ("docker-cdi.json", False, "Docker has CDI devices"),
        ("docker-plain.json", True, "Docker has CDI devices"),
    ],
)
def test_docker_may_know_the_gpus_in_two_ways(name: str, cdi: bool, words: str) -> None:
    check = gpus(docker=said(name), cdi=cdi)["docker gpus"]
    assert (check["ok"], check["message"]) == (True, words)


def test_docker_has_to_know_the_gpus() -> None:
    """That its host and labels are called like their maker says nothing."""
    assert failing(gpus(docker=said("docker-plain.json"))) == {
        "docker gpus": "Docker knows no NVIDIA runtime and no CDI device"
    }


def test_no_part_of_dockers_answer_is_taken_for_good() -> None:
    text = said("docker-cdi.json").rstrip()
    for end in range(0, len(text), 7):
        assert failing(gpus(docker=text[:end])) == {"docker gpus": "Docker does not answer, or not to the end"}
    assert failing(gpus(docker="[]")) == {"docker gpus": "Docker does not answer, or not to the end"}


def test_what_nodes_of_a_profile_are_compared_by() -> None:
    checks = gpus()
    assert checks["gpu pci"]["data"] == {"count": 8, "width": 16}
    assert checks["gpu errors"]["data"] == {"ecc": "Enabled"}
    assert checks["gpu nvlink"]["data"]["links"] > 0
    assert gpus(links={})["gpu nvlink"]["data"] == {"links": 0}, "a node that has none is told from those that do"
    narrow = said("lspci-8.txt").replace("Width x16", "Width x8", 2)
    devices = parse_lspci(narrow)
    assert min(device.width or 0 for device in devices) == 8


def test_a_fabric_manager_that_does_not_say_which_it_is() -> None:
    words = "nvidia-smi 550.54.15, kernel module 550.54.15, Fabric Manager unknown"
    assert failing(gpus(fabric_manager="Fabric Manager vers")) == {"gpu versions": words}


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


PLANNED = {"/": "ext4", "/boot/efi": "vfat", "/data": "xfs", "/scratch": "xfs"}


def test_file_systems_are_of_the_planned_kind_and_can_be_written_to() -> None:
    (good,) = judge_machine.filesystems({"filesystems": PLANNED}, parse_mounts(said("mounts.txt")))
    assert (good["ok"], good["message"]) == (True, "as planned")
    (bad,) = judge_machine.filesystems({"filesystems": PLANNED}, parse_mounts(said("mounts-wrong.txt")))
    assert (bad["ok"], bad["message"]) == (False, "/data is ext4, not xfs; / is read-only")
    assert list(judge_machine.filesystems({}, {})) == []


def test_a_list_of_mounts_that_is_cut_off_has_no_half_line() -> None:
    """A mount whose options were lost would look like one that is read-only."""
    text = said("mounts.txt")
    for end in range(0, len(text), 11):
        (check,) = judge_machine.filesystems({"filesystems": PLANNED}, parse_mounts(text[:end]))
        assert "read-only" not in check["message"]
    assert parse_mounts("a /with\\040space ext4 rw 0 0")["/with space"].writable


@pytest.mark.parametrize(
    ("name", "ok", "words"),
    [
        ("mdstat.txt", True, "every set has all its disks"),
        ("mdstat-degraded.txt", False, "md126 has 1 of 2 disks; md127 has 0 of its disks"),
        ("mdstat-truncated.txt", False, "md127 has 0 of its disks"),
    ],
)
def test_raid_sets(name: str, ok: bool, words: str) -> None:
    (check,) = judge_machine.raid({"raid": 2}, parse_mdstat(said(name)))
    assert (check["ok"], check["message"]) == (ok, words)


def test_raid_sets_that_are_not_there() -> None:
    (check,) = judge_machine.raid({"raid": 1}, parse_mdstat("Personalities : [raid1]\nunused devices: <none>\n"))
    assert (check["ok"], check["message"]) == (False, "0 sets, 1 planned")
    assert list(judge_machine.raid({}, [])) == []


def test_swap_is_in_use_where_it_was_planned() -> None:
    assert parse_swaps(said("swaps.txt")) == 1
    assert parse_swaps(said("swaps.txt")[:100]) == 0, "cut off"
    assert parse_swaps("") == 0
    assert [check["ok"] for check in judge_machine.swap({"swap": True}, 1)] == [True]
    assert [check["ok"] for check in judge_machine.swap({"swap": True}, 0)] == [False]
    assert list(judge_machine.swap({}, 0)) == []


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


@pytest.mark.parametrize(
    ("program", "name", "numbers"),
    [
        ("stress-ng", "stress-ng.txt", {"cpu_ops": 96.2, "vm_ops": 56.88}),
        ("dcgmi", "dcgmi-pass.txt", None),
        ("gpu_burn", "gpu-burn.txt", None),
        ("all_reduce_perf", "nccl.txt", {"bus_gb_per_s": 57.8521}),
    ],
)
def test_a_burn_in_gives_numbers_and_a_verdict(program: str, name: str, numbers: dict[str, float] | None) -> None:
    good = judged(program, Said(0, said(name)), 600)
    assert good["ok"], good
    assert good.get("data") == numbers
    assert not judged(program, Said(2, said(name)), 600)["ok"], "its exit code counts too"
    assert not judged(program, Said(0, said(name)[: len(said(name)) // 4]), 600)["ok"], "cut off"
    assert not judged(program, Said(0, ""), 600)["ok"]
    assert not judged(program, Said(None, error="did not answer"), 600)["ok"]


@pytest.mark.parametrize(
    ("program", "name"),
    [("dcgmi", "dcgmi-fail.txt"), ("gpu_burn", "gpu-burn-faulty.txt"), ("all_reduce_perf", "nccl-failed.txt")],
)
def test_what_a_burn_in_finds_is_not_passed(program: str, name: str) -> None:
    """Also where the program itself ends well."""
    assert not judged(program, Said(0, said(name)), 600)["ok"]


def test_a_count_of_no_failures_is_no_failure() -> None:
    """As stress-ng says it from 0.16 on."""
    text = said("stress-ng.txt") + "stress-ng: info:  [4711] passed: 4: cpu (2) vm (2)\nstress-ng: info:  failed: 0\n"
    assert judged("stress-ng", Said(0, text), 600)["ok"]


def test_nccl_is_told_how_many_gpus_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in (("nvidia-smi", "echo 'GPU 0: x'; echo 'GPU 1: x'"), ("all_reduce_perf", 'echo "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = {check["name"]: check for check in run(1)}
    assert found["burn-in all_reduce_perf"]["message"].endswith("-g 2")


def test_the_course_of_temperatures() -> None:
    check = heat([(0, {"GPU 0": 30.0}), (10, {"GPU 0": 71.0, "cpu": 50.0})])
    assert check["message"] == "at most 71 °C"
    assert check["data"]["series"] == {"GPU 0": [30.0, 71.0], "cpu": [0, 50.0]}


def test_a_burn_in_without_programs_is_not_passed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [check["ok"] for check in run(10)] == [False]


def test_a_burn_in_runs_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "stress-ng"
    script.write_text(f"#!/bin/sh\ncat <<'X'\n{said('stress-ng.txt')}X\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = {check["name"]: check for check in run(1)}
    assert found["burn-in stress-ng"]["ok"]
    assert "burn-in heat" in found
