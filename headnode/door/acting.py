"""Starting an action on nodes, for pages and API alike: judged first, done beside, written down at both ends."""

from collections.abc import Sequence

from headnode.accounts import Entry
from headnode.door import audit, state
from headnode.door.jobs import Job
from headnode.model import Node
from headnode.nodeset import fold
from headnode.workflows.actions import Action, Options


def start(action: Action, nodes: Sequence[Node], options: Options) -> Job:
    """Whatever is wrong with the wish as a whole is said now; what single nodes answer comes with the job."""
    at, names = state.context(), [node.name for node in nodes]
    words = " ".join(f"{key}={value}" for key, value in options.items())
    audit.about(names, words, action=action.name)
    list(action.preview(at, nodes, options))
    entry = Entry(at.actor, audit.origin(), state.visitor().door, action.name, fold(names))

    def work(job: Job) -> None:
        action.run(at, nodes, options, job.report.tell)

    def written_down(job: Job) -> None:
        bad = [answer.name for answer in job.report.answers.values() if not answer.ok]
        detail = job.error or (f"failed: {fold(bad)}" if bad else words)
        result = "done" if job.state == "done" else "failed"
        at.inventory.accounts.write(
            Entry(entry.who, entry.origin, entry.door, entry.action, entry.nodes, result, detail)
        )

    audit.write_now("asked")
    title = f"{action.title}: {fold(names)}"
    return state.door().jobs.start(title, at.actor, work, nodes=names, afterwards=written_down)
