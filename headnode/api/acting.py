"""Doing something to many nodes: look first, then ask, then follow the job."""

from typing import Any

from pydantic import Field

from headnode.accounts import Role
from headnode.api import documents, shapes
from headnode.api.operation import Strict, operation
from headnode.door import acting, state
from headnode.errors import NotFound
from headnode.workflows import actions, choosing

LONGEST_WAIT = 30


class Wish(Strict):
    nodes: str = Field(min_length=1, max_length=4000)
    """A node set."""
    options: dict[str, str] = Field(default={}, max_length=50)
    """For deploy: image, erase; for bootdev: device; for maintain: reason; for set: the fields."""


class CountedWish(Wish):
    count: int = Field(ge=1, le=100_000)
    """How many nodes that is: refused when it is another number."""
    wait: int = Field(default=0, ge=0, le=LONGEST_WAIT)
    """Seconds to wait for the end; without it the job is answered at once."""


@operation("POST", "/actions/{action}/preview", Role.OPERATOR, "What an action would do to each node", body=Wish,
           reply=shapes.Preview, harmless=True)  # fmt: skip
def preview_action(action: str, body: Wish) -> Any:
    at, found = state.context(), actions.find(action)
    chosen = choosing.select(at, body.nodes)
    lines = found.preview(at, chosen, actions.check_options(found, body.options))
    return {
        "action": action,
        "count": len(chosen),
        "lines": [{"node": line.node, "text": line.text} for line in lines],
    }


@operation("POST", "/actions/{action}", Role.OPERATOR, "Do something to nodes: power-on, deploy, set, retire, …",
           body=CountedWish, reply=shapes.JobShown, status=202)  # fmt: skip
def start_action(action: str, body: CountedWish) -> Any:
    at, found = state.context(), actions.find(action)
    chosen = choosing.select(at, body.nodes)
    actions.refuse_other_count(chosen, str(body.count))
    job = acting.start(found, chosen, actions.check_options(found, body.options))
    job.over.wait(body.wait)
    return documents.job(job)


@operation("GET", "/jobs", Role.VIEWER, "What was asked for lately, newest first", reply=list[shapes.JobShown])
def list_jobs() -> Any:
    return [documents.job(job) for job in reversed(list(state.door().jobs.kept.values()))]


@operation("GET", "/jobs/{id}", Role.VIEWER, "How far it is", reply=shapes.JobShown)
def show_job(id: str) -> Any:
    found = state.door().jobs.find(id)
    if found is None:
        raise NotFound("there is no such job, or not any more", hint="events and audit log have what was done")
    return documents.job(found)
