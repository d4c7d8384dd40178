"""What a lab says at the end of a command: where everything is, and what to try next."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headnode.cli.common import note

if TYPE_CHECKING:
    from headnode.lab.spec import Spec


def tell(spec: "Spec", *, installed: bool = False) -> None:
    """Where everything is, and what to try."""
    from headnode.lab import link
    from headnode.lab.spec import Places

    more = link.naming(spec.name)
    note(f"The lab '{spec.name}' is up; the head node's root is {Places.of(spec.name).head.root}. Next:")
    lines = [] if installed else [(f"deploy{more}", "enrol and install its nodes")]
    lines += [
        (f"shell{more}", "a shell on the head node, where 'headnode' is this cluster's"),
        (f"console{more} {spec.nodes[0].name}", "a machine's serial console"),
        (f"fault{more} {spec.nodes[-1].name} dead-bmc", "let something go wrong"),
        (f"down{more}", "remove everything"),
    ]
    for command, what in lines:
        note(f"  {f'{program()} lab {command}':<45} {what}")
    if page := web_page(spec.name):
        note(f"Open {page}")


def program() -> str:
    """How this command was called, where its name alone would not find it."""
    called = Path(sys.argv[0])
    found = shutil.which("headnode")
    if called.name != "headnode" or (found and Path(found).resolve() == called.resolve()):
        return "headnode"
    here = Path.cwd()
    return str(called.absolute().relative_to(here) if called.absolute().is_relative_to(here) else called.absolute())


def web_page(name: str) -> str | None:
    """Where the pages are on this machine; before anybody can log in, the link that makes the first admin."""
    from urllib.parse import urlsplit

    from headnode.lab import link

    port = link.order(name, "status").get("port")
    if port is None:
        return None
    try:
        first = urlsplit((link.existing(name).head.runtime / "first-admin").read_text().strip())
    except OSError:
        return f"http://127.0.0.1:{port}"
    created = first._replace(scheme="http", netloc=f"127.0.0.1:{port}").geturl()
    return f"{created} (creates the first admin; it works once)"
