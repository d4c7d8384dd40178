"""The news of headnode/door/live.py as an HTTP answer."""

from datetime import timedelta

from flask import Response

from headnode.door import state
from headnode.errors import HeadnodeError


def news() -> Response:
    """Server-sent events until the page is closed, or the session is over."""
    door, visitor = state.door(), state.visitor()
    if door.pulse.full:
        raise HeadnodeError("too many pages are open at once", hint="this one asks again by itself")
    accounts, idle = door.context.inventory.accounts, timedelta(minutes=door.context.site.web.idle_minutes)

    def still() -> bool:
        """A page that is open is in use; a login that was ended elsewhere ends here too."""
        return not visitor.session or accounts.session(visitor.session, idle) is not None

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(door.pulse.follow(still), mimetype="text/event-stream", headers=headers)
