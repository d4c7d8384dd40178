"""One clock and one home: what nodes that were installed share, on emulated machines with real servers and clients."""

import json
import re

from headnode.homes import home_directory, make_home
from tests.e2e.cluster import INSTALLED, Cluster, cluster_marks

pytestmark = cluster_marks
ALICE = 20_777
AS_ALICE = ("setpriv", f"--reuid={ALICE}", f"--regid={ALICE}", "--clear-groups", "--")


def test_a_node_whose_clock_is_wrong_is_synchronised_before_it_is_up(cluster: Cluster) -> None:
    """gpu02's hardware clock is minutes off whenever it is switched on: see tests/e2e/cluster.py."""
    cluster.installed("gpu02")
    steps = re.findall(r"stepped by (-?[0-9.]+) seconds", cluster.ssh("gpu02", "journalctl -b -u chrony -o cat"))
    assert max(abs(float(step)) for step in steps) > 90, "its clock was right, so nothing was shown"
    (verified,) = [event for event in cluster.events("gpu02", "verify") if "it is up" in event.message][-1:]
    (clock,) = [check for check in verified.data["checks"] if check["name"] == "clock"]
    assert clock["ok"] is True
    assert abs(clock["offset_ms"]) <= cluster.context.site.time.max_offset_ms
    assert clock["stratum"] == 9


def test_headnode_time_asks_the_nodes(cluster: Cluster) -> None:
    for name in INSTALLED:
        cluster.installed(name)
    rows = {row["name"]: row for row in json.loads(cluster.headnode("time", "gpu[01-02]", "-o", "json"))}
    assert {name: rows[name]["source"] for name in INSTALLED} == dict.fromkeys(INSTALLED, "asked now")
    assert {rows[name]["stratum"] for name in INSTALLED} == {9}
    assert all(abs(rows[name]["offset_ms"]) < 100 for name in INSTALLED)


def test_home_is_one_and_root_of_a_node_is_nobody_there(cluster: Cluster) -> None:
    for name in INSTALLED:
        cluster.installed(name)
    home = home_directory(cluster.context.site, cluster.context.paths, "alice77")
    assert home is not None
    make_home(home, ALICE, ALICE)
    (home.parent / "open").mkdir(exist_ok=True)
    (home.parent / "open").chmod(0o777)
    mounted = cluster.ssh("gpu01", "findmnt -no FSTYPE,OPTIONS /home").split()
    assert mounted[0] == "nfs4"
    assert "vers=4.2" in mounted[1].split(",")
    # What alice writes on one node is hers on the other.
    cluster.ssh("gpu01", *AS_ALICE, "sh", "-c", "'echo hers > /home/alice77/note'")
    assert cluster.ssh("gpu02", "stat", "-c", "%u:%g", "/home/alice77").strip() == f"{ALICE}:{ALICE}"
    assert cluster.ssh("gpu02", *AS_ALICE, "cat", "/home/alice77/note") == "hers\n"
    assert cluster.ssh("gpu02", *AS_ALICE, "stat", "-c", "%u:%g", "/home/alice77/note").strip() == f"{ALICE}:{ALICE}"
    # Root of a node neither reads it, nor writes there, nor makes anything look as if it were hers.
    for attempt in ("cat /home/alice77/note", "touch /home/alice77/forged", "chmod 777 /home/alice77"):
        assert cluster.try_ssh("gpu02", attempt).returncode != 0, attempt
    cluster.ssh("gpu02", "touch", "/home/open/forged")
    assert cluster.try_ssh("gpu02", f"chown {ALICE} /home/open/forged").returncode != 0
    assert (home.parent / "open/forged").stat().st_uid == 65_534
