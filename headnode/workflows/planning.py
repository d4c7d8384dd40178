"""What a node is given while it is deployed: its plan, its own files, and how it may report afterwards."""

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import templates
from headnode import vault
from headnode.effective import effective
from headnode.errors import HeadnodeError, InvalidInput, NotFound
from headnode.model import Deployment, Holder, Intent, Node
from headnode.shares import shares
from headnode.site import Layout
from headnode.workflows import breakglass, expectations, gpu, hostkeys, images, installing
from headnode.workflows.context import Context
from images import inwords, nodecheck
from images.agent import firstboot
from images.layouts import Resolved, resolve
from images.nvidia.stack import Kind
from images.owner import Owner
from images.plan import Image as PlanImage
from images.plan import deploy_plan
from images.store import Image

# An agent's log is kept whole up to here; what comes after says nothing new.
LOG_LIMIT = 8 * 1024 * 1024
REPORTER = "headnode-report.service"
# The checks are a package of their own, and the same here and there.
CHECKS = "/usr/local/lib/headnode/nodecheck"
CHECKS_HERE = Path(nodecheck.__file__).parent
# How a line of a preview begins that says why there will be no plan.
REFUSED = "refused"
# So many people a new node is asked for: enough to notice a wrong directory.
SAMPLE = 5


def image_for(
    context: Context, nodes: Sequence[Node], wanted: str | None, consent: Sequence[str] = ()
) -> dict[str, str]:
    """Node → the exact version of the image it gets; asked for before anything is changed."""
    gpu.refuse_impossible(context, nodes)
    registry_authorities(context)
    chosen: dict[str, str] = {}
    for node in nodes:
        name = wanted or str(settings_of(context, node)["image"])
        found = images.find(context, name)
        refuse_other_method(context, node, found, set(consent))
        chosen[node.name] = found.reference
    return chosen


def refuse_other_method(context: Context, node: Node, found: Image, consent: set[str]) -> None:
    """An image is unpacked and a medium is started: what a node's method asks for must be what is there."""
    method = str(settings_of(context, node)["method"])
    if found.method != method:
        hint = "headnode image build" if method == "image" else "headnode image import"
        raise InvalidInput(
            f"{node.name}: method is '{method}', and {found.reference} is for method {found.method}",
            hint=f"set image to one for that method; '{hint}' makes them",
        )
    if method != "image":
        installing.refuse_unfit(context, node, found, consent)


def refuse_without_ramdisk(context: Context, nodes: Sequence[Node], intent: Intent) -> None:
    """Before anything is changed: a node that finds no ramdisk would ask for it until its time is up."""
    settings = [{key: found.value for key, found in effective(context.site, node).items()} for node in nodes]
    # A distribution's own installer is started without it.
    starting = [one for one in settings if intent is not Intent.DEPLOY or one["method"] == "image"]
    for architecture in sorted({str(one["architecture"]) for one in starting}):
        if not (context.paths.state / "ramdisk" / architecture / "initrd").exists():
            raise InvalidInput(
                f"there is no ramdisk for {architecture} that nodes could start; nothing was changed",
                hint="headnode image ramdisk",
            )


def settings_of(context: Context, node: Node) -> dict[str, Any]:
    return gpu.settings_of(context, node)


def plan_for(context: Context, node: Node, deployment: Deployment) -> dict[str, Any]:
    """The exact steps, from what the agent has just reported of this machine."""
    facts = context.inventory.hardware(node)
    if facts is None:
        raise InvalidInput(f"{node.name} has not reported its hardware", hint=f"headnode inspect {node.name}")
    # It may have gone since the deployment was asked for; that is said before a disk is touched.
    registry_authorities(context)
    made = computed_plan(context, node, facts, str(deployment.image), set(deployment.consent), deployment.id)
    with context.inventory.change("agent", f"{deployment.intent} {deployment.id}") as change:
        change.remember_disks(deployment.id, {disk["name"]: disk["serial"] for disk in made["disks"]})
    return {**made, "network_first": context.site.boot.network_first}


def computed_plan(
    context: Context, node: Node, facts: dict[str, Any], image: str, consent: set[str], number: int
) -> dict[str, Any]:
    settings = settings_of(context, node)
    layout = layout_of(context, node)
    found = images.find(context, image)
    gpu.refuse_unfit_image(gpu.stack_of(context, node), image, (package["name"] for package in found.packages))
    return deploy_plan(
        str(settings["layout"]),
        layout,
        facts,
        Owner(context.site.cluster, node.name),
        image=PlanImage(found.reference, found.url, found.sha256, found.size, found.unpacked_size),
        settings=settings,
        deployment=number,
        consent=consent,
        deployed=context.inventory.deployed_disks(node),
    )


def layout_of(context: Context, node: Node) -> Layout:
    name = str(settings_of(context, node)["layout"])
    if name not in context.site.layouts:
        known = ", ".join(context.site.layouts)
        raise NotFound(f"{node.name}'s layout is '{name}', which site.yaml does not define ({known})")
    return context.site.layouts[name]


def resolved_layout(context: Context, node: Node, facts: dict[str, Any], consent: set[str]) -> Resolved:
    """The node's layout on the disks that it was last seen with."""
    return resolve(
        str(settings_of(context, node)["layout"]),
        layout_of(context, node),
        facts,
        Owner(context.site.cluster, node.name),
        consent=consent,
        deployed=context.inventory.deployed_disks(node),
    )


def preview(context: Context, node: Node, image: str, consent: Sequence[str]) -> Iterator[str]:
    """The plan in words, for a dry run; a node that was never inspected has none yet."""
    facts = context.inventory.hardware(node)
    if facts is None:
        yield f"not inspected yet, so its disks are unknown; 'headnode inspect {node.name}' reads them"
        return
    try:
        found = images.find(context, image)
        if found.method != "image":
            yield from installing.preview(context, node, found, set(consent))
            return
        made = computed_plan(context, node, facts, image, set(consent), 0)
        disks = list(inwords.disks(resolved_layout(context, node, facts, set(consent))))
    except HeadnodeError as error:
        yield f"{REFUSED}: {error.message}"
        if error.hint:
            yield f"  hint: {error.hint}"
        return
    yield from disks
    for step in made["steps"]:
        words = " ".join(step["argv"]) if "argv" in step else step.get("url", "")
        yield f"{step['name']}" + (f": {words}" if words else "")


def overlay_for(context: Context, node: Node, deployment: Deployment) -> dict[str, Any]:
    """The files that make a generic system this node, secrets included: only a claimed deployment gets here."""
    rescue = deployment.intent is Intent.RESCUE
    return {"files": [*node_files(context, node, rescue=rescue), *report_files(context, node, deployment)]}


def node_files(context: Context, node: Node, *, rescue: bool = False) -> list[dict[str, Any]]:
    """A rescue system starts no containers, and must not be kept from starting by what they need."""
    from images.overlay import Secrets, overlay

    certificate = (context.paths.ca / "ca.crt").read_text()
    stack = gpu.stack_of(context, node)
    ca, password = elsewhere(context)
    secrets = Secrets(
        hostkeys.certified_keys(context, node),
        certificate,
        hostkeys.authority_line(context, make=True),
        gpu.archive_keys(context, stack.values(Kind.ARCHIVE)),
        admin_hash=breakglass.admin_hash(context),
        directory_ca=ca,
        bind_password=password,
        registries={} if rescue else registry_authorities(context),
    )
    made = overlay(context.site, node, settings_of(context, node), secrets, stack, cache_size(context, node))
    return [entry(path, file.content, file.mode, file.owner) for path, file in sorted(made.items())]


def cache_size(context: Context, node: Node) -> int | None:
    """How large the volume for copies of network files is on this node, as far as its disks are known."""
    from images.overlay import CACHE

    facts, name = context.inventory.hardware(node), str(settings_of(context, node)["layout"])
    layout = context.site.layouts.get(name)
    if facts is None or layout is None:
        return None
    disks = facts.get("disks")
    serials = {str(disk.get("serial")) for disk in disks} if isinstance(disks, list) else set()
    try:
        # What may be overwritten is decided elsewhere; only the size is asked here.
        found = resolve(name, layout, facts, Owner(context.site.cluster, node.name), consent=serials)
    except HeadnodeError:
        return None
    return next((place.size for place in found.places if place.volume.mount == CACHE), None)


def elsewhere(context: Context) -> tuple[str, str]:
    """What nodes need for a directory that is not ours: its authority's certificate, and a password."""
    directory, root = context.site.directory, context.paths.root
    if directory.mode == "internal":
        return "", ""
    try:
        certificate = (root / directory.ca_file.lstrip("/")).read_text() if directory.ca_file else ""
    except OSError as error:
        raise HeadnodeError(f"directory.ca_file {directory.ca_file} cannot be read: {error.strerror}") from None
    file = directory.bind_password_file
    return certificate, vault.read_password(root / file.lstrip("/")) if file else ""


def registry_authorities(context: Context) -> dict[str, str]:
    """Registry → the certificate that vouches for it, from the files that the site names."""
    found: dict[str, str] = {}
    for host, file in context.site.packages.registries.items():
        try:
            found[host] = (context.paths.root / file.lstrip("/")).read_text()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise HeadnodeError(f"packages.registries.{host} is {file}, which cannot be read: {reason}") from None
        if "BEGIN CERTIFICATE" not in found[host]:
            raise HeadnodeError(f"packages.registries.{host} is {file}, which holds no certificate (PEM)")
    return found


def report_files(context: Context, node: Node, deployment: Deployment) -> list[dict[str, Any]]:
    """A small program that says at the first start how the new system is."""
    with context.inventory.change("agent", f"{deployment.intent} {deployment.id}") as change:
        token = change.issue_report_token(deployment, node.address or "")
    url = f"http://{context.site.provision.head}/node/v1/verify"
    expected = {"url": url, "token": token, **expected_of(context, node)}
    script = Path(firstboot.__file__).read_bytes()
    unit = templates.render("overlay/report.service.j2", made_from=f"node {node.name}")
    wanted = templates.render("overlay/multi-user.conf.j2", made_from=f"node {node.name}", units=[REPORTER])
    return [
        entry("/etc/headnode/report.json", json.dumps(expected).encode(), 0o600),
        entry("/usr/local/sbin/headnode-report", script, 0o755),
        entry(f"/etc/systemd/system/{REPORTER}", unit.encode(), 0o644),
        *(entry(f"{CHECKS}/{file.name}", file.read_bytes()) for file in sorted(CHECKS_HERE.glob("*.py"))),
        # As for the overlay's own units: a drop-in switches it on, without a program of the new system.
        entry("/etc/systemd/system/multi-user.target.d/headnode-report.conf", wanted.encode(), 0o644),
    ]


def expected_of(context: Context, node: Node) -> dict[str, Any]:
    """What the node must show to be up, as of now."""
    return {
        **expectations.expected(context, node),
        "max_offset_ms": context.site.time.max_offset_ms,
        "gpus": gpu.expected(gpu.stack_of(context, node)),
        "mounts": expected_mounts(context, node),
        "people": expected_people(context),
    }


def expected_mounts(context: Context, node: Node) -> list[str]:
    """A node without its homes is no use to anybody, so what comes over the network counts like its own disks."""
    volumes = layout_volumes(context, node)
    local = [str(v.mount) for v in volumes if v.mount and v.type not in ("swap", "swapfile")]
    return [*local, *(share.path for share in shares(context.site))]


def expected_people(context: Context) -> dict[str, Any]:
    """Whom the node must know, and under which numbers: the group that is always there, and the newest people."""
    site, numbers = context.site.directory, context.inventory.numbers()
    local = [context.site.access.admin_user] if context.site.access.admin_user else []
    if site.mode == "external":
        return {"local": local}
    users = [entry for entry in numbers if entry.kind is Holder.USER and entry.removed is None]
    newest = sorted(users, key=lambda entry: entry.given)[-SAMPLE:]
    return {
        "groups": {e.name: e.number for e in numbers if e.kind is Holder.GROUP and e.name == site.admin_group},
        "users": {entry.name: entry.number for entry in newest},
        "first": site.first_id,
        "last": site.last_id,
        "local": local,
    }


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
