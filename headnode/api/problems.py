"""Errors as RFC 9457 problem documents: the sentence and the hint that the command line would print."""

from dataclasses import asdict, dataclass

from flask import Response, jsonify
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException

from headnode.errors import HeadnodeError, InvalidInput, NotFound, Taken
from headnode.workflows.doors import Refused, TooMany

TITLES = {
    400: "This makes no sense here",
    401: "Who is asking?",
    403: "Not allowed",
    404: "Not there",
    405: "Not this way",
    409: "In somebody's way",
    412: "Changed in the meantime",
    413: "Too much at once",
    415: "Not in this format",
    422: "This makes no sense here",
    429: "Too often",
    500: "A bug in Headnode",
    503: "Not possible right now",
}


class Changed(HeadnodeError):
    """What somebody wants to change is no longer what they have seen."""


STATUSES = ((Refused, 401), (Changed, 412), (NotFound, 404), (Taken, 409), (InvalidInput, 422))


@dataclass(frozen=True)
class Problem:
    status: int
    title: str
    detail: str
    hint: str = ""
    retry_after: int | None = None
    type: str = "about:blank"


def of(error: Exception) -> Problem:
    if isinstance(error, HTTPException):
        status = error.code or 500
        detail = error.description or TITLES.get(status, "")
        if status in (404, 405, 500):
            detail = {404: "there is nothing here", 405: "this address takes other methods"}.get(status, "it is logged")
        return Problem(status, TITLES.get(status, error.name), detail)
    if isinstance(error, TooMany):
        return Problem(429, TITLES[429], error.message, retry_after=max(1, round(error.wait)))
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        return Problem(422, TITLES[422], f"{where}: {first['msg'].lower()}")
    if isinstance(error, HeadnodeError):
        status = status_of(error)
        return Problem(status, TITLES[status], error.message, error.hint)
    raise error


def status_of(error: HeadnodeError) -> int:
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 503)


def answer(problem: Problem) -> Response:
    said = {key: value for key, value in asdict(problem).items() if value not in (None, "")}
    response = jsonify(said)
    response.status_code = problem.status
    response.mimetype = "application/problem+json"
    if problem.retry_after is not None:
        response.headers["Retry-After"] = str(problem.retry_after)
    if problem.status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="headnode"'
    return response
