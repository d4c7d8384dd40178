"""Audit: whether every name and number means the same everywhere, with each collision named."""

import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from headnode import collisions, homes, run
from headnode.collisions import Finding, Known, Local
from headnode.errors import HeadnodeError, InvalidInput
from headnode.model import Holder, Node, State
from headnode.workflows import choosing, people
from headnode.workflows.context import Context
from images.knownhosts import KNOWN_HOSTS

AT_ONCE = 16
PATIENCE = 30
MARK = "--headnode--"
KNOCK = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "StrictHostKeyChecking=yes")


@dataclass(frozen=True)
class Audit:
    findings: tuple[Finding, ...]
    unreachable: tuple[str, ...]
    people: int
    nodes: int


def audit(context: Context, nodeset: str | None) -> Audit:
    """The directory, the ledger, this machine, and the nodes that are up or that were named."""
    known, findings = directory_side(context)
    findings += collisions.of(known, head_side(context))
    chosen = choosing.select(context, nodeset)
    asked = chosen if nodeset else [node for node in chosen if node.state is State.UP]
    said = ask_nodes(context, asked)
    for answer in said:
        if isinstance(answer, Local):
            findings += collisions.of(known, answer)
    silent = tuple(answer for answer in said if isinstance(answer, str))
    return Audit(tuple(once(findings)), silent, len(known.users), len(said) - len(silent))


def once(findings: Sequence[Finding]) -> list[Finding]:
    """A shared file system looks the same from every node: its owners are named once."""
    seen: dict[str, Finding] = {}
    for finding in findings:
        shared = finding.message.startswith("/") and not finding.message.startswith("/etc")
        seen.setdefault(finding.message if shared else f"{finding.where} {finding.message}", finding)
    return list(seen.values())


def directory_side(context: Context) -> tuple[Known, list[Finding]]:
    limits, ledger = context.site.directory, context.inventory.numbers()
    with people.directory(context) as found:
        users = [(person.name, person.number) for person in found.people()]
        groups = [(group.name, group.number) for group in found.groups()]
    former = {entry.number: entry.name for entry in ledger if entry.removed and entry.kind is Holder.USER}
    findings: list[Finding] = []
    if limits.mode == "internal":
        given = {entry.number: (entry.kind.value, entry.name) for entry in ledger if entry.removed is None}
        findings += collisions.ledger_collisions(users, groups, given)
    return Known(dict(users), dict(groups), former, limits.first_id, limits.last_id), findings


def head_side(context: Context) -> Local:
    """This machine's own accounts, and the homes that it serves."""
    home = homes.home_directory(context.site, context.paths, "nobody")
    owned = [collisions.Owner(str(path), path.lstat().st_uid) for path in sorted(home.parent.iterdir())] if (
        home is not None and home.parent.is_dir()
    ) else []  # fmt: skip
    return Local(
        "head",
        collisions.numbered(text_of("/etc/passwd")),
        collisions.numbered(text_of("/etc/group")),
        collisions.subordinate(text_of("/etc/subuid")),
        tuple(owned),
        own_people=True,
    )


def text_of(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def ask_nodes(context: Context, asked: Sequence[Node]) -> list[Local | str]:
    """What each says, or why it could not be asked."""
    if not asked:
        return []
    if not (context.paths.published / KNOWN_HOSTS).exists():
        raise InvalidInput("no node was deployed yet, so none can be asked", hint="leave the node set out")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda node: ask_node(context, node), asked))


def ask_node(context: Context, node: Node) -> Local | str:
    mounts = [*(["/home"] if context.site.storage.home else []), *(m.path for m in context.site.storage.mounts)]
    known, port = context.paths.published / KNOWN_HOSTS, str(context.site.access.ssh_port)
    argv = ["ssh", *KNOCK, "-o", f"UserKnownHostsFile={known}", "-p", port, f"root@{node.address}"]
    try:
        said = run.run([*argv, "sh", "-s"], input=questions(mounts), timeout=PATIENCE).stdout
    except HeadnodeError as error:
        return f"{node.name} could not be asked: {error.message.splitlines()[-1]}"
    passwd, group, subuid, owned = [*said.split(f"{MARK}\n"), "", "", "", ""][:4]
    allowed = (context.site.access.admin_user,) if context.site.access.admin_user else ()
    return Local(
        node.name,
        collisions.numbered(passwd),
        collisions.numbered(group),
        collisions.subordinate(subuid),
        collisions.owners(owned),
        allowed,
    )


def questions(mounts: Sequence[str]) -> str:
    """A script for the node's own shell; it comes in through standard input. Only what is mounted is looked at."""
    lines = [f"cat /etc/passwd; echo {MARK}; cat /etc/group; echo {MARK}; cat /etc/subuid; echo {MARK}"]
    for mount in map(shlex.quote, mounts):
        lines.append(f"mountpoint -q {mount} && find {mount} -mindepth 1 -maxdepth 1 -printf '%U %p\\n'")
    return "\n".join([*lines, "exit 0", ""])
