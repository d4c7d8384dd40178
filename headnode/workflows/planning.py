"""What a node is given while it is deployed: its plan, its own files, and how it may report afterwards."""

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import templates
from headnode.errors import HeadnodeError, InvalidInput, NotFound
from headnode.model import Deployment, Node
from headnode.workflows import gpu, hostkeys, images
from headnode.workflows.context import Context
from images.agent import firstboot
from images.nvidia.stack import Kind

# An agent's log is kept whole up to here; what comes after says nothing new.
LOG_LIMIT = 8 * 1024 * 1024
REPORTER = "headnode-report.service"


def image_for(context: Context, nodes: Sequence[Node], wanted: str | None) -> dict[str, str]:
    """Node → the exact version of the image it gets; asked for before anything is changed."""
    gpu.refuse_impossible(context, nodes)
    chosen: dict[str, str] = {}
    for node in nodes:
        name = wanted or str(settings_of(context, node)["image"])
        chosen[node.name] = images.find(context, name).reference
    return chosen


def settings_of(context: Context, node: Node) -> dict[str, Any]:
    return gpu.settings_of(context, node)


def plan_for(context: Context, node: Node, deployment: Deployment) -> dict[str, Any]:
    """The exact steps, from what the agent has just reported of this machine."""
    facts = context.inventory.hardware(node)
    if facts is None:
        raise InvalidInput(f"{node.name} has not reported its hardware", hint=f"headnode inspect {node.name}")
    made = computed_plan(context, node, facts, str(deployment.image), set(deployment.consent), deployment.id)
    with context.inventory.change("agent", f"{deployment.intent} {deployment.id}") as change:
        change.remember_disks(deployment.id, {disk["name"]: disk["serial"] for disk in made["disks"]})
    return made


def computed_plan(
    context: Context, node: Node, facts: dict[str, Any], image: str, consent: set[str], number: int
) -> dict[str, Any]:
    from images.owner import Owner
    from images.plan import Image, deploy_plan

    settings = settings_of(context, node)
    layout = context.site.layouts.get(str(settings["layout"]))
    if layout is None:
        known = ", ".join(context.site.layouts)
        raise NotFound(f"{node.name}'s layout is '{settings['layout']}', which site.yaml does not define ({known})")
    found = images.find(context, image)
    gpu.refuse_unfit_image(gpu.stack_of(context, node), image, (package["name"] for package in found.packages))
    return deploy_plan(
        str(settings["layout"]),
        layout,
        facts,
        Owner(context.site.cluster, node.name),
        image=Image(found.reference, found.url, found.sha256, found.size, found.unpacked_size),
        settings=settings,
        deployment=number,
        consent=consent,
        deployed=context.inventory.deployed_disks(node),
    )


def preview(context: Context, node: Node, image: str | None, consent: Sequence[str]) -> Iterator[str]:
    """The plan in words, for a dry run; a node that was never inspected has none yet."""
    facts = context.inventory.hardware(node)
    if facts is None:
        yield f"not inspected yet, so its disks are unknown; 'headnode inspect {node.name}' reads them"
        return
    try:
        made = computed_plan(context, node, facts, str(image), set(consent), 0)
    except HeadnodeError as error:
        yield f"refused: {error.message}"
        if error.hint:
            yield f"  hint: {error.hint}"
        return
    for disk in made["disks"]:
        yield f"disk {disk['name']}: {disk['device']}, serial {disk['serial'] or '-'}, {disk['size'] / 1e9:.1f} GB"
    for step in made["steps"]:
        words = " ".join(step["argv"]) if "argv" in step else step.get("url", "")
        yield f"{step['name']}" + (f": {words}" if words else "")


def overlay_for(context: Context, node: Node, deployment: Deployment) -> dict[str, Any]:
    """The files that make a generic system this node, secrets included: only a claimed deployment gets here."""
    return {"files": [*node_files(context, node), *report_files(context, node, deployment)]}


def node_files(context: Context, node: Node) -> list[dict[str, Any]]:
    from images.overlay import Secrets, overlay

    certificate = (context.paths.ca / "ca.crt").read_text()
    stack = gpu.stack_of(context, node)
    keys = gpu.archive_keys(context, stack.values(Kind.ARCHIVE))
    authority = hostkeys.authority_line(context, make=True)
    secrets = Secrets(hostkeys.certified_keys(context, node), certificate, authority, keys)
    made = overlay(context.site, node, settings_of(context, node), secrets, stack)
    return [entry(path, file.content, file.mode, file.owner) for path, file in sorted(made.items())]


def report_files(context: Context, node: Node, deployment: Deployment) -> list[dict[str, Any]]:
    """A small program that says at the first start how the new system is."""
    with context.inventory.change("agent", f"{deployment.intent} {deployment.id}") as change:
        token = change.issue_report_token(deployment, node.address or "")
    expected = {
        "url": f"http://{context.site.provision.head}/node/v1/verify",
        "token": token,
        "hostname": f"{node.name}",
        "gpus": gpu.expected(gpu.stack_of(context, node)),
        "mounts": [v.mount for v in layout_volumes(context, node) if v.mount and v.type not in ("swap", "swapfile")],
    }
    script = Path(firstboot.__file__).read_bytes()
    unit = templates.render("overlay/report.service.j2", made_from=f"node {node.name}")
    wanted = templates.render("overlay/multi-user.conf.j2", made_from=f"node {node.name}", units=[REPORTER])
    return [
        entry("/etc/headnode/report.json", json.dumps(expected).encode(), 0o600),
        entry("/usr/local/sbin/headnode-report", script, 0o755),
        entry(f"/etc/systemd/system/{REPORTER}", unit.encode(), 0o644),
        # As for the overlay's own units: a drop-in switches it on, without a program of the new system.
        entry("/etc/systemd/system/multi-user.target.d/headnode-report.conf", wanted.encode(), 0o644),
    ]


def layout_volumes(context: Context, node: Node) -> tuple[Any, ...]:
    layout = context.site.layouts.get(str(settings_of(context, node)["layout"]))
    return layout.volumes if layout else ()


def entry(path: str, content: bytes, mode: int = 0o644, owner: str = "root:root") -> dict[str, Any]:
    return {"path": path, "mode": mode, "owner": owner, "content_base64": base64.b64encode(content).decode("ascii")}


def keep_log(context: Context, deployment: Deployment, text: str) -> None:
    """The agent's own words, one file for each deployment."""
    if not text:
        return
    path = context.paths.logs / "deployments" / f"{deployment.node}-{deployment.id}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", errors="replace") as stream:
        if stream.tell() < LOG_LIMIT:
            stream.write(text[:LOG_LIMIT])
