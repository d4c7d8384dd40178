"""New hardware: who asked, who is on the management network, and a list to paste."""

from flask import Blueprint, redirect, request
from flask.typing import ResponseReturnValue

from headnode import vault
from headnode.accounts import Role
from headnode.door import audit, guard, state
from headnode.door.audit import audited
from headnode.errors import HeadnodeError
from headnode.web.rendering import page
from headnode.workflows import bmcscan, discovery, publishing, sheet
from headnode.workflows import enroll as workflow

enrol = Blueprint("enrol", __name__)
EXAMPLE = "name,mac,bmc,profile,rack,position"


@enrol.get("/enrol")
@guard.needs(Role.VIEWER)
def index() -> ResponseReturnValue:
    text = ""
    if mac := request.args.get("mac", ""):
        text = f"{EXAMPLE}\n,{mac},,,,\n"
    return page("enrol.html", **surroundings(), text=text, made=None, trouble="")


def surroundings() -> dict[str, object]:
    at = state.context()
    found = [(sighting, discovery.vendor(sighting.mac)) for sighting in reversed(discovery.seen(at))]
    return {
        "seen": found,
        "window": discovery.open_window(at),
        "site": at.site,
        "example": EXAMPLE,
        "scanned": None,
        "columns": [*sheet.COLUMNS, *sheet.nic_columns(at.site)],
    }


@enrol.post("/enrol/preview")
@guard.needs(Role.OPERATOR)
def preview() -> ResponseReturnValue:
    """What would become of the list as it is now; asked at every pause of typing."""
    made, trouble = plan(request.form.get("text", ""))
    if "HX-Request" in request.headers:
        return page("fragments/enrol-preview.html", made=made, trouble=trouble)
    return page("enrol.html", **surroundings(), text=request.form.get("text", ""), made=made, trouble=trouble)


def plan(text: str) -> tuple[workflow.Plan | None, str]:
    at = state.context()
    if not text.strip():
        return None, ""
    try:
        rows = sheet.read(text, "list", at.site)
        return workflow.plan(at.site, rows, at.inventory.nodes(retired=True)), ""
    except HeadnodeError as error:
        return None, error.message


@enrol.post("/enrol")
@guard.needs(Role.OPERATOR)
@audited("enrol")
def do() -> ResponseReturnValue:
    at, text = state.context(), request.form.get("text", "")
    try:
        rows = sheet.read(text, "list", at.site)
        password = request.form.get("password", "")
        sealed = vault.seal(password, at.paths.secret_key) if password else None
        made = workflow.enroll(at, rows, sealed)
        audit.about([node.name for node in made.new])
        publishing.publish_changes(at)
    except HeadnodeError as error:
        audit.about(detail=error.message[:500])
        audit.result("refused")
        made_now, trouble = plan(text)
        values = surroundings() | {"text": text, "made": made_now, "trouble": trouble or error.message}
        return page("enrol.html", **values), 422
    return redirect("/nodes?state=enrolled", 303)


@enrol.post("/enrol/window")
@guard.needs(Role.OPERATOR)
@audited("discovery window")
def window() -> ResponseReturnValue:
    at, duration = state.context(), request.form.get("duration", "")
    audit.about(detail=duration or "closed")
    if duration:
        discovery.open_for(at, discovery.parse_duration(duration))
    else:
        discovery.close(at, "by hand")
    publishing.publish_changes(at)
    return redirect("/enrol", 303)


@enrol.post("/enrol/scan")
@guard.needs(Role.ADMIN)
@audited("BMC scan")
def scan() -> ResponseReturnValue:
    at, network = state.context(), request.form.get("network", "")
    audit.about(detail=network)
    user, password = request.form.get("user") or None, request.form.get("password") or None
    found = bmcscan.scan_with(at, network, user, password, "rotate" in request.form)
    rows = bmcscan.proposals(found, [])
    text = "\n".join([EXAMPLE, *(",".join(row.values()) for row in rows)]) + "\n" if rows else ""
    return page("enrol.html", **(surroundings() | {"scanned": found}), text=text, made=None, trouble="")
