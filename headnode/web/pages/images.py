"""Images: versions, what changed from one to the next, and building with the log in sight."""

from flask import Blueprint, redirect, request
from flask.typing import ResponseReturnValue

from headnode.accounts import Role
from headnode.door import audit, building, guard, state
from headnode.door.audit import audited
from headnode.web.rendering import page
from headnode.workflows import images as workflow
from images.store import Image

images = Blueprint("images", __name__)


@images.get("/images")
@guard.needs(Role.VIEWER)
def index() -> ResponseReturnValue:
    at = state.context()
    found: dict[str, list[Image]] = {}
    for image in workflow.list_images(at):
        found.setdefault(image.name, []).insert(0, image)
    used = workflow.users(at)
    jobs = [job for job in state.door().jobs.kept.values() if job.title.startswith("Build image") and not job.finished]
    return page("images.html", images=found, used=used, jobs=jobs, profiles=list(at.site.profiles))


@images.get("/images/<reference>")
@guard.needs(Role.VIEWER)
def show(reference: str) -> ResponseReturnValue:
    at = state.context()
    image = workflow.find(at, reference)
    others = [other for other in workflow.list_images(at, image.name) if other.version != image.version]
    before = request.args.get("before", "")
    if not before:
        before = next((other.reference for other in reversed(others) if other.version < image.version), "")
    changes = workflow.differences(at, before, image.reference) if before else []
    return page("image.html", image=image, others=others, before=before, changes=changes)


@images.post("/images")
@guard.needs(Role.ADMIN)
@audited("image build")
def build() -> ResponseReturnValue:
    name, profile = request.form.get("name", ""), request.form.get("profile") or None
    audit.about(detail=name)
    kernel = "cloud" if request.form.get("kernel") == "cloud" else "generic"
    return redirect(f"/jobs/{building.start(name, profile, kernel).id}", 303)
