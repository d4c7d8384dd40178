"""Reading over HTTP."""

from flask import Flask, jsonify
from flask.typing import ResponseReturnValue

from headnode.accounts import Role
from headnode.door import guard, state


def register(app: Flask) -> None:
    @app.get("/api/v1/nodes")
    @guard.needs(Role.VIEWER)
    def list_nodes() -> ResponseReturnValue:
        return jsonify([dict(member.document) for member in state.roster().members])
