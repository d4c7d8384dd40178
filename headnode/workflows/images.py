"""Images and the ramdisk: build, list, compare, verify, and remove what nobody uses."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headnode import fields, lifecycle
from headnode.effective import SETTINGS, known_profile, nearest, profile_chain
from headnode.errors import InvalidField, InvalidInput, NotFound
from headnode.packagecache import proxy_for_builds
from headnode.site import BUILT_IN
from headnode.workflows import gpu
from headnode.workflows.context import Context
from images import build as builder
from images.mirror import from_mirror
from images.nvidia.stack import Kind
from images.ramdisk import build as ramdisk_builder
from images.ramdisk.recipe import ramdisk_recipe
from images.recipes import image_recipe
from images.sbom import SBOM
from images.signing import public_key, signer
from images.stages import Progress
from images.store import Difference, Image, Store, clean_scratch, compare, parse_reference, scratch


def store(context: Context) -> Store:
    return Store(context.paths.state / "images")


def workplace(context: Context) -> Path:
    """On the store's file system, so that a finished image appears by renaming, and outside of what nginx serves."""
    return context.paths.state / "build"


def logs(context: Context) -> Path:
    return context.paths.logs / "images"


def build(context: Context, name: str, *, profile: str | None, kernel: str, progress: Progress) -> Image:
    """Build the next version of an image from what its profile says."""
    chosen = check_build(context, name, profile)
    settings = profile_settings(context, chosen)
    stack = gpu.stack_of_profile(context, chosen, settings)
    progress(f"NVIDIA: {stack.summary}")
    archives = gpu.archive_sources(context, stack.values(Kind.ARCHIVE))
    return builder.build(
        store(context),
        name,
        from_mirror(context.site, context.paths, image_recipe(settings, kernel=kernel, stack=stack, archives=archives)),
        signer(context.paths.config),
        work=workplace(context),
        logs=logs(context),
        epoch=builder.build_epoch(),
        proxy=proxy_for_builds(context.site),
        progress=progress,
    )


def check_build(context: Context, name: str, profile: str | None) -> str | None:
    """Whatever can be said against a build before it begins; returns the profile that it is made from."""
    fields.image_name(name)
    chosen = profile_of(context, name, profile)
    if chosen is None and name not in (known := names_in_use(context)):
        # Most likely a slip of the hand, and minutes later an image that no node would ever get.
        expected = f"no profile, group or node uses an image of that name; in use are {', '.join(sorted(known))}"
        raise InvalidField("image", name, expected, hint="--profile says what goes into another")
    return chosen


def names_in_use(context: Context) -> set[str]:
    """Of every image that some node would get, or could be given by its profile."""
    profiles = {image_name(profile_settings(context, key)) for key in (*context.site.profiles, None)}
    return profiles | {parse_reference(reference)[0] for reference in named(context)}


def profile_of(context: Context, name: str, profile: str | None) -> str | None:
    """The profile that was named; or the one called like the image; or the only one that uses it."""
    if profile is not None:
        return known_profile(context.site, profile)
    if name in context.site.profiles:
        return name
    users = [key for key in context.site.profiles if image_name(profile_settings(context, key)) == name]
    if len(users) > 1:
        raise NotFound(f"several profiles use the image '{name}': {', '.join(users)}", hint="say which with --profile")
    return users[0] if users else None


def image_name(settings: dict[str, Any]) -> str:
    return parse_reference(str(settings["image"]))[0]


def profile_settings(context: Context, profile: str | None) -> dict[str, Any]:
    """What a node of this profile is, when nothing is said of the node itself."""
    voices = [
        *(profile_chain(context.site, profile) if profile else ()),
        ("site defaults", dict(context.site.defaults)),
        ("built in", dict(BUILT_IN)),
    ]
    return {key: nearest(key, voices).value for key in SETTINGS}


def build_ramdisk(context: Context, *, kernel: str, firmware: bool, progress: Progress) -> Path:
    """Build the ramdisk and make it live; returns where it is."""
    place = context.paths.state / "ramdisk/x86_64"
    log = builder.new_log(logs(context), "ramdisk")
    recipe = from_mirror(context.site, context.paths, ramdisk_recipe(kernel, firmware=firmware))
    with scratch(workplace(context), "ramdisk") as temporary:
        out = ramdisk_builder.build(
            recipe, temporary, log, builder.build_epoch(),
            proxy=proxy_for_builds(context.site), progress=progress,
        )  # fmt: skip
        ramdisk_builder.publish(out, place)
    return place


def list_images(context: Context, name: str | None = None) -> list[Image]:
    return store(context).images(name)


def find(context: Context, reference: str) -> Image:
    return store(context).find(reference)


def bill_of_materials(found: Image) -> str:
    path = found.directory / SBOM
    if not path.exists():
        raise NotFound(
            f"{found.reference} has no bill of materials", hint="media, and images of older builds, have none"
        )
    return path.read_text()


def differences(context: Context, before: str, after: str) -> list[Difference]:
    return compare(find(context, before), find(context, after))


def verify(context: Context, reference: str | None) -> dict[str, list[str]]:
    """Image → what is wrong with it."""
    images = [find(context, reference)] if reference else list_images(context)
    public = public_key(context.paths.config) if images else ""
    return {image.reference: store(context).verify(image, public) for image in images}


@dataclass(frozen=True)
class Garbage:
    """What can be removed, and how to."""

    images: tuple[Image, ...]
    ramdisks: tuple[Path, ...]

    @property
    def size(self) -> int:
        directories = [*(image.directory for image in self.images), *self.ramdisks]
        return sum(file.stat().st_size for directory in directories for file in directory.iterdir())


def garbage(context: Context, keep: int) -> Garbage:
    used, running = users(context), installing(context)
    place = context.paths.state / "ramdisk/x86_64"
    old = store(context).old(keep, lambda image: used(image) or image.reference in running)
    return Garbage(tuple(old), tuple(ramdisk_builder.old_versions(place)))


def collect(context: Context, found: Garbage) -> None:
    import shutil

    for image in found.images:
        store(context).remove(image)
    for path in found.ramdisks:
        shutil.rmtree(path)
    store(context).sweep()
    clean_scratch(workplace(context))


def removable(context: Context, reference: str) -> Image:
    """One exact version that nothing names and no deployment under way installs."""
    name, version = parse_reference(reference)
    found = find(context, reference)
    if version is None:
        raise InvalidInput(f"'{name}' has several versions; say which, such as {found.reference}")
    if users(context)(found):
        raise InvalidInput(f"{found.reference} is named by a profile, group or node, and stays")
    if node := installing(context).get(found.reference):
        raise InvalidInput(f"{found.reference} is being installed on {node}, and stays")
    return found


def installing(context: Context) -> dict[str, str]:
    """Image → a node that is being given it at this moment."""
    working = [node for node in context.inventory.nodes() if node.state in lifecycle.WORKING]
    running = (work for work in map(context.inventory.deployment, working) if work and work.finished is None)
    return {work.image: work.node for work in running if work.image}


def users(context: Context) -> Callable[[Image], bool]:
    """Whether any profile, group, node or default names exactly this version."""
    used = named(context)
    return lambda image: image.reference in used


def named(context: Context) -> set[str]:
    """What profiles, groups, nodes and defaults call the images they want."""
    site = context.site
    places: list[dict[str, Any]] = [dict(site.defaults), *(dict(p) for p in site.profiles.values())]
    places += [dict(group) for group in site.groups.values()]
    places += [dict(node.settings) for node in context.inventory.nodes()]
    return {str(place["image"]) for place in places if place.get("image")}
