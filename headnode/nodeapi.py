"""The nodes' door: what agents talk to, behind nginx, on the provision network only.

Who is asking is the address nginx saw; nothing a node can send changes it.
"""

from typing import TYPE_CHECKING

from flask import Flask, abort, jsonify, request

from headnode.paths import Paths
from headnode.workflows.context import Context

if TYPE_CHECKING:
    from flask.typing import ResponseReturnValue


def application() -> Flask:
    app = Flask("headnode.nodeapi")
    context = Context(Paths.from_environment(), actor="node", cause="node API")

    @app.get("/node/v1/hello")
    def hello() -> "ResponseReturnValue":
        """Who am I? The first thing an agent asks, and how a person sees that the door is open."""
        address = request.headers.get("X-Real-IP", "")
        node = context.inventory.node_at(address)
        if node is None:
            abort(404)
        return jsonify(name=node.name, intent=node.intent.value, cluster=context.site.cluster)

    return app
