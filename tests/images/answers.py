"""Inputs for installers' answers: cases, machines of nvidia_machines.yaml, and a site that has it all."""

from typing import Any

from headnode.model import Nic, Node
from headnode.site import BUILT_IN, Archive, Site
from images.installer import Inputs
from images.layouts import resolve
from images.nvidia.stack import Kind
from tests.images.support import CASES, OWNER, facts_of, layout_of, read, shipped
from tests.images.test_nvidia import MACHINES, solved
from tests.images.test_overlay import rich_site

NODE = Node("gpu01", "gpu", (Nic("52:54:00:aa:00:01", address="10.20.1.0"),))
ARCHIVES = {name: Archive(uri=f"http://10.20.0.1/{name}", key=f"/etc/headnode/keys/{name}.asc")
            for name in ("nvidia", "docker", "doca", "enroot", "nvidia-toolkit")}  # fmt: skip
KEY = b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEZ\n-----END PGP PUBLIC KEY BLOCK-----\n"
SESSION = "a-session"
# Cases whose plan the layouts can make, each with the next machine that Ubuntu can serve.
PLANNED = [path.stem for path in sorted(CASES.glob("*.yaml")) if "steps" in read(path)["expect"]]
UBUNTU = [name for name, case in MACHINES.items()
          if not name.startswith("refuse-") and case.get("settings", {}).get("os", "ubuntu") == "ubuntu"
          and "architecture" not in case.get("settings", {})]  # fmt: skip


def combinations() -> list[tuple[str, str, bool]]:
    """(case, machine, whether at a site with everything): every case, every machine, both kinds of site."""
    return [(stem, UBUNTU[number % len(UBUNTU)], number % 2 == 0) for number, stem in enumerate(PLANNED)]


def site_of(*, rich: bool) -> Site:
    site = rich_site() if rich else shipped()
    packages = site.packages.model_copy(update={"archives": ARCHIVES})
    return site.model_copy(update={"packages": packages})


def inputs(stem: str, machine: str, *, rich: bool = True, **settings: Any) -> Inputs:
    case = read(CASES / f"{stem}.yaml")
    name, layout = layout_of(case["layout"])
    facts = facts_of(case["facts"])
    consent = frozenset(case.get("consent", ()))
    stack = solved(MACHINES[machine])
    defaults = {**dict(BUILT_IN), "os": "ubuntu", "release": "24.04", "method": "autoinstall", "layout": name}
    site = site_of(rich=rich)
    return Inputs(
        site=site,
        node=NODE,
        settings={**defaults, **case.get("settings", {}), **settings},
        resolved=resolve(name, layout, facts, OWNER, consent=consent, deployed=case.get("deployed")),
        facts=facts,
        stack=stack,
        seed=f"http://{site.provision.head}/node/v1/seed/{SESSION}",
        session=SESSION,
        deployment=7,
        archive_keys=dict.fromkeys(stack.values(Kind.ARCHIVE), KEY),
    )
