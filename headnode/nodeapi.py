"""The nodes' door: what agents talk to, behind nginx, on the provision network only.

Who is asking is the address nginx saw, and a token that is good once; nothing else a node can send changes that.
Whatever is wrong about a question, the answer is 404 and says nothing.
"""

import pwd
import socket
import struct
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException, NotFound

from headnode import errors
from headnode.errors import HeadnodeError
from headnode.log import logger
from headnode.model import Deployment, Intent, Node
from headnode.paths import Paths
from headnode.workflows import deploy, installing, planning
from headnode.workflows.context import Context

if TYPE_CHECKING:
    from flask.typing import ResponseReturnValue

Work = Callable[[Deployment, Node], "ResponseReturnValue"]


def application(context: Context | None = None) -> Flask:
    app = Flask("headnode.nodeapi")
    app.config["MAX_CONTENT_LENGTH"] = 16 * 1024 * 1024
    here = context or Context(Paths.from_environment(), actor="agent", cause="node API")

    @app.errorhandler(HTTPException)
    def say_nothing(error: HTTPException) -> "ResponseReturnValue":
        return jsonify(error="no"), error.code or 500

    @app.errorhandler(HeadnodeError)
    def say_why(error: HeadnodeError) -> "ResponseReturnValue":
        logger("headnode.nodeapi").warning("refused", address=asker(), path=request.path, reason=error.message)
        return jsonify(error=error.message), 503

    @app.before_request
    def only_through_nginx() -> None:
        if not from_nginx(request.environ.get("gunicorn.socket"), here.paths):
            raise NotFound

    add_open_routes(app, here)
    add_report_routes(app, here)
    add_planning_routes(app, here)
    add_progress_routes(app, here)
    add_installer_routes(app, here)
    return app


def from_nginx(connection: object, paths: Paths) -> bool:
    """The address in the header is believed, so only nginx and root may write it: the kernel knows who is there."""
    if not isinstance(connection, socket.socket) or connection.family != socket.AF_UNIX:
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return user in (0, pwd.getpwnam(paths.nginx_user).pw_uid)


def asker() -> str:
    return request.headers.get("X-Real-IP", "")


def add_open_routes(app: Flask, context: Context) -> None:
    """What a node may ask before it has a session."""

    @app.get("/node/v1/hello")
    def hello() -> "ResponseReturnValue":
        """Who am I? The first thing an agent asks, and how a person sees that the door is open."""
        node = context.inventory.node_at(asker())
        if node is None:
            raise NotFound
        return jsonify(name=node.name, intent=node.intent.value, cluster=context.site.cluster)

    @app.get("/token")
    def token() -> "ResponseReturnValue":
        found = deploy.token_for(context, asker())
        if found is None:
            raise NotFound
        return Response(found + "\n", mimetype="text/plain", headers={"Cache-Control": "no-store"})

    @app.post("/node/v1/claim")
    def claim() -> "ResponseReturnValue":
        claimed = deploy.claim(context, str(body().get("token", "")), asker())
        if claimed is None:
            raise NotFound
        return jsonify(
            session=claimed.session,
            node=claimed.node.name,
            intent=claimed.deployment.intent.value,
            deployment=claimed.deployment.id,
        )


def add_report_routes(app: Flask, context: Context) -> None:
    """What the installed system asks and says."""

    @app.get("/node/v1/expected")
    def expected() -> "ResponseReturnValue":
        """What the node should be, as of now: it may have changed since it was installed."""
        node = context.inventory.reporting_node(asker(), bearer())
        if node is None:
            raise NotFound
        context.refresh()
        return jsonify(planning.expected_of(context, node))

    @app.post("/node/v1/verify")
    def verify() -> "ResponseReturnValue":
        node = context.inventory.reporting_node(asker(), bearer())
        if node is None:
            raise NotFound
        state = deploy.verified(context, node, listed(body().get("checks")))
        return jsonify(state=state.value)


def session_guard(context: Context, *, or_done: bool = False) -> Callable[[Work], Callable[[], "ResponseReturnValue"]]:
    """Only the agent of a node's newest deployment gets past it, while that runs or just after it was done."""

    def with_session(work: Work) -> Callable[[], "ResponseReturnValue"]:
        @wraps(work)
        def guarded() -> "ResponseReturnValue":
            found = context.inventory.running_deployment(asker(), bearer(), or_done=or_done)
            if found is None:
                raise NotFound
            return work(*found)

        return guarded

    return with_session


def add_planning_routes(app: Flask, context: Context) -> None:
    """What the agent tells of its machine, and is told to do."""
    with_session = session_guard(context)

    @app.post("/node/v1/inventory")
    @with_session
    def inventory(deployment: Deployment, node: Node) -> "ResponseReturnValue":
        deploy.report_hardware(context, node, body())
        return jsonify({})

    @app.get("/node/v1/plan")
    @with_session
    def plan(deployment: Deployment, node: Node) -> "ResponseReturnValue":
        try:
            return jsonify(planning.plan_for(context, node, deployment))
        except HeadnodeError as error:
            reason = f"{error.message} ({error.hint})" if error.hint else error.message
            deploy.fail(context, node, "planning", reason, actor="head node", work=deployment)
            return jsonify(reason=reason), 409

    @app.get("/node/v1/overlay")
    @with_session
    def overlay(deployment: Deployment, node: Node) -> "ResponseReturnValue":
        if deployment.intent is Intent.INSPECT:
            # Whoever only looks at a machine needs none of its secrets.
            raise NotFound
        return jsonify(planning.overlay_for(context, node, deployment))


def add_progress_routes(app: Flask, context: Context) -> None:
    """What the agent says while it works, and how it ended."""
    with_session = session_guard(context)
    # An agent whose 'done' was heard but not answered says it again, and has last words.
    until_gone = session_guard(context, or_done=True)

    @app.post("/node/v1/events")
    @until_gone
    def events(deployment: Deployment, node: Node) -> "ResponseReturnValue":
        said = body()
        planning.keep_log(context, deployment, str(said.get("log", "")))
        deploy.progress(context, deployment, listed(said.get("events")), said.get("now"))
        return jsonify({})

    @app.post("/node/v1/done")
    @until_gone
    def done(deployment: Deployment, node: Node) -> "ResponseReturnValue":
        deploy.done(context, deployment, node)
        return jsonify({})

    @app.post("/node/v1/failed")
    @with_session
    def failed(deployment: Deployment, node: Node) -> "ResponseReturnValue":
        said = body()
        planning.keep_log(context, deployment, str(said.get("log", "")))
        deploy.failed(context, deployment, node, str(said.get("step", "?"))[:100], str(said.get("reason", "?"))[:1000])
        return jsonify({})


def add_installer_routes(app: Flask, context: Context) -> None:
    """What distributions' installers ask for. They can send no header, so their session is part of the address."""

    @app.get("/node/v1/installer")
    def installer() -> "ResponseReturnValue":
        script = installing.boot_script(context, asker())
        if script is None:
            raise NotFound
        return plain(script.encode())

    @app.get("/node/v1/seed/<session>/<path:name>")
    def seed(session: str, name: str) -> "ResponseReturnValue":
        deployment, node = under_way(session)
        kind, _, word = name.partition("/")
        try:
            if kind == "step":
                installing.step(context, deployment, node, word)
                return plain(b"noted\n")
            return plain(installing.answer(context, deployment, node, session, name))
        except errors.NotFound as error:
            raise NotFound from error
        except HeadnodeError as error:
            deploy.fail(context, node, "planning", error.message, actor="head node", work=deployment)
            return jsonify(reason=error.message), 409

    @app.post("/node/v1/seed/<session>/report")
    def report(session: str) -> "ResponseReturnValue":
        deployment, _ = under_way(session)
        installing.webhook(context, deployment, body())
        return jsonify({})

    def under_way(session: str) -> tuple[Deployment, Node]:
        """Answers hold secrets, and are given only while the deployment runs."""
        found = context.inventory.running_deployment(asker(), session)
        if found is None or found[0].finished is not None:
            raise NotFound
        return found


def plain(content: bytes) -> Response:
    return Response(content, mimetype="text/plain", headers={"Cache-Control": "no-store"})


def body() -> dict[str, Any]:
    found = request.get_json(silent=True)
    return found if isinstance(found, dict) else {}


def bearer() -> str:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if kind == "Bearer" else ""


def listed(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)][:1000] if isinstance(value, list) else []
