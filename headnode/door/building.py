"""Building an image beside, with its stages as they come."""

from headnode.accounts import Entry
from headnode.door import audit, state
from headnode.door.jobs import Job
from headnode.workflows import images


def start(name: str, profile: str | None, kernel: str) -> Job:
    at = state.context()
    images.check_build(at, name, profile)
    entry = Entry(at.actor, audit.origin(), state.visitor().door, "image build", detail=name)

    def work(job: Job) -> None:
        built = images.build(at, name, profile=profile, kernel=kernel, progress=job.say)
        job.say(f"{built.reference} is there: {built.size / 1e6:.0f} MB")

    def written_down(job: Job) -> None:
        result = "done" if job.state == "done" else "failed"
        detail = f"{name}: {job.error}" if job.error else name
        at.inventory.accounts.write(Entry(entry.who, entry.origin, entry.door, entry.action, "", result, detail))

    audit.write_now("asked")
    return state.door().jobs.start(f"Build image {name}", at.actor, work, afterwards=written_down)
