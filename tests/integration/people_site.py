"""A head node that runs its directory, and machines beside it that know people through sssd, without emulation.

A machine here is a network and a mount namespace of this one: the very files of a node's overlay, real sssd, real sshd
and Debian's own PAM configuration, with places of its own for everything they write.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from unittest import mock

from headnode.directory.server import listening
from headnode.effective import effective
from headnode.lab.lab import Lab
from headnode.lab.net import Namespace, Switch
from headnode.lab.process import Process, wait_for
from headnode.paths import Paths
from headnode.run import Completed, run
from headnode.workflows import enroll, hostkeys, publishing, sheet
from headnode.workflows.context import Context
from images.overlay import Files, Secrets, overlay
from tests.support import Result, headnode

HEAD, NODE = "10.20.0.1", "10.20.1.1"
BASE = "dc=demo,dc=lan"
SITE = f"""\
cluster: demo
domain: demo.lan
networks:
  provision: {{cidr: 10.20.0.0/16, interface: eth0, head: {HEAD}, node_range: {NODE}-10.20.1.250}}
storage: {{home: "head:/srv/home"}}
access: {{sudo_group: admin, admin_user: rescue, admin_keys: ["ROOT-KEY"]}}
profiles:
  open: {{layout: one}}
  closed: {{layout: one, access: [admin]}}
layouts:
  one:
    disks: {{system: {{min_size: 2G}}}}
    volumes: [{{name: root, on: system, size: rest, mount: /}}]
"""


@dataclass
class PeopleSite:
    lab: Lab
    root: Path
    head: Namespace
    wire: Switch
    # Whose holder may be root on nodes.
    root_key: Path
    slapd: Process | None = None

    @property
    def paths(self) -> Paths:
        return Paths(self.root)

    @cached_property
    def context(self) -> Context:
        return Context(self.paths, actor="test", cause="test")

    def start(self) -> None:
        argv = [sys.executable, "-m", "headnode", "--root", str(self.root), "service", "run", "slapd"]
        self.slapd = self.lab.start(self.head, "slapd", argv)
        self.slapd.wait_until(lambda: listening(self.paths), 30, "listen")

    def stop(self) -> None:
        assert self.slapd is not None
        self.slapd.stop()

    def cli(self, *words: str, stdin: bytes = b"") -> Result:
        return headnode(self.root, *words, stdin=stdin)

    def ok(self, *words: str, stdin: bytes = b"") -> Result:
        done = self.cli(*words, stdin=stdin)
        assert done.code == 0, done.err
        return done

    def ldap(
        self, program: str, *words: str, tls: bool = True, who: str = "", password: str | None = None
    ) -> Completed:
        """One of OpenLDAP's own clients, from the head node's network, trusting Headnode's CA and nobody else."""
        secure = ["-ZZ"] if tls else []
        bind = ["-D", who, "-w", password] if password is not None else []
        argv = ["env", f"LDAPTLS_CACERT={self.paths.ca / 'ca.crt'}", program, "-x", *secure, "-H", f"ldap://{HEAD}"]
        return self.head.run([*argv, *bind, *words], check=False)


@contextmanager
def people_site(lab: Lab, root: Path, site: str = SITE) -> Iterator[PeopleSite]:
    head = lab.host("head")
    wire = lab.switch("provision")
    wire.attach(head, "eth0", address=f"{HEAD}/16")
    words = [
        "--cluster",
        "demo",
        "--domain",
        "demo.lan",
        "--provision-interface",
        "eth0",
        "--management-interface",
        "-",
    ]
    head.run([sys.executable, "-m", "headnode", "--root", str(root), "init", "--yes", *words])
    made = PeopleSite(lab, root, head, wire, key_pair(root, "admin"))
    public = Path(f"{made.root_key}.pub").read_text().strip()
    made.paths.site_file.write_text(site.replace("ROOT-KEY", public))
    made.start()
    yield made
    made.context.close()


@dataclass
class Machine:
    """A machine with sssd and sshd, as its overlay configures them."""

    site: PeopleSite
    network: Namespace
    place: Path
    files: Files
    anchor: int = 0
    processes: list[Process] = field(default_factory=list)

    def inside(self, argv: Sequence[str | Path]) -> list[str | Path]:
        return ["nsenter", f"--target={self.anchor}", "--mount", "--net", "--", *argv]

    def run(self, *argv: str) -> Completed:
        return run(self.inside(argv), check=False, timeout=60)

    def getent(self, database: str, key: str) -> str:
        return self.run("getent", database, key).stdout.strip()

    def ssh(self, user: str, *, key: Path | None = None, password: str | None = None) -> Completed:
        return login(self.site.head, self.place, f"{user}@{NODE}", key=key, password=password)


def login(
    source: Namespace,
    place: Path,
    target: str,
    *,
    key: Path | None = None,
    password: str | None = None,
    command: str = "id",
) -> Completed:
    """A login over the network with nothing but the key or the password given."""
    options = ["UserKnownHostsFile=/dev/null", "StrictHostKeyChecking=no", "LogLevel=ERROR", "ConnectTimeout=30"]
    options += ["PreferredAuthentications=publickey", "IdentitiesOnly=yes"] if key else []
    options += ["PreferredAuthentications=password", "NumberOfPasswordPrompts=1"] if password is not None else []
    flags = [word for option in options for word in ("-o", option)] + (["-i", str(key)] if key else [])
    # The only way to give ssh a password without a terminal: a program that it asks.
    asked = place / "askpass"
    asked.write_text(f"#!/bin/sh\ncat {place}/answer\n")
    asked.chmod(0o700)
    (place / "answer").write_text(f"{password}\n")
    argv = ["env", f"SSH_ASKPASS={asked}", "SSH_ASKPASS_REQUIRE=force", "ssh", *flags, target, command]
    return source.run(argv, check=False, timeout=180)


@contextmanager
def machine(site: PeopleSite, place: Path, profile: str = "open") -> Iterator[Machine]:
    network = site.lab.host("node")
    site.wire.attach(network, "eth0", address=f"{NODE}/16")
    found = Machine(site, network, place, overlay_files(site, profile))
    prepare(found)
    log = (place / "anchor.log").open("wb")
    # The last thing made, where nothing was before: this machine may have a /run/sshd of its own.
    ready = ["mkdir -p /run/sshd", "touch /run/all-bound", "exec sleep infinity"]
    script = " && ".join(["mount --make-rprivate /", *binds(place), *ready])
    argv = [str(word) for word in network.argv(["unshare", "--mount", "sh", "-c", script])]
    anchor = subprocess.Popen(argv, stdout=log, stderr=log)
    found.anchor = anchor.pid
    try:
        assert wait_for(lambda: found.run("test", "-e", "/run/all-bound").returncode == 0, 90)
        found.processes.append(
            site.lab.start(network, "sssd", found.inside(["sssd", "-i", "--logger=stderr", "-d", "0x0070"]))
        )
        assert wait_for(lambda: found.run("test", "-S", "/var/lib/sss/pipes/nss").returncode == 0, 90)
        argv2 = found.inside(["/usr/sbin/sshd", "-D", "-e"])
        found.processes.append(site.lab.start(network, "sshd", argv2))
        found.processes[-1].wait_listening("tcp", 22, 60)
        yield found
    finally:
        for process in found.processes:
            process.stop()
        anchor.kill()
        anchor.wait()
        log.close()


def overlay_files(site: PeopleSite, profile: str) -> Files:
    """Of a node that the head node knows, with its certified host keys."""
    context = site.context
    rows = sheet.expand({"name": "gpu01", "profile": profile, "mac": "52:54:00:aa:00:01", "address": NODE}, "test")
    assert enroll.enroll(context, rows).problems == []
    authority = hostkeys.authority_line(context, make=True)
    publishing.publish_changes(context)
    node = context.inventory.node("gpu01")
    assert node is not None
    secrets = Secrets(hostkeys.certified_keys(context, node), (site.paths.ca / "ca.crt").read_text(), authority)
    settings = {key: value.value for key, value in effective(context.site, node).items()}
    return overlay(context.site, node, settings, secrets)


# Directories of its own, by where they are on this machine; what the overlay has for them is in them.
BOUND = {
    "sssd": "/etc/sssd",
    "ssh": "/etc/ssh",
    "root": "/root",
    "ca": "/usr/local/share/ca-certificates",
    "state": "/var/lib/sss",
    "log": "/var/log/sssd",
    "home": "/home",
}
SSHD = "Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\nKbdInteractiveAuthentication no\nPrintMotd no\n"


def binds(place: Path) -> list[str]:
    made = [f"mount --bind {place}/{name} {target}" for name, target in BOUND.items()]
    made += [f"mount --bind {place}/{name} /etc/{name}" for name in ("hosts", "passwd")]
    return [*made, "mount -t tmpfs none /run"]


def prepare(found: Machine) -> None:
    place = found.place
    run(["cp", "-a", "/var/lib/sss", place / "state"])
    for leftover in (place / "state/db").glob("*"):
        leftover.unlink()
    for name, target in BOUND.items():
        (place / name).mkdir(exist_ok=True, mode=0o755)
        for path, file in found.files.items():
            if path.startswith(f"{target}/"):
                write(place / name / path.removeprefix(f"{target}/"), file.content, file.mode)
    # As Debian's own sshd_config is.
    (place / "ssh/sshd_config").write_text(SSHD)
    (place / "hosts").write_text(f"127.0.0.1 localhost\n{HEAD} head.demo.lan head\n")
    lines = Path("/etc/passwd").read_text().splitlines()
    system = [line for line in lines if int(line.split(":")[2]) < 1000 or line.startswith("nobody:")]
    (place / "passwd").write_text("\n".join(system) + "\n")


def write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


@contextmanager
def agent_with(key: Path) -> Iterator[None]:
    """A key in the hands of whoever asks from here, as an administrator's agent has it."""
    started = run(["ssh-agent", "-s"]).stdout
    words = dict(word.split("=", 1) for word in started.replace(";", "").split() if "=" in word)
    with mock.patch.dict(os.environ, {"SSH_AUTH_SOCK": words["SSH_AUTH_SOCK"]}):
        try:
            run(["ssh-add", "-q", key])
            yield
        finally:
            os.kill(int(words["SSH_AGENT_PID"]), signal.SIGTERM)


def add_one(root: str, name: str) -> None:
    """In a process of its own, whose exit code is the command's."""
    sys.exit(headnode(Path(root), "user", "add", name, "--groups", "vision").code)


def key_pair(place: Path, name: str) -> Path:
    path = place / name
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@laptop", "-f", path])
    return path
