"""The people's door as a WSGI application: pages and API together, nothing of the nodes' door."""

from flask import Flask, g, render_template, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException

from headnode.api import problems
from headnode.api.routes import register as register_api
from headnode.door import guard, state
from headnode.door.jobs import Jobs
from headnode.door.live import Pulse
from headnode.errors import HeadnodeError
from headnode.log import configure
from headnode.paths import Paths
from headnode.web import pages, rendering
from headnode.workflows.context import Context
from headnode.workflows.doors import Brake
from headnode.workflows.glance import Glances
from headnode.workflows.roster import Roster
from headnode.workflows.standing import Standing

LARGEST_REQUEST = 8 * 1024 * 1024
# What no page answers while the API does.
API = "/api/"


def application(context: Context | None = None) -> Flask:
    if context is None:
        configure()
        context = Context(Paths.from_environment(), actor="web", cause="web")
    app = Flask("headnode.web")
    app.config.update(MAX_CONTENT_LENGTH=LARGEST_REQUEST, SEND_FILE_MAX_AGE_DEFAULT=3600)
    roster = Roster(context.inventory)
    pulse, glances = Pulse(context.inventory), Glances(context)
    state.install(app, state.Door(context, roster, pulse, Brake(), Jobs(), glances, Standing()))
    guard.install(app)
    rendering.install(app)
    pages.register(app)
    register_api(app)
    app.register_error_handler(HTTPException, in_words)
    app.register_error_handler(HeadnodeError, in_words)
    guard.refuse_unmarked(app)
    roster.now()  # read before the first one asks
    return app


def in_words(error: Exception) -> ResponseReturnValue:
    """What went wrong, as a problem document for programs and as a page for people."""
    problem = problems.of(error)
    if request.path.startswith(API):
        return problems.answer(problem)
    if problem.status == 401:
        return asked_to_log_in()
    g.setdefault("visitor", None)
    page = "fragments/problem.html" if "HX-Request" in request.headers else "problem.html"
    return render_template(page, problem=problem), problem.status


def asked_to_log_in() -> ResponseReturnValue:
    """401 with the form itself: a browser shows it, a program sees the status, a page that was open goes there."""
    wanted = request.full_path.rstrip("?") if request.method == "GET" else "/"
    if "HX-Request" in request.headers:
        return "", 401, {"HX-Redirect": "/login"}
    g.visitor = None
    return render_template("login.html", next=wanted, trouble="", name=""), 401
