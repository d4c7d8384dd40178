"""The agent as installers run it: one file, a real node API, and a new system that it ends."""

import re
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from headnode.model import Intent, State
from headnode.workflows.context import Context
from images.installer import agent_file
from tests.headnode.test_installing import address_of, begun, head

__all__ = ["head"]
pytestmark = [pytest.mark.integration, pytest.mark.root, pytest.mark.program("busybox", "unshare")]
# Stands for programs of the new system: says that it was called, and with what.
NOTES = '#!/bin/sh\necho "$(basename "$0") $*" >> /calls\n'


@contextmanager
def serving(application: Any, address: str) -> Iterator[str]:
    """The node API over HTTP, for a node that nginx would have seen at this address."""

    def behind_nginx(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        return application(environ | {"HTTP_X_REAL_IP": address}, start)  # type: ignore[no-any-return]

    server = make_server("127.0.0.1", 0, behind_nginx, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def new_system(root: Path, *, broken: bool = False) -> Path:
    for name in ("bin", "etc/netplan", "etc/cloud", "dev", "proc", "sys", "run", "root"):
        (root / name).mkdir(parents=True)
    libraries = re.findall(
        r"(/\S+) \(0x", subprocess.run(["ldd", "/bin/busybox"], capture_output=True, text=True).stdout
    )
    for file in ("/bin/busybox", *libraries):
        (root / file.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / file.lstrip("/"))
    for name in ("sh", "basename", "echo"):
        (root / "bin" / name).symlink_to("busybox")
    for name in ("update-initramfs", "update-grub"):
        path = root / "bin" / name
        path.write_text("#!/bin/sh\necho 'no space left' >&2\nexit 1\n" if broken and name == "update-grub" else NOTES)
        path.chmod(0o755)
    (root / "etc/netplan/00-installer-config.yaml").write_text("network: {version: 2}\n")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    return root


def run_agent(head: Context, tmp_path: Path, *args: str | Path) -> subprocess.CompletedProcess[str]:
    client, _, session = begun(head, "ubuntu")
    with serving(client.application, address_of(client)) as url:
        path = tmp_path / "agent.pyz"
        path.write_bytes(agent_file(url, session))
        argv = ["unshare", "--mount", sys.executable, "-I", path, *args]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert session not in " ".join(map(str, argv)), "no secret is an argument"
    return done


def test_finish_makes_the_new_system_this_node(head: Context, tmp_path: Path) -> None:
    target = new_system(tmp_path / "target")
    done = run_agent(head, tmp_path, "finish", target)
    assert done.returncode == 0, done.stderr
    assert (target / "etc/hostname").read_text() == "gpu01\n"
    assert stat.S_IMODE((target / "etc/headnode/report.json").stat().st_mode) == 0o600
    assert [path.name for path in (target / "etc/netplan").iterdir()] == ["60-headnode.yaml"]
    assert (target / "etc/cloud/cloud-init.disabled").exists()
    assert (target / "calls").read_text().splitlines() == ["update-initramfs -u -k all", "update-grub "]
    node = head.inventory.nodes(["gpu01"])[0]
    assert (node.state, node.intent) == (State.VERIFYING, Intent.DISK)
    assert "writing this node's own files" in [event.message for event in head.inventory.events(node="gpu01")]


def test_a_new_system_that_cannot_be_ended_is_a_failure_with_its_reason(head: Context, tmp_path: Path) -> None:
    done = run_agent(head, tmp_path, "finish", new_system(tmp_path / "target", broken=True))
    assert done.returncode == 1
    node = head.inventory.nodes(["gpu01"])[0]
    assert node.state is State.FAILED
    assert "no space left" in str(node.reason)


def test_the_installers_own_logs_are_sent_when_it_fails(head: Context, tmp_path: Path) -> None:
    logs = tmp_path / "installer"
    logs.mkdir()
    (logs / "curtin-install.log").write_text("fine\nE: Unable to locate package gone\nmore\n")
    done = run_agent(head, tmp_path, "failed", logs)
    assert done.returncode == 0, done.stderr
    assert head.inventory.nodes(["gpu01"])[0].reason == "E: Unable to locate package gone"
    (kept,) = (head.paths.logs / "deployments").iterdir()
    assert "Unable to locate package gone" in kept.read_text()


def test_anything_else_is_refused(head: Context, tmp_path: Path) -> None:
    assert run_agent(head, tmp_path, "explode").returncode == 1
