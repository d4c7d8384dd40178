"""The news of headnode/door/live.py as an HTTP answer."""

from flask import Response

from headnode.door import state, visitors
from headnode.errors import HeadnodeError


def news() -> Response:
    """Server-sent events until the page is closed, or the session or token is over."""
    door, visitor = state.door(), state.visitor()
    if door.pulse.full:
        raise HeadnodeError("too many pages are open at once", hint="this one asks again by itself")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(door.pulse.follow(visitors.watched(door, visitor)), mimetype="text/event-stream", headers=headers)
