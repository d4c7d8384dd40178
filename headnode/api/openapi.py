"""The OpenAPI document, made from the operations themselves."""

import re
import typing
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from headnode import __version__
from headnode.api.operation import OPERATIONS, PREFIX, Operation

PLACE = "#/components/schemas/{model}"
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence: what is wrong and what would be right."},
        "hint": {"type": "string", "description": "What to do next."},
        "retry_after": {"type": "integer"},
    },
}
# What every operation may answer, and those that write.
REFUSALS = {"401": "nobody, or not any more", "403": "the role does not allow it", "404": "there is no such thing",
            "422": "this makes no sense here", "503": "not possible right now"}  # fmt: skip
WRITE_REFUSALS = {"400": "not JSON", "409": "in somebody's way", "413": "too much at once", "415": "not JSON"}


def document() -> dict[str, Any]:
    _, defined = models_json_schema([(model, "validation") for model in models()], ref_template=PLACE, title="Headnode")
    paths: dict[str, dict[str, Any]] = {}
    for made in OPERATIONS:
        paths.setdefault(PREFIX + made.path, {})[made.method.lower()] = described(made)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headnode",
            "version": __version__,
            "description": "Everything the command line can do. Node sets such as gpu[01-16] or @a100 name nodes.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": {**defined.get("$defs", {}), "Problem": PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "headnode"},
            },
        },
    }


def models() -> list[type[BaseModel]]:
    found: dict[str, type[BaseModel]] = {}
    for made in OPERATIONS:
        for kind in (made.body, *typing.get_args(made.reply), made.reply):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                found[kind.__name__] = kind
    return list(found.values())


def described(made: Operation) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": made.name,
        "summary": made.summary,
        "tags": [made.path.split("/")[1]],
        "x-role": made.role.value,
        "parameters": [*path_parameters(made.path), *query_parameters(made), *header_parameters(made)],
        "responses": responses(made),
    }
    if made.body is not None:
        schema = {"$ref": PLACE.format(model=made.body.__name__)}
        said["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return said


def path_parameters(path: str) -> list[dict[str, Any]]:
    # A slash would be another address, and an empty name none at all.
    shape = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[^/]+$"}
    return [{"name": name, "in": "path", "required": True, "schema": shape} for name in re.findall(r"{(\w+)}", path)]


def query_parameters(made: Operation) -> list[dict[str, Any]]:
    if made.query is None:
        return []
    shape = made.query.model_json_schema()
    needed = shape.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in needed, "description": part.pop("description", ""),
         "schema": part}
        for name, part in shape["properties"].items()
    ]  # fmt: skip


def header_parameters(made: Operation) -> list[dict[str, Any]]:
    if not made.writes:
        return []
    said = "The same key again gets the same answer, and nothing is done twice."
    if made.secret:
        said = "The same key again gets 409, and nothing is done twice: the answer is a secret that is told once."
    shape = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}
    return [{"name": "Idempotency-Key", "in": "header", "required": False, "description": said, "schema": shape}]


def responses(made: Operation) -> dict[str, Any]:
    refused = REFUSALS | (WRITE_REFUSALS if made.writes else {"304": "as you have it"})
    if made.method == "PATCH":
        refused |= {"412": "changed in the meantime"}
    problem = {"application/problem+json": {"schema": {"$ref": PLACE.format(model="Problem")}}}
    found: dict[str, Any] = {
        status: {"description": said, **({} if status == "304" else {"content": problem})}
        for status, said in sorted(refused.items())
    }
    if made.reply is None:
        return {"204": {"description": "done"}, **found}
    return {str(made.status): {"description": "answered", "content": content(made)}, **found}


def content(made: Operation) -> dict[str, Any]:
    if isinstance(made.reply, str):
        return {made.reply: {"schema": {"type": "string"}}}
    if isinstance(made.reply, dict):
        return {"application/json": {"schema": made.reply}}
    inner = typing.get_args(made.reply)
    if inner:
        return {
            "application/json": {"schema": {"type": "array", "items": {"$ref": PLACE.format(model=inner[0].__name__)}}}
        }
    return {"application/json": {"schema": {"$ref": PLACE.format(model=made.reply.__name__)}}}
