"""From what the agent reported to what a node is given: images, plans, overlays, and what is refused."""

import json
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError
from headnode.model import Node
from headnode.workflows import gpu, publishing
from headnode.workflows.context import Context
from images.recipes import image_recipe
from tests.support import headnode

T4 = {"vendor": "10de", "device": "1eb8", "address": "0000:01:00.0", "bars_assigned": True}
V100 = {"vendor": "10de", "device": "1db4", "address": "0000:02:00.0", "bars_assigned": False}
BMC_DISPLAY = {"vendor": "1a03", "device": "2000", "address": "0000:03:00.0", "bars_assigned": True}


@pytest.fixture
def node(root: Path, context: Context) -> Node:
    assert headnode(root, "enroll", "gpu01", "--mac", "52:54:00:aa:00:01", "--profile", "gpu", "--yes").code == 0
    return context.inventory.nodes(["gpu01"])[0]


def has(context: Context, node: Node, *gpus: dict[str, object]) -> None:
    with context.inventory.change("tester", "a test") as change:
        change.remember_hardware(node, {"gpus": list(gpus), "disks": []})


def test_the_plan_is_printed_with_reasons(root: Path, context: Context, node: Node) -> None:
    told = headnode(root, "gpu", "plan", "gpu01")
    assert told.code == 0
    assert "gpu01 was never inspected" in told.err
    has(context, node, T4, BMC_DISPLAY)
    told = headnode(root, "gpu", "plan", "gpu01")
    assert "gpu01: driver 535, proprietary modules, from Debian's archive for 12, for 1 x Tesla T4" in told.err
    assert "nvidia-kernel-dkms" in told.out
    rows = json.loads(headnode(root, "gpu", "plan", "gpu01", "-o", "json").out)
    assert all(row["reason"] for row in rows)
    assert any(url.startswith("https://docs.nvidia.com/") for row in rows for url in row["sources"])


def test_rules_are_printed(root: Path) -> None:
    told = headnode(root, "gpu", "rules")
    assert told.code == 0
    assert "blackwell (GB1, GB2)" in told.out
    assert "open only" in told.out
    assert "debian 12, distro" in told.out


def test_a_contradiction_is_refused_with_nothing_changed(root: Path, context: Context, node: Node) -> None:
    has(context, node, V100)
    assert headnode(root, "set", "gpu01", "nvidia_modules=open", "--yes").code == 0
    for command in (("gpu", "plan", "gpu01"), ("deploy", "gpu01", "--yes")):
        told = headnode(root, *command)
        assert told.code == 2
        assert "has no open modules" in told.err
    assert context.inventory.nodes(["gpu01"])[0].intent == "disk"


def test_an_image_is_for_all_nodes_of_its_profile(root: Path, context: Context, node: Node) -> None:
    from headnode.workflows import images

    settings = images.profile_settings(context, "gpu")
    assert not gpu.stack_of_profile(context, "gpu", settings).wanted
    has(context, node, T4)
    assert headnode(root, "enroll", "gpu02", "--mac", "52:54:00:aa:00:02", "--profile", "gpu", "--yes").code == 0
    has(context, context.inventory.nodes(["gpu02"])[0], V100)
    stack = gpu.stack_of_profile(context, "gpu", settings)
    assert stack.summary.endswith("for 1 x Tesla V100 PCIe 16GB, 1 x Tesla T4")
    recipe = image_recipe(settings, kernel="cloud", stack=stack)
    assert {"nvidia-kernel-dkms", "linux-headers-cloud-amd64"} <= set(recipe.packages)
    assert "linux-headers-amd64" not in recipe.packages
    assert recipe.components == ("contrib", "non-free", "non-free-firmware")


def test_an_image_without_the_driver_is_refused_for_a_node_that_needs_it(context: Context, node: Node) -> None:
    has(context, node, T4)
    stack = gpu.stack_of(context, node)
    with pytest.raises(HeadnodeError, match=r"image gpu@1 lacks what this node's GPUs need: .*nvidia-kernel-dkms"):
        gpu.refuse_unfit_image(stack, "gpu@1", ["bash"])
    gpu.refuse_unfit_image(stack, "gpu@1", [*stack.packages])


def test_the_overlay_and_the_kernel_line_are_the_solvers(root: Path, context: Context, node: Node) -> None:
    has(context, node, V100, V100)
    assert gpu.settings_of(context, node)["kernel_args"] == ("modprobe.blacklist=nouveau", "pci=realloc", "iommu=pt")
    files = publishing.render_overlay(context, node)
    assert b"pci=realloc" in files["/etc/default/grub.d/headnode.cfg"].content
    assert b"blacklist nouveau" in files["/etc/modprobe.d/headnode-gpu.conf"].content


def test_a_key_that_is_not_there_is_named(root: Path, context: Context, node: Node) -> None:
    text = (root / "etc/headnode/site.yaml").read_text()
    archives = "packages:\n  archives:\n    nvidia: {uri: http://10.20.0.1/nvidia, key: /nowhere/nvidia.asc}\n"
    (root / "etc/headnode/site.yaml").write_text(text + archives)
    fresh = Context(context.paths, "tester", "a test")
    with pytest.raises(HeadnodeError, match=r"packages.archives.nvidia.key is '/nowhere/nvidia.asc'"):
        gpu.archive_sources(fresh, ["nvidia"])
    fresh.close()


def test_a_gpu_that_nobody_knows_matters_only_where_a_driver_is_wanted(
    root: Path, context: Context, node: Node
) -> None:
    has(context, node, {**T4, "device": "ffff"})
    told = headnode(root, "gpu", "plan", "gpu01")
    assert told.code == 2
    assert "10de:ffff at 0000:01:00.0 is of no known architecture" in told.err
    assert headnode(root, "set", "gpu01", "nvidia_branch=none", "--yes").code == 0
    assert headnode(root, "gpu", "plan", "gpu01").code == 0


def test_a_contradiction_does_not_keep_a_node_from_being_inspected(root: Path, context: Context, node: Node) -> None:
    """The inventory may be what is wrong."""
    has(context, node, V100)
    assert headnode(root, "set", "gpu01", "nvidia_modules=open", "--yes").code == 0
    told = headnode(root, "inspect", "gpu01", "--no-power", "--yes")
    assert "there is no ramdisk" in told.err, told.err
