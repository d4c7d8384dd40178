"""Who is told of what was published, and that nothing is forgotten on the way."""

import os
import signal
import threading
from pathlib import Path

import pytest

from headnode import control
from headnode.paths import Paths
from headnode.reconcile import reloading
from headnode.reconcile.recording import begin_anew
from headnode.reconcile.reloading import Control, Reloader
from headnode.site import Site
from pxe import dnsmasq


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    heard: list[tuple[str, str]] = []
    monkeypatch.setattr(reloading, "send", lambda pid, program, number: heard.append((pid.name, number.name)))
    monkeypatch.setattr(dnsmasq, "release", lambda net, gone: None)
    return heard


@pytest.fixture
def reloader(root: Path, site: Site) -> Reloader:
    paths = Paths(root)
    for name in ("provision", "names"):
        (paths.published / "dnsmasq").mkdir(parents=True, exist_ok=True)
        (paths.published / f"dnsmasq/{name}.conf").touch()
        (paths.runtime / "dnsmasq").mkdir(parents=True, exist_ok=True)
        (paths.runtime / f"dnsmasq/{name}.pid").touch()
    return Reloader(paths, site, pause=0.01)


def test_a_nodes_entries_are_read_again(reloader: Reloader, sent: list[tuple[str, str]]) -> None:
    reloader.reload({"dnsmasq/provision.d/gpu01", "http/boot/10.20.1.1.ipxe"})
    assert sent == [("provision.pid", "SIGHUP"), ("names.pid", "SIGHUP")]


def test_a_boot_script_needs_nobody(reloader: Reloader, sent: list[tuple[str, str]]) -> None:
    reloader.reload({"http/boot/10.20.1.1.ipxe"})
    assert sent == []


def test_a_newer_configuration_is_a_restart_whoever_was_told(reloader: Reloader, sent: list[tuple[str, str]]) -> None:
    pid = reloader.paths.runtime / "dnsmasq/provision.pid"
    os.utime(pid, (1, 1))
    reloader.reload({"everything"})
    assert sent == [("provision.pid", "SIGTERM"), ("names.pid", "SIGHUP"), ("nginx.pid", "SIGHUP")]


def test_a_failed_reload_is_tried_again(reloader: Reloader, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(places: Paths) -> dict[str, set[str]]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dnsmasq, "assemble", full)
    reloader.request({"dnsmasq/names.d/gpu01"})
    with pytest.raises(OSError, match="No space"):
        reloader.run(threading.Event())
    assert reloader.touched == {"dnsmasq/names.d/gpu01"}


def test_the_signal_goes_only_to_the_program_that_is_meant(tmp_path: Path) -> None:
    (tmp_path / "x.pid").write_text(str(os.getpid()))
    assert not reloading.send(tmp_path / "x.pid", "dnsmasq", signal.SIGKILL, patience=0)
    assert not reloading.send(tmp_path / "none.pid", "dnsmasq", signal.SIGKILL, patience=0)


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"nonsense", b"\xff", b'{"touched": 7}', b"[" * 100_000])
def test_any_question_has_an_answer(root: Path, reloader: Reloader, line: bytes) -> None:
    made = Control(Paths(root), reloader)
    answer = made.answer(line)
    made.socket.close()
    assert "ok" in answer or "error" in answer


def test_long_lists_are_shortened_and_configurations_named() -> None:
    touched = [f"dnsmasq/provision.d/n{number}" for number in range(5000)] + ["dnsmasq/provision.conf"]
    assert control.shortened(touched) == ["dnsmasq/provision.conf", "dnsmasq/provision.d/*"]


def test_a_log_begins_anew_with_its_owner_and_mode(tmp_path: Path) -> None:
    log = tmp_path / "dnsmasq.log"
    log.write_text("old")
    log.chmod(0o640)
    begin_anew(log)
    assert log.read_text() == ""
    assert log.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "dnsmasq.log.1").read_text() == "old"


def test_what_is_gone_is_told(root: Path) -> None:
    paths = Paths(root)
    hosts = paths.published / dnsmasq.PROVISION_HOSTS
    hosts.mkdir(parents=True)
    (hosts / "gpu01").write_text("# header\n52:54:00:aa:00:01,10.20.1.1,gpu01\n")
    assert dnsmasq.assemble(paths)["provision"] == set()
    (hosts / "gpu01").write_text("52:54:00:aa:00:02,10.20.1.1,gpu01\n")
    assert dnsmasq.assemble(paths)["provision"] == {"52:54:00:aa:00:01,10.20.1.1,gpu01"}


def test_nothing_runs_where_no_socket_can_be(tmp_path: Path) -> None:
    """A path may be longer than the name of a socket."""
    assert not control.running(Paths(tmp_path / ("deep" * 40)))
