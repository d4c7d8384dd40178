"""Doing something to nodes: first exactly what would happen, then a number to type, then how it goes."""

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlencode

from flask import Blueprint, redirect, request
from flask.typing import ResponseReturnValue
from werkzeug.wrappers import Response

from headnode.accounts import Role
from headnode.door import acting, audit, guard, state
from headnode.door.audit import audited
from headnode.errors import InvalidInput, NotFound
from headnode.model import Node
from headnode.nodeset import fold
from headnode.web.pages.nodes import wanted
from headnode.web.rendering import page
from headnode.workflows import actions, choosing, images, roster

act = Blueprint("act", __name__)
# Longer node sets do not fit into an address.
LONGEST_ADDRESS = 2500


@act.post("/nodes/choose")
@guard.needs(Role.OPERATOR)
def choose() -> ResponseReturnValue:
    """From ticked rows to a node set."""
    name = request.form.get("action", "")
    actions.find(name)
    names = request.form.getlist("node")
    if "all" in request.form:
        names = [member.node.name for member in roster.choose(state.roster(), wanted(request.form))]
    if not names:
        raise InvalidInput("no node was chosen; tick some first")
    folded = fold(names)
    if len(folded) > LONGEST_ADDRESS:
        return confirmation(name, folded, {})
    return redirect(f"/act/{name}?{urlencode({'nodes': folded})}", 303)


@act.get("/act/<name>")
@guard.needs(Role.OPERATOR)
def look(name: str) -> ResponseReturnValue:
    return confirmation(name, request.args.get("nodes", ""), given(request.args))


@act.post("/act/<name>")
@guard.needs(Role.OPERATOR)
@audited("action")
def do(name: str) -> ResponseReturnValue:
    action, at = actions.find(name), state.context()
    chosen = choosing.select(at, request.form.get("nodes", ""))
    try:
        actions.refuse_other_count(chosen, request.form.get("count", ""))
    except InvalidInput as error:
        audit.about((node.name for node in chosen), error.message, action=name)
        audit.result("refused")
        answer = confirmation(name, fold(node.name for node in chosen), given(request.form), error.message)
        answer.status_code = 422
        return answer
    job = acting.start(action, chosen, actions.check_options(action, given(request.form)))
    return redirect(f"/jobs/{job.id}", 303)


def given(form: Mapping[str, str]) -> dict[str, str]:
    """The action's own options; everything else in the form is ours."""
    return {key.removeprefix("with-"): value for key, value in form.items() if key.startswith("with-") and value}


def confirmation(name: str, nodes: str, options: dict[str, str], trouble: str = "") -> Response:
    action, at = actions.find(name), state.context()
    chosen = choosing.select(at, nodes) if nodes.strip() else []
    if not chosen:
        raise InvalidInput("no node was chosen")
    lines: list[tuple[str, str]] = []
    try:
        lines = foldable(action.preview(at, chosen, actions.check_options(action, options)))
    except InvalidInput as error:
        trouble = trouble or ("" if name == "set" and not options else error.message)
    return page(
        "confirm.html", action=action, nodes=nodes, chosen=chosen, lines=lines, options=options, trouble=trouble,
        choices=choices(name, chosen),
    )  # fmt: skip


def foldable(found: Iterable[actions.Line]) -> list[tuple[str, str]]:
    """The same for many nodes is said once, for a node set."""
    alike: dict[str, list[str]] = {}
    for line in found:
        alike.setdefault(line.text, []).append(line.node)
    return [(fold(names), text) for text, names in alike.items()]


def choices(name: str, chosen: Sequence[Node]) -> dict[str, list[str]]:
    """What there is to choose from for an action's options."""
    at = state.context()
    if name == "deploy":
        return {"image": [image.reference for image in images.list_images(at)]}
    if name == "set":
        return {"profile": list(at.site.profiles), "locked": ["true", "false"]}
    return {"device": list(actions.BOOT_DEVICES)} if name == "bootdev" else {}


@act.get("/jobs/<number>")
@guard.needs(Role.VIEWER)
def job(number: str) -> ResponseReturnValue:
    found = state.door().jobs.find(number)
    if found is None:
        raise NotFound("this page is about something that is over", hint="the audit log has what was done")
    return page("fragments/job.html" if "HX-Request" in request.headers else "job.html", job=found)
