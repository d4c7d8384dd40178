"""The agent finds the node's own BMC from inside. Slow: the small kernel of labs has no driver for one, so a ramdisk
with the kernel for real servers is built and loaded first."""

import os
from pathlib import Path

import pytest

from headnode.lab import link
from headnode.lab.machine import Firmware
from headnode.lab.spec import Spec
from headnode.lab.world import world
from headnode.model import State
from headnode.run import run
from tests.e2e.cluster import Cluster, cluster_marks
from tests.support import HEADNODE

pytestmark = [*cluster_marks, pytest.mark.slow]


def test_a_node_reports_the_address_of_its_bmc() -> None:
    name = f"i{os.getpid():x}"
    try:
        with world(Spec(name, (Firmware.BIOS,), memory_mib=3072, images=False)) as made:
            root = Path(made.places.head.root)
            # From outside: the lab reaches no archive.
            run([*HEADNODE, "--root", root, "image", "ramdisk"], timeout=900)
            cluster = Cluster(made)
            cluster.enroll("gpu01")
            cluster.headnode("inspect", "gpu01", "--yes")
            cluster.until("gpu01", State.READY)
            facts = cluster.context.inventory.hardware(cluster.node("gpu01")) or {}
            assert facts["bmc"]["address"] == made.spec.nodes[0].bmc
            cluster.context.close()
    finally:
        link.down(name)
