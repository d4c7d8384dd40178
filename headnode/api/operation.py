"""What makes a function an operation of the API: who may, what it takes and gives, all said once.

From the same words come the route, the checks and the OpenAPI document.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from flask import Flask, Response, request
from flask.typing import ResponseReturnValue
from pydantic import BaseModel, ConfigDict, ValidationError
from werkzeug.exceptions import BadRequest, UnsupportedMediaType
from werkzeug.wrappers import Response as AnyResponse

from headnode.accounts import Reply, Role
from headnode.api import problems
from headnode.door import guard, state
from headnode.door.audit import audited
from headnode.errors import InvalidField, Taken
from headnode.hiding import hidden

PREFIX = "/api/v1"
KEPT_FOR = timedelta(hours=24)
LONGEST_KEY = 200


class Strict(BaseModel):
    """What is sent to us: an unknown name is a mistyped one."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Shown(BaseModel):
    """What we answer with."""

    model_config = ConfigDict(use_attribute_docstrings=True)


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    role: Role
    summary: str
    work: Callable[..., Any]
    query: type[Strict] | None = None
    body: type[Strict] | None = None
    reply: Any = None
    status: int = 200
    # Changes nothing, though it is sent like a change; it leaves no line in the audit log.
    harmless: bool = False
    # Its answer is a secret, told once and kept nowhere.
    secret: bool = False

    @property
    def name(self) -> str:
        return self.work.__name__

    @property
    def writes(self) -> bool:
        return self.method != "GET"


OPERATIONS: list[Operation] = []
Work = Callable[..., Any]


def operation(
    method: str,
    path: str,
    role: Role,
    summary: str,
    *,
    query: type[Strict] | None = None,
    body: type[Strict] | None = None,
    reply: Any = None,
    status: int = 200,
    harmless: bool = False,
    secret: bool = False,
) -> Callable[[Work], Work]:
    def note(work: Work) -> Work:
        OPERATIONS.append(Operation(method, path, role, summary, work, query, body, reply, status, harmless, secret))
        return work

    return note


def add_to(app: Flask) -> None:
    for made in OPERATIONS:
        rule = PREFIX + made.path.replace("{", "<").replace("}", ">")
        view = guard.needs(made.role)(view_of(made))
        app.add_url_rule(rule, f"api.{made.name}", view, methods=[made.method])


def view_of(made: Operation) -> Callable[..., ResponseReturnValue]:
    def view(**parts: str) -> ResponseReturnValue:
        given: dict[str, Any] = dict(parts)
        if made.query is not None:
            given["query"] = parsed(made.query, request.args.to_dict(flat=True))
        if made.body is not None:
            given["body"] = parsed(made.body, sent())
        return answered(made, made.work(**given))

    if made.harmless or not made.writes:
        return view
    return once(audited(made.name)(view), secret=made.secret)


def parsed(model: type[Strict], data: Mapping[str, Any]) -> Strict:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        raise InvalidField(where, first.get("input", ""), str(first["msg"]).lower()) from None


def sent() -> dict[str, Any]:
    if not request.is_json:
        raise UnsupportedMediaType("send JSON with the header Content-Type: application/json")
    found = request.get_json()
    if not isinstance(found, dict):
        raise BadRequest("send a JSON object")
    return found


def answered(made: Operation, said: Any) -> AnyResponse:
    """JSON with a tag, so that a reader who has it already need not read it again."""
    if isinstance(said, AnyResponse):
        answer = said
    elif said is None:
        return Response(status=204)
    else:
        body = said if isinstance(said, bytes) else encoded(said)
        answer = Response(body, made.status, mimetype="application/json")
    if made.writes or answer.is_streamed:
        return answer
    answer.set_etag(hashlib.sha256(answer.get_data()).hexdigest()[:32], weak=True)
    return answer.make_conditional(request)


def encoded(said: Any) -> bytes:
    return hidden(json.dumps(said, default=str)).encode()


def etag_of(said: Any) -> str:
    return hashlib.sha256(encoded(said)).hexdigest()[:32]


def once(view: Callable[..., ResponseReturnValue], *, secret: bool) -> Callable[..., ResponseReturnValue]:
    """A write with an Idempotency-Key is done once; sent again, it gets the answer that was given.

    Not when that was a secret: then it is told that it was done, and that is all that was kept.
    """

    def guarded(**parts: str) -> ResponseReturnValue:
        key = request.headers.get("Idempotency-Key")
        if key is None:
            return view(**parts)
        if not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
            raise InvalidField("Idempotency-Key", key, f"use up to {LONGEST_KEY} printable characters")
        accounts = state.context().inventory.accounts
        owned = f"{state.visitor().account.id} {request.method} {request.path} {key}"
        # With the key, which is kept nowhere: a password that was sent cannot be guessed from what is.
        asked = hashlib.sha256(b"\0".join((owned.encode(), request.full_path.encode(), request.get_data()))).hexdigest()
        before = accounts.claim_reply(owned, asked, KEPT_FOR)
        if before is not None:
            if before.request != asked:
                raise Taken("this Idempotency-Key was used for something else; use a new one")
            return replayed(before, secret=secret)
        try:
            answer = view(**parts)
        except BaseException:
            accounts.forget_reply(owned)  # nothing was done, so it may be tried again
            raise
        if isinstance(answer, AnyResponse):
            accounts.keep_reply(owned, answer.status_code, b"" if secret else answer.get_data())
        return answer

    return guarded


def replayed(before: Reply, *, secret: bool) -> Response:
    if before.status is None:
        raise Taken("the same is under way right now; ask again in a moment")
    if secret:
        raise Taken(
            "this was done already, and what it answered is a secret that is told once",
            hint="if the answer was lost, ask again with a new Idempotency-Key",
        )
    return Response(before.body, before.status, {"Idempotency-Replayed": "true"}, mimetype="application/json")


def refuse_changed(said: Any) -> None:
    """With If-Match, a write happens only to what the writer has seen."""
    wanted = request.if_match
    if wanted and not wanted.contains_weak(etag_of(said)) and not wanted.star_tag:
        raise problems.Changed("it was changed in the meantime; read it again")
