"""Between the model and what the API says: nothing but translation."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from headnode.accounts import Account, ApiToken, Entry
from headnode.door.jobs import Job
from headnode.model import Deployment, Event, Sighting
from headnode.workflows import actions, discovery
from headnode.workflows.choosing import jsonable
from headnode.workflows.enroll import Plan, summary


def moment(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def event(found: Event) -> dict[str, Any]:
    return {**jsonable(asdict(found)), "at": moment(found.at)}


def deployment(found: Deployment) -> dict[str, Any]:
    keys = ("id", "node", "image", "step", "percent", "result", "reason")
    times = {key: moment(getattr(found, key)) for key in ("started", "deadline", "finished")}
    return {key: getattr(found, key) for key in keys} | {"intent": found.intent.value} | times


def job(found: Job) -> dict[str, Any]:
    return {
        "id": found.id,
        "title": found.title,
        "state": found.state,
        "who": found.who,
        "started": moment(found.started),
        "finished": moment(found.finished),
        "error": found.error or None,
        "hint": found.hint or None,
        "answers": [actions.document(answer) for answer in list(found.report.answers.values())],
        "lines": list(found.lines),
    }


def plan(made: Plan) -> dict[str, Any]:
    return {
        "rows": [
            {
                "name": item.name,
                "verdict": item.verdict.value,
                "address": item.node.address if item.node else None,
                "profile": item.node.profile if item.node else None,
                "problems": list(item.problems),
            }
            for item in made.items
        ],
        "summary": summary(made),
    }


def sighting(found: Sighting) -> dict[str, Any]:
    return {
        "mac": found.mac,
        "vendor": discovery.vendor(found.mac),
        "first": moment(found.first),
        "last": moment(found.last),
        "architecture": found.architecture,
        "client_id": found.client_id,
    }


def account(found: Account) -> dict[str, Any]:
    return {
        "name": found.name,
        "role": found.role.value,
        "created": moment(found.created),
        "disabled": moment(found.disabled),
        "second_factor": found.sealed_totp is not None,
    }


def token(found: ApiToken) -> dict[str, Any]:
    times = {key: moment(getattr(found, key)) for key in ("created", "expires", "used")}
    return {"id": found.id, "label": found.label, "scope": found.scope.value, "owner": found.owner, **times}


def entry(found: Entry) -> dict[str, Any]:
    return {**asdict(found), "at": moment(found.at)}


def image(found: Any) -> dict[str, Any]:
    keys = ("reference", "name", "version", "size", "unpacked_size", "sha256")
    return {key: getattr(found, key) for key in keys} | {"manifest": dict(found.manifest)}


def selected(items: Sequence[dict[str, Any]], fields: Sequence[str]) -> list[dict[str, Any]]:
    return [{key: item.get(key) for key in fields} for item in items] if fields else list(items)
