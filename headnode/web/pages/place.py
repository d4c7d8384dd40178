"""The site: its file, what is wrong with it, and its networks as a picture."""

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from headnode.accounts import Role
from headnode.door import guard, state
from headnode.web.rendering import page
from headnode.workflows import sites

place = Blueprint("place", __name__)


@place.get("/site")
@guard.needs(Role.VIEWER)
def index() -> ResponseReturnValue:
    at = state.context()
    return page("site.html", **values(), text=sites.shown_text(at), problems=sites.saved_problems(at), tried=False)


@place.post("/site/check")
@guard.needs(Role.VIEWER)
def check() -> ResponseReturnValue:
    """Somebody's draft; nothing is changed."""
    text = request.form.get("text", "")
    problems = sites.problems(state.context(), text)
    if "HX-Request" in request.headers:
        return page("fragments/site-problems.html", problems=problems, tried=True)
    return page("site.html", **values(), text=text, problems=problems, tried=True)


def values() -> dict[str, object]:
    at = state.context()
    return {"site": at.site, "file": at.paths.site_file, "total": len(state.roster().members)}
