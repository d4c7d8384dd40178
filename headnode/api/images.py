"""Images: versions, differences, builds."""

from typing import Any, Literal

from pydantic import Field

from headnode.accounts import Role
from headnode.api import documents, shapes
from headnode.api.operation import Strict, operation
from headnode.door import audit, building, state
from headnode.workflows import images

VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN


@operation("GET", "/images", VIEWER, "List images", reply=list[shapes.ImageShown])
def list_images() -> Any:
    return [documents.image(found) for found in images.list_images(state.context())]


@operation("GET", "/images/{reference}", VIEWER, "One version of an image, or the newest of a name",
           reply=shapes.ImageShown)  # fmt: skip
def show_image(reference: str) -> Any:
    return documents.image(images.find(state.context(), reference))


@operation("GET", "/images/{reference}/packages", VIEWER, "Packages in an image",
           reply={"type": "array", "items": {"type": "object"}})  # fmt: skip
def image_packages(reference: str) -> Any:
    return images.find(state.context(), reference).packages


class Against(Strict):
    before: str = Field(min_length=1, max_length=80)


@operation("GET", "/images/{reference}/changes", VIEWER, "Packages that changed since another version", query=Against,
           reply=list[shapes.PackageChange])  # fmt: skip
def image_changes(reference: str, query: Against) -> Any:
    found = images.differences(state.context(), query.before, reference)
    return [{"package": one.name, "before": one.before, "after": one.after} for one in found]


@operation("POST", "/images/{reference}/verify", VIEWER, "Compare an image with its signed manifest",
           reply={"type": "object"}, harmless=True)  # fmt: skip
def verify_image(reference: str) -> Any:
    return images.verify(state.context(), reference)


class Build(Strict):
    name: str = Field(min_length=1, max_length=64)
    profile: str | None = Field(default=None, max_length=64)
    kernel: Literal["generic", "cloud"] = "generic"


@operation("POST", "/images", ADMIN, "Build the next version of an image", body=Build, reply=shapes.JobShown,
           status=202)  # fmt: skip
def build_image(body: Build) -> Any:
    audit.about(detail=body.name)
    return documents.job(building.start(body.name, body.profile, body.kernel))


class Keep(Strict):
    keep: int = Field(default=3, ge=1, le=1000)
    dry_run: bool = True


@operation("POST", "/images/gc", ADMIN, "Remove old versions that nobody uses", body=Keep, reply={"type": "object"})
def collect_images(body: Keep) -> Any:
    at = state.context()
    found = images.garbage(at, body.keep)
    names = [image.reference for image in found.images]
    audit.about(detail=" ".join(names))
    if not body.dry_run:
        images.collect(at, found)
    return {"images": names, "bytes": found.size, "removed": not body.dry_run}
