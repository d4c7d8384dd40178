"""The agent inside a distribution's own installer: it ends what the installer began, and tells the head node.

It comes as one file (images/installer.py makes it) with its settings inside, and runs in Ubuntu's live system, or in
the new Debian itself. `finish TARGET` writes the node's own files and says that it is done; `failed PLACE` sends logs.
"""

import json
import pkgutil
import sys
from pathlib import Path
from typing import Any

from . import overlay
from .errors import AgentError, StepFailed
from .execute import system_mounts
from .head import Head
from .runner import Log, must, sync

# Of each of the installer's own logs, the end says what went wrong.
MOST_LOG = 200_000
LOGS = ("curtin-install.log", "subiquity-server-debug.log", "syslog")
TROUBLE = ("error", "failed", "cannot", "unable")
NETPLAN = "etc/netplan"
OURS = "60-headnode.yaml"


def settings() -> dict[str, str]:
    found = pkgutil.get_data(__package__ or "", "settings.json")
    return {str(key): str(value) for key, value in json.loads(found or b"{}").items()}


def head_of(given: dict[str, str]) -> Head:
    head = Head(given["url"])
    head.session = given["session"]
    return head


def finish(target: str, head: Head, log: Log, packages: list[str]) -> None:
    """Everything that makes the new system this node; the last word is said when all of it is on the disk."""
    files = head.get("/node/v1/overlay").get("files")
    tell(head, "writing this node's own files")
    write = must([sys.executable, sys.argv[0], "write", target], text=json.dumps(files))
    log.write(f"overlay: {write.stdout}")
    tidy(Path(target))
    if packages:
        tell(head, "installing packages of other archives")
        inside(target, ["apt-get", "update"], log)
        inside(target, ["apt-get", "install", "--yes", "--no-install-recommends", *packages], log)
    for sentence, argv in (
        ("put modules' settings into the initramfs", ["update-initramfs", "-u", "-k", "all"]),
        ("write the boot menu with this node's kernel arguments", ["update-grub"]),
    ):
        tell(head, sentence)
        inside(target, argv, log)
    sync()
    head.post("/node/v1/events", {"events": [], "log": log.take()})
    head.post("/node/v1/done", {})


def tidy(root: Path) -> None:
    """The installer's own network settings and cloud-init would argue with ours at every start."""
    for path in sorted((root / NETPLAN).glob("*.yaml")):
        if path.name != OURS:
            path.unlink()
    if (root / "etc/cloud").is_dir():
        (root / "etc/cloud/cloud-init.disabled").touch()


def inside(target: str, argv: list[str], log: Log) -> None:
    if target == "/":
        must(argv, log=log)
        return
    with system_mounts(target):
        must(["chroot", target, *argv], log=log)


def tell(head: Head, message: str) -> None:
    head.post("/node/v1/events", {"events": [{"kind": "step", "message": message, "step": message}]})


def failed(directory: str, head: Head) -> None:
    text = "".join(f"==> {name} <==\n{end_of(Path(directory) / name)}\n" for name in LOGS)
    head.post("/node/v1/failed", {"step": "installer", "reason": reason_in(text), "log": text})


def end_of(path: Path) -> str:
    try:
        return path.read_bytes()[-MOST_LOG:].decode("utf-8", "replace")
    except OSError as error:
        return f"({error.strerror})"


def reason_in(text: str) -> str:
    """The last line that speaks of trouble, as the reason a person reads first."""
    lines = [line.strip() for line in text.splitlines() if any(word in line.lower() for word in TROUBLE)]
    return lines[-1][-500:] if lines else "the installer gave up; its logs say no reason"


def main(argv: list[str]) -> int:
    log = Log(sys.stderr)
    action, place = [*argv, "", ""][:2]
    if action == "write":
        return overlay.main_at(place)
    given = settings()
    head = head_of(given)
    try:
        if action == "finish":
            finish(place, head, log, given.get("packages", "").split())
        elif action == "failed":
            failed(place, head)
        else:
            raise StepFailed(f"{action!r} is nothing that can be done here")
    except AgentError as error:
        return gave_up(head, error, log)
    return 0


def gave_up(head: Head, error: AgentError, log: Log) -> int:
    log.write(f"headnode: {error}")
    document: dict[str, Any] = {"step": "finish", "reason": str(error), "log": log.tail}
    try:
        head.post("/node/v1/failed", document, patience=30)
    except AgentError as another:
        log.write(f"headnode: and the head node could not be told: {another}")
    return 1
