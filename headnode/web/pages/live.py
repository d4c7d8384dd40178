"""News for every open page."""

from flask import Blueprint
from flask.typing import ResponseReturnValue

from headnode.accounts import Role
from headnode.door import guard, streams

live = Blueprint("live", __name__)


@live.get("/live")
@guard.needs(Role.VIEWER)
def news() -> ResponseReturnValue:
    return streams.news()
