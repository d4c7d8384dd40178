"""Users and groups of the nodes, and everybody's clock."""

from dataclasses import asdict
from typing import Any

from pydantic import Field

from headnode.accounts import Role
from headnode.api import shapes
from headnode.api.operation import Strict, operation
from headnode.door import audit, state
from headnode.workflows import choosing, people
from headnode.workflows import clocks as clock_workflow
from headnode.workflows.personfields import Wish

VIEWER, ADMIN = Role.VIEWER, Role.ADMIN


@operation("GET", "/users", VIEWER, "Users of the nodes", reply=list[shapes.UserShown])
def list_users() -> Any:
    with people.directory(state.context()) as found:
        return [asdict(person) for person in found.people()]


class NewUser(Strict):
    name: str = Field(min_length=1, max_length=32)
    full_name: str = Field(default="", max_length=100)
    email: str = Field(default="", max_length=200)
    ssh_keys: list[str] = Field(default=[], max_length=100)
    groups: list[str] = Field(default=[], max_length=100)
    uid: int | None = Field(default=None, ge=1, le=2_000_000_000)


@operation("POST", "/users", ADMIN, "Add a user", body=NewUser, reply=shapes.UserShown)
def add_user(body: NewUser) -> Any:
    audit.about(detail=body.name)
    wish = Wish(body.name, body.full_name, body.email, tuple(body.ssh_keys), tuple(body.groups), number=body.uid)
    return asdict(people.add(state.context(), wish))


class UserChange(Strict):
    full_name: str | None = Field(default=None, max_length=100)
    email: str | None = Field(default=None, max_length=200)
    ssh_keys: list[str] | None = Field(default=None, max_length=100)
    groups: list[str] | None = Field(default=None, max_length=100)
    locked: bool | None = None


@operation("PATCH", "/users/{name}", ADMIN, "Change a user, or lock them out", body=UserChange, reply=shapes.UserShown)
def change_user(name: str, body: UserChange) -> Any:
    at = state.context()
    given = {key: value for key, value in body.model_dump(exclude={"locked"}).items() if value is not None}
    audit.about(detail=f"{name[:64]}: {', '.join(given) or body.locked}")
    if given:
        people.change(at, name, {key: tuple(v) if isinstance(v, list) else v for key, v in given.items()})
    if body.locked is not None:
        people.set_locked(at, name, body.locked)
    with people.directory(at) as found:
        return asdict(found.person(name))


@operation("DELETE", "/users/{name}", ADMIN, "Remove a user; their number is never given again")
def remove_user(name: str) -> None:
    audit.about(detail=name[:64])
    people.remove(state.context(), name)


@operation("GET", "/groups", VIEWER, "Groups of the nodes", reply=list[shapes.GroupShown])
def list_groups() -> Any:
    with people.directory(state.context()) as found:
        return [asdict(group) for group in found.groups()]


class NewGroup(Strict):
    name: str = Field(min_length=1, max_length=32)
    description: str = Field(default="", max_length=100)
    gid: int | None = Field(default=None, ge=1, le=2_000_000_000)


@operation("POST", "/groups", ADMIN, "Add a group", body=NewGroup, reply=shapes.GroupShown)
def add_group(body: NewGroup) -> Any:
    audit.about(detail=body.name)
    return asdict(people.add_group(state.context(), body.name, body.gid, body.description))


class Members(Strict):
    add: list[str] = Field(default=[], max_length=1000)
    remove: list[str] = Field(default=[], max_length=1000)


@operation("PATCH", "/groups/{name}", ADMIN, "Change who is in a group", body=Members, reply=shapes.GroupShown)
def change_group(name: str, body: Members) -> Any:
    audit.about(detail=f"{name[:64]}: +{' '.join(body.add)} -{' '.join(body.remove)}"[:500])
    return asdict(people.change_members(state.context(), name, body.add, body.remove))


@operation("DELETE", "/groups/{name}", ADMIN, "Remove a group; its number is never given again")
def remove_group(name: str) -> None:
    audit.about(detail=name[:64])
    people.remove_group(state.context(), name)


class Which(Strict):
    nodes: str = Field(min_length=1, max_length=4000)


@operation("GET", "/time", VIEWER, "How far off the nodes' clocks are, the worst first", query=Which,
           reply={"type": "array", "items": {"type": "object"}})  # fmt: skip
def clocks(query: Which) -> Any:
    at = state.context()
    return [asdict(found) for found in clock_workflow.readings(at, choosing.select(at, query.nodes))]
