"""Installing through a distribution's own installer: what it is started with, and the answers it is given.

Its answers are behind the deployment's session, which is part of their address: neither installer can send a header.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import templates
from headnode.errors import HeadnodeError, InvalidInput, NotFound
from headnode.model import Deployment, Intent, Node
from headnode.workflows import deploy, gpu, images
from headnode.workflows.context import Context
from images import autoinstall, autoinstallchecks, inwords, preseed
from images.installer import AGENT, WORKING_MEMORY, Inputs, agent_file, refuse_small_memory
from images.layouts import Resolved, resolve
from images.nvidia.stack import Kind
from images.owner import Owner
from images.store import Image

SYSTEMS = {"autoinstall": "ubuntu", "preseed": "debian"}
# Words that Debian's installer may say of itself; it can do no more than fetch an address.
STEPS = {"started": "the installer runs and has its answers", "partitioning": "the disk is being partitioned"}


def refuse_unfit(context: Context, node: Node, medium: Image, consent: set[str]) -> None:
    """Everything that stands against this installer on this node, before anything is changed."""
    settings = gpu.settings_of(context, node)
    method, system = str(settings["method"]), SYSTEMS[str(settings["method"])]
    told = {key: str(medium.manifest[key]) for key in ("os", "release", "architecture")}
    for key, wanted in (("os", system), *((key, str(settings[key])) for key in told)):
        if told[key] != wanted:
            raise InvalidInput(
                f"{node.name}: {medium.reference} is of {key} {told[key]}, and {method} wants '{wanted}'"
            )
    if context.site.boot.uefi == "shim":
        raise InvalidInput(
            f"{node.name}: method is '{method}', which is started by iPXE, and boot.uefi is 'shim'",
            hint="use 'method: image' at a site with Secure Boot",
        )
    facts = context.inventory.hardware(node)
    if facts is None:
        raise InvalidInput(f"{node.name} was never inspected, so its disks are unknown to an installer",
                           hint=f"headnode inspect {node.name}")  # fmt: skip
    if method == "autoinstall":
        refuse_small_memory(node.name, facts, medium.size + WORKING_MEMORY, medium.reference)
    about = inputs(context, node, facts, 0, "", consent)
    if method == "preseed":
        preseed.render(about)
    else:
        autoinstallchecks.refuse_wrong(autoinstall.document(about), facts, node.name)


def inputs(
    context: Context, node: Node, facts: Mapping[str, Any], deployment: int, session: str, consent: set[str]
) -> Inputs:
    stack = gpu.stack_of(context, node)
    return Inputs(
        site=context.site,
        node=node,
        settings=gpu.settings_of(context, node),
        resolved=resolved(context, node, facts, consent),
        facts=facts,
        stack=stack,
        seed=f"http://{context.site.provision.head}/node/v1/seed/{session}",
        session=session,
        deployment=deployment,
        archive_keys=gpu.archive_keys(context, stack.values(Kind.ARCHIVE)),
    )


def resolved(context: Context, node: Node, facts: Mapping[str, Any], consent: set[str]) -> Resolved:
    name = str(gpu.settings_of(context, node)["layout"])
    layout = context.site.layouts.get(name)
    if layout is None:
        raise NotFound(f"{node.name}'s layout is '{name}', which site.yaml does not define")
    owner = Owner(context.site.cluster, node.name)
    return resolve(name, layout, facts, owner, consent=consent, deployed=context.inventory.deployed_disks(node))


def boot_script(context: Context, address: str) -> str | None:
    """What the node at this address starts its installer with; each start is a session of its own."""
    found = context.inventory.running_deployment(address)
    if found is None or found[0].intent is not Intent.DEPLOY:
        return None
    deployment, node = found
    settings = gpu.settings_of(context, node)
    if settings["method"] == "image":
        return None
    token = deploy.token_for(context, address)
    claimed = deploy.claim(context, token, address) if token else None
    if claimed is None:
        return None
    medium = images.find(context, str(deployment.image))
    head = f"http://{context.site.provision.head}"
    seed = f"{head}/node/v1/seed/{claimed.session}"
    console = settings["console"]
    if medium.method == "autoinstall":
        arguments = autoinstall.arguments(head, seed, medium.reference, console)
    else:
        arguments = preseed.arguments(node.name, context.site, seed, console)
    return templates.render(
        "boot/installer.ipxe.j2", made_from=f"node {node.name}, deployment {deployment.id}", node=node,
        head=context.site.provision.head, media=medium.reference, arguments=arguments,
    )  # fmt: skip


def answer(context: Context, deployment: Deployment, node: Node, session: str, name: str) -> bytes:
    """One of the files an installer asks for; NotFound for any other."""
    facts = context.inventory.hardware(node)
    if facts is None:
        raise HeadnodeError(f"{node.name} has not reported its hardware")
    about = inputs(context, node, facts, deployment.id, session, set(deployment.consent))
    with context.inventory.change("agent", f"{deployment.intent} {deployment.id}") as change:
        change.remember_disks(deployment.id, {table.name: table.disk.serial for table in about.resolved.tables})
    if name == AGENT:
        return agent_file(about.head, session, preseed.later(about))
    if name == "preseed.cfg":
        return preseed.render(about).encode()
    if name == "disk.sh":
        return preseed.disk_script(about).encode()
    if name in autoinstall.FILES:
        if name == "user-data":
            autoinstallchecks.refuse_wrong(autoinstall.document(about), facts, node.name)
        return autoinstall.render(about, name).encode()
    raise NotFound(f"there is no answer '{name[:40]}'")


def step(context: Context, deployment: Deployment, node: Node, word: str) -> None:
    if word == "no-disk":
        deploy.failed(context, deployment, node, "partitioning", "no disk has the serial number that was inspected")
        return
    if word not in STEPS:
        raise NotFound(f"there is no step '{word[:40]}'")
    deploy.progress(context, deployment, [{"kind": "step", "step": word, "message": STEPS[word]}])


def webhook(context: Context, deployment: Deployment, said: Mapping[str, Any]) -> None:
    """What Ubuntu's installer reports of itself: its larger stages become events, the rest only moves the bar."""
    name, about = str(said.get("name", ""))[:150], str(said.get("description", ""))[:300]
    depth = name.count("/")
    failed = str(said.get("result", "")).upper() in ("FAIL", "WARN")
    kind = "step" if failed or (said.get("event_type") == "start" and depth <= 2) else "progress"
    words = f"{name}: {about}" if about else name
    deploy.progress(context, deployment, [{"kind": kind, "step": name.rpartition("/")[2] or name, "message": words}])


def preview(context: Context, node: Node, medium: Image, consent: set[str]) -> Iterator[str]:
    """The answers in words, for a dry run."""
    facts = context.inventory.hardware(node) or {}
    about = inputs(context, node, facts, 0, "", consent)
    yield f"installer {medium.reference} ({medium.manifest['title']}), by {medium.method}"
    yield from inwords.disks(about.resolved)
    yield f"NVIDIA: {about.stack.summary}"
    yield f"{len(about.packages)} packages: {' '.join(about.packages)}"
