"""These GPUs and wishes, exactly this stack, each item with its reason; or exactly this sentence.

After a wanted change: `pytest tests/images/test_nvidia.py --update-golden`, then read the difference.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, reject
from hypothesis import settings as conditions
from hypothesis import strategies as st

from headnode.errors import InvalidInput
from images.agent.firstboot import gpu_checks
from images.nvidia.machine import Machine, Wanted, machine_of
from images.nvidia.rules import Names, names, parse_pci_ids, rules
from images.nvidia.solve import is_driver, solve
from images.nvidia.stack import Kind, Stack

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden/nvidia"
MACHINES: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "nvidia_machines.yaml").read_text())
SETTINGS = {"os": "ubuntu", "release": "24.04", "architecture": "x86_64", "nvidia_branch": "auto",
            "nvidia_source": "distro", "nvidia_modules": "auto"}  # fmt: skip
# Chips by device id as pci.ids names them, so that an old copy on the machine that tests changes no answer.
KNOWN = Names({
    "102d": ("GK210GL", "Tesla K80"), "15f8": ("GP100GL", "Tesla P100 PCIe 16GB"),
    "1db4": ("GV100GL", "Tesla V100 PCIe 16GB"), "1eb8": ("TU104GL", "Tesla T4"),
    "20b2": ("GA100", "A100 SXM4 80GB"), "20b5": ("GA100", "A100 PCIe 80GB"), "20b7": ("GA100GL", "A30 PCIe"),
    "2330": ("GH100", "H100 SXM5 80GB"), "2331": ("GH100", "H100 PCIe"), "2684": ("AD102", "GeForce RTX 4090"),
})  # fmt: skip


def devices(given: list[str], start: int = 0, *, bars: bool = True) -> list[dict[str, Any]]:
    ids = [text.split()[1] for text in given for _ in range(int(text.split()[0]))]
    return [
        {"vendor": "10de", "device": device, "address": f"0000:{start + at:02x}:00.0", "bars_assigned": bars}
        for at, device in enumerate(ids)
    ]


def facts_of(case: dict[str, Any]) -> dict[str, Any]:
    gpus = devices(case["gpus"])
    gpus += devices(case.get("without_bars", []), len(gpus), bars=False)
    return {"gpus": gpus, "nvswitches": devices(case.get("switches", []), 128),
            "secure_boot": case.get("secure_boot", False)}  # fmt: skip


def solved(case: dict[str, Any]) -> Stack:
    wanted = Wanted.of({**SETTINGS, **case.get("settings", {})}, case.get("archives", ()))
    return solve(machine_of([facts_of(case)], KNOWN), wanted)


def text_of(case: dict[str, Any]) -> str:
    try:
        found = solved(case)
    except InvalidInput as error:
        return f"refused: {error.message}\n" + (f"hint: {error.hint}\n" if error.hint else "")
    lines = [found.summary, f"release {found.version}" if found.wanted else "no driver"]
    lines += [f"{item.kind.value}: {item.value}\n    {item.reason} [{', '.join(item.sources)}]" for item in found.items]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_gets_exactly_this(name: str, request: pytest.FixtureRequest) -> None:
    found, golden = text_of(MACHINES[name]), GOLDEN / name
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(found)
    assert found == golden.read_text(), "'pytest --update-golden' if this is what is wanted"
    assert found.startswith("refused: ") == name.startswith("refuse-")


def test_there_are_enough_machines_and_refusals_and_none_is_forgotten() -> None:
    refusals = [name for name in MACHINES if name.startswith("refuse-")]
    assert len(MACHINES) - len(refusals) >= 20
    assert len(refusals) >= 20
    assert {path.name for path in GOLDEN.iterdir()} == set(MACHINES)


def test_every_item_has_a_reason_and_every_rule_a_source_that_exists() -> None:
    known = rules()
    for name, case in MACHINES.items():
        if not name.startswith("refuse-"):
            for item in solved(case).items:
                assert item.reason
                assert set(item.sources) <= set(known.sources), (name, item)
    cited = [one.sources for one in known.architectures] + [one.sources for one in known.devices.values()]
    cited += [one.sources for one in known.archives]
    assert all(found and set(found) <= set(known.sources) for found in cited)
    assert all(source.url.startswith("https://") for source in known.sources.values())


GPUS = st.sampled_from(["102d", "15f8", "1db4", "1eb8", "20b2", "20b5", "2330", "2331", "2684", "2335", "26b9", "2901",
                        "2942", "2941", "2b85"])  # fmt: skip


@conditions(deadline=None)
@given(
    gpus=st.lists(GPUS, min_size=1, max_size=9),
    switches=st.lists(st.sampled_from(["22a3", "1af1", "beef"]), max_size=4),
    settings=st.fixed_dictionaries({
        "os": st.sampled_from(["debian", "ubuntu"]), "release": st.sampled_from(["12", "22.04", "24.04"]),
        "architecture": st.sampled_from(["x86_64", "aarch64"]), "nvidia_source": st.sampled_from(["distro", "nvidia"]),
        "nvidia_branch": st.sampled_from(["auto", "535", "570", "580", "580.173.02", "590", "590-open"]),
        "nvidia_modules": st.sampled_from(["auto", "open", "proprietary"]),
        "rdma": st.sampled_from(["none", "inbox", "doca"]), "docker": st.sampled_from(["none", "distro", "ce"]),
    }),
)  # fmt: skip
def test_what_is_solved_holds_together(gpus: list[str], switches: list[str], settings: dict[str, str]) -> None:
    """Fabric Manager's release is the driver's, and no rule of an architecture is ever broken."""
    facts = {"gpus": devices([f"1 {gpu}" for gpu in gpus]), "nvswitches": devices([f"1 {s}" for s in switches], 128)}
    try:
        machine = machine_of([facts], KNOWN)
        found = solve(machine, Wanted.of(settings, ["nvidia", "docker", "doca"]))
    except InvalidInput:
        reject()
    check_fabric(machine, found)
    assert found.branch is not None
    assert found.version is not None
    assert found.version.startswith(f"{found.branch}.")
    for gpu in machine.gpus:
        assert gpu.first <= found.branch <= (gpu.architecture.last or found.branch)
        assert {"never": "proprietary", "needed": "open"}.get(gpu.open, found.modules) == found.modules
    assert ("nvidia" in found.values(Kind.ARCHIVE)) == (settings["nvidia_source"] == "nvidia")


def check_fabric(machine: Machine, found: Stack) -> None:
    pins = dict(pin.split("=") for pin in found.values(Kind.PIN))
    manager = [name for name in found.packages if name.startswith("nvidia-fabricmanager")]
    assert bool(manager) == bool(machine.fabrics)
    for name in manager:
        driver = [other for other in found.packages if is_driver(other) and other in pins]
        assert pins[name] == found.version
        assert {pins[other] for other in driver} == {found.version}
        assert len(driver) > len(manager), "the driver itself is held too"


def test_pci_ids_are_read_with_their_code_names() -> None:
    text = (
        "10dd  Other\n\t0001  X\n10de  NVIDIA Corporation\n\t0020  NV4 [Riva TNT]\n\t1eb8  TU104GL [Tesla T4]\n"
        "\t\t10de 12a2  Tesla T4\n# a comment\n\t2330  GH100[H100 SXM5 80GB]\n\t00d1  nForce3 Host Bridge\n"
        "10df  Emulex\n\t1eb8  Wrong\n"
    )
    found = parse_pci_ids(text)
    assert found.of("1eb8") == ("TU104GL", "Tesla T4")
    assert found.of("2330") == ("GH100", "H100 SXM5 80GB")
    assert found.of("00d1") is None
    assert found.of("2901") == ("GB100", "B200"), "rules.yaml knows what an old pci.ids does not"


def test_this_machines_pci_ids_agree_with_the_table() -> None:
    real = names()
    for device, known in KNOWN.known.items():
        assert real.of(device) == known


@pytest.mark.parametrize(
    ("version", "count", "wanted", "wrong"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Tue", 8, {"count": 8, "branch": 580}, []),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Tue", 4, {"count": 8, "branch": 580}, ["gpus"]),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.1.03", 1, {"count": 1, "branch": 580},
         ["gpu driver"]),
        (None, 0, {"count": 1, "branch": 580}, ["gpu driver"]),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Tue", 8,
         {"count": 8, "branch": 580, "fabric": True}, ["fabric manager"]),
        (None, 0, {}, []),
    ],
)  # fmt: skip
def test_the_first_report_tells_what_is_wrong_with_gpus(
    tmp_path: Path, version: str | None, count: int, wanted: dict[str, Any], wrong: list[str]
) -> None:
    if version:
        (tmp_path / "driver/nvidia").mkdir(parents=True)
        (tmp_path / "driver/nvidia/version").write_text(version)
    for number in range(count):
        (tmp_path / f"driver/nvidia/gpus/0000:{number:02x}:00.0").mkdir(parents=True)
    (tmp_path / "77").mkdir()
    (tmp_path / "77/comm").write_text("sshd\n")
    assert [found["name"] for found in gpu_checks(wanted, tmp_path) if not found["ok"]] == wrong


def test_the_first_report_sees_fabric_manager(tmp_path: Path) -> None:
    (tmp_path / "driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
    (tmp_path / "driver/nvidia/version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Tue")
    (tmp_path / "77").mkdir()
    (tmp_path / "77/comm").write_text("nv-fabricmanager\n")
    found = gpu_checks({"count": 1, "branch": 580, "fabric": True}, tmp_path)
    assert all(one["ok"] for one in found)
    assert len(found) == 3
