"""Planner and agent agree: what one writes, the other understands, from the same facts."""

from typing import Any

import pytest

from headnode.site import Site
from images.agent import disks
from images.agent.plan import parse_plan
from images.owner import Owner
from images.plan import Image, deploy_plan
from tests.images.agent.recordings import recorded

IMAGE = Image("gpu@3", "/images/gpu@3/image.tar.zst", "a" * 64, 300_000_000, 900_000_000)


def facts(*names: str, firmware: str = "uefi") -> dict[str, Any]:
    found = disks.parse_lsblk(recorded("lsblk-nvme.json"), {})
    return {"firmware": firmware, "disks": [{**disk, "holds": []} for disk in found if disk["name"] in names]}


@pytest.mark.parametrize("firmware", ["bios", "uefi"])
def test_the_agent_understands_the_planners_plan(site: Site, firmware: str) -> None:
    given = facts("nvme0n1", firmware=firmware)
    settings = {"architecture": "x86_64", "os": "debian", "console": "ttyS0,115200"}
    document = deploy_plan(
        "single-disk", site.layouts["single-disk"], given, Owner("demo", "gpu01"), image=IMAGE, settings=settings,
        deployment=1,
    )  # fmt: skip
    plan = parse_plan(document)
    assert [disk.serial for disk in plan.disks] == ["S64HNE0T500001"]
    assert plan.steps[0].do == "check-disks"
    assert {"run", "image", "overlay", "chroot"} <= {step.do for step in plan.steps}
    disks.check(plan.disks, given["disks"])
