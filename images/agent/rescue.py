"""A rescued machine is reached over SSH with the keys that the head node sends, and on its console in any case."""

from pathlib import Path
from typing import Any

from . import overlay
from .errors import AgentError, Refused
from .head import Head
from .report import Reporter
from .runner import must

# Of a node's own files only these have a meaning here: who may come in, and the host keys people already know.
ALLOWED = ("etc/ssh/ssh_host_", "root/.ssh/authorized_keys")


def prepare(head: Head, reporter: Reporter) -> str:
    try:
        chosen = wanted(head.get("/node/v1/overlay").get("files"))
    except Refused as error:
        reporter.event("rescue", f"the head node sent no files: {error}", step="rescue")
        chosen = []
    overlay.write_all(chosen, Path("/"))
    if not any(overlay.confined(file["path"]).startswith("root/") for file in chosen):
        reporter.event("rescue", "no SSH keys were sent, so this machine is reached by its console only", step="rescue")
    else:
        Path("/root/.ssh").chmod(0o700)
        must(["ssh-keygen", "-A"], log=reporter.log)
        must(["/usr/sbin/sshd", *certificates(chosen)], log=reporter.log)
        reporter.event("rescue", "ready: log in as root over SSH, or on the console", step="rescue")
    head.post("/node/v1/done", {})
    return "wait"


def certificates(files: list[dict[str, Any]]) -> list[str]:
    """Whoever trusts the site's authority, and knows no host key by itself, is to know this one too."""
    paths = [f"/{overlay.confined(file['path'])}" for file in files]
    return [word for path in paths if path.endswith("-cert.pub") for word in ("-o", f"HostCertificate={path}")]


def wanted(files: Any) -> list[dict[str, Any]]:
    if not isinstance(files, list) or not all(isinstance(file, dict) for file in files):
        raise AgentError("the head node sent no list of files")
    return [file for file in files if overlay.confined(file.get("path")).startswith(ALLOWED)]
