"""What Ubuntu's and Debian's installers share: inputs of their answers, packages, the agent as one file. Pure."""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headnode.errors import HeadnodeError
from headnode.model import Node
from headnode.site import Archive, Site
from images import agent
from images.layouts import Resolved
from images.nvidia.stack import Kind, Stack
from images.recipes import ARCHITECTURES, BASE, OWN, in_order

SOURCES = Path(agent.__file__).parent
# So that the same agent is the same file.
EPOCH = (1980, 1, 1, 0, 0, 0)
MAIN = "import sys\nfrom agent.installer import main\nsys.exit(main(sys.argv[1:]))\n"
AGENT = "agent.pyz"
# What an installer needs beside what it loads into memory.
WORKING_MEMORY = 2 << 30


@dataclass(frozen=True)
class Inputs:
    """Everything an installer's answers may depend on."""

    site: Site
    node: Node
    settings: Mapping[str, Any]
    resolved: Resolved
    facts: Mapping[str, Any]
    stack: Stack
    # Where this deployment's answers are, with its secret: http://HEAD/node/v1/seed/…
    seed: str
    session: str
    deployment: int
    archive_keys: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def head(self) -> str:
        return f"http://{self.site.provision.head}"

    @property
    def packages(self) -> tuple[str, ...]:
        """The installer brings the boot loader; the rest is what our own images have."""
        distribution = str(self.settings["os"])
        wanted = (*BASE, *OWN.get(distribution, ()), *(self.settings.get("packages") or ()))
        return (*in_order(wanted), *(name for name in self.stack.packages if name not in wanted))

    @property
    def archives(self) -> dict[str, Archive]:
        return {name: self.site.packages.archives[name] for name in self.stack.values(Kind.ARCHIVE)}

    @property
    def architecture(self) -> str:
        return ARCHITECTURES[str(self.settings["architecture"])]

    @property
    def made_from(self) -> str:
        return f"node {self.node.name}, profile {self.node.profile}, layout {self.resolved.layout}"


def agent_file(url: str, session: str, packages: Sequence[str] = ()) -> bytes:
    """The agent as one file that Python runs, with this deployment's settings inside and never on a command line."""
    settings = {"url": url, "session": session, "packages": " ".join(packages)}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        add(archive, "__main__.py", MAIN.encode())
        for path in sorted(SOURCES.glob("*.py")):
            if path.name != "__main__.py":
                add(archive, f"agent/{path.name}", path.read_bytes())
        add(archive, "agent/settings.json", json.dumps(settings).encode())
    return buffer.getvalue()


def add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)


def refuse_small_memory(node: str, facts: Mapping[str, Any], needed: int, media: str) -> None:
    """An installer that does not fit into memory stops without a word; better said before the node is restarted."""
    there = int(facts.get("memory_bytes") or 0)
    if there and there < needed:
        raise HeadnodeError(
            f"{node} has {there / 2**30:.1f} GiB of memory, and the installer of {media}, which keeps the whole "
            f"medium in memory, needs {needed / 2**30:.1f} GiB",
            hint="use 'method: image' for this node, which needs 1 GiB",
        )
