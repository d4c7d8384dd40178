"""Write seed media for nodes that cannot start over the network."""

from pathlib import Path

from headnode.errors import InvalidInput
from headnode.model import Intent, Node
from headnode.workflows import deploy, gpu, images, installing
from headnode.workflows.context import Context
from images import autoinstall, seed
from images.store import scratch


def write_bootable(context: Context, node: Node, target: Path) -> Path:
    refuse_existing(target)
    if node.address is None:
        raise InvalidInput(f"{node.name} has no MAC and address, so nobody would answer it")
    with scratch(images.workplace(context), "seed") as work:
        seed.bootable(context.site, node, target, work)
    return target


def write_cidata(context: Context, node: Node, target: Path) -> Path:
    """The answers of the deployment that waits for this node; a start over the network would take their place."""
    refuse_existing(target)
    settings = gpu.settings_of(context, node)
    if settings["method"] != "autoinstall":
        raise InvalidInput(f"{node.name}'s method is '{settings['method']}'; a cidata volume is for autoinstall")
    found = context.inventory.running_deployment(str(node.address))
    if found is None or found[0].intent is not Intent.DEPLOY:
        raise InvalidInput(
            f"no deployment waits for {node.name}", hint=f"headnode deploy {node.name} --no-power, then this"
        )
    token = deploy.token_for(context, str(node.address))
    claimed = deploy.claim(context, token, str(node.address)) if token else None
    if claimed is None:
        raise InvalidInput(f"{node.name} was started too often in this deployment", hint=f"headnode abort {node.name}")
    answers = {
        name: installing.answer(context, claimed.deployment, claimed.node, claimed.session, name)
        for name in autoinstall.FILES
    }
    seed.cidata(answers, target)
    return target


def refuse_existing(target: Path) -> None:
    if target.exists():
        raise InvalidInput(f"{target} exists already and is not overwritten")
    if not target.parent.is_dir():
        raise InvalidInput(f"there is no directory {target.parent}")
