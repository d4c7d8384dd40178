"""A person on an emulated node that we installed: known, let in by key and password, locked out, and let in offline."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headnode.lab.process import wait_for
from headnode.run import Completed
from headnode.services import pid_in
from tests.e2e.cluster import Cluster, cluster_marks
from tests.integration.people_site import agent_with, key_pair, login

pytestmark = cluster_marks
PASSWORD = "correct horse battery"
NODE = "gpu01"


def test_a_person_logs_in_everywhere_and_is_locked_out_everywhere(cluster: Cluster, tmp_path: Path) -> None:
    cluster.installed(NODE)
    key = key_pair(tmp_path, "alice")
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    words = ["--name", "Alice Doe", "--ssh-key", f"{key}.pub", "--groups", "admin"]
    cluster.headnode("user", "add", "alice", *words, "--password-file", str(tmp_path / "password"))
    uid = cluster.headnode("user", "list", "-o", "csv").split("alice,")[1].split(",")[0]
    # Known by name, with the directory's number.
    assert cluster.ssh(NODE, "getent", "passwd", "alice") == f"alice:*:{uid}:{uid}:Alice Doe:/home/alice:/bin/bash\n"
    assert f"uid={uid}(alice) gid={uid}(alice)" in come_in(cluster, tmp_path, key=key).stdout
    # Her home is there, and hers.
    assert cluster.ssh(NODE, "stat", "-c", "%u", "/home/alice") == f"{uid}\n"
    assert f"uid={uid}(alice)" in come_in(cluster, tmp_path, password=PASSWORD).stdout
    assert come_in(cluster, tmp_path, password="wrong horse battery").returncode != 0
    cluster.headnode("user", "lock", "alice")
    assert come_in(cluster, tmp_path, key=key).returncode != 0
    assert come_in(cluster, tmp_path, password=PASSWORD).returncode != 0
    cluster.headnode("user", "unlock", "alice")
    assert come_in(cluster, tmp_path, password=PASSWORD).returncode == 0
    with without_slapd(cluster):
        assert f"uid={uid}(alice)" in come_in(cluster, tmp_path, password=PASSWORD).stdout
        assert f"uid={uid}(alice)" in come_in(cluster, tmp_path, key=key).stdout
        assert come_in(cluster, tmp_path, password="wrong horse battery").returncode != 0


def test_no_account_of_a_node_means_something_else(cluster: Cluster) -> None:
    """What the node itself has shown before it was up, and what it answers when it is asked."""
    cluster.installed(NODE)
    checks = [check for event in cluster.events(NODE, "verify") for check in event.data["checks"]]
    assert {"group admin", "local accounts"} <= {check["name"] for check in checks if check["ok"] is True}
    local = cluster.ssh(NODE, "awk", "-F:", "'$3 >= 1000 && $3 != 65534 {print $1}'", "/etc/passwd")
    assert local == ""
    with agent_with(cluster.world.places.ssh_key):
        assert local_findings(cluster) == []
        cluster.ssh(NODE, "useradd", "--uid", "1001", "--no-create-home", "impostor")
        try:
            (found,) = local_findings(cluster)
            assert "impostor has UID 1001" in found
        finally:
            cluster.ssh(NODE, "userdel", "impostor")


def local_findings(cluster: Cluster) -> list[str]:
    """What an audit says of the node's own accounts; whose files are on shared file systems depends on other tests."""
    done = cluster.world.headnode("user", "audit", NODE, "-o", "json", check=False)
    assert "could not be asked" not in done.stderr, done.stderr
    found = [item["finding"] for item in json.loads(done.stdout) if item["where"] == NODE]
    return [finding for finding in found if "local" in finding]


def come_in(cluster: Cluster, place: Path, *, key: Path | None = None, password: str | None = None) -> Completed:
    return login(cluster.world.head, place, f"alice@{cluster.node(NODE).address}", key=key, password=password)


@contextmanager
def without_slapd(cluster: Cluster) -> Iterator[None]:
    """Really gone: whoever would start it again is held still meanwhile."""
    pid_file = cluster.world.places.head.runtime / "slapd/slapd.pid"
    pid = pid_in(pid_file)
    assert pid is not None
    supervisor = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert supervisor > 1
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    try:
        yield
    finally:
        os.kill(supervisor, signal.SIGCONT)
    assert wait_for(lambda: pid_in(pid_file) not in (None, pid), 60)
