"""The site, what is published, and whether this machine can serve."""

from typing import Any

from flask import Response
from pydantic import Field

from headnode.accounts import Role
from headnode.api import shapes
from headnode.api.openapi import document
from headnode.api.operation import Strict, operation
from headnode.door import audit, state
from headnode.errors import NotFound
from headnode.site import Site
from headnode.workflows import check, choosing, gpu, hostkeys, publishing, sites, status, verify, why
from images.knownhosts import KNOWN_HOSTS

VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN


@operation("GET", "/openapi.json", VIEWER, "This document", reply={"type": "object"})
def openapi() -> Any:
    return document()


class SiteText(Strict):
    text: str = Field(max_length=1_000_000)


@operation("GET", "/site", VIEWER, "site.yaml as it is in force", reply={"type": "object"})
def show_site() -> Any:
    at = state.context()
    return {"text": sites.shown_text(at), "file": str(at.paths.site_file), "cluster": at.site.cluster}


@operation("GET", "/site/schema", VIEWER, "JSON schema of site.yaml, for editors", reply={"type": "object"})
def site_schema() -> Any:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Site.model_json_schema()}


@operation("POST", "/site/check", VIEWER, "What is wrong with a site.yaml; nothing is changed", body=SiteText,
           reply={"type": "object"}, harmless=True)  # fmt: skip
def check_site(body: SiteText) -> Any:
    return {"problems": sites.problems(state.context(), body.text)}


@operation("GET", "/check", OPERATOR, "Whether this machine can serve the cluster; takes some seconds",
           reply=list[shapes.FindingShown])  # fmt: skip
def check_machine() -> Any:
    return [
        {"check": f.check, "result": f.result.value, "message": f.message, "hint": f.hint or None}
        for f in check.check(state.context())
    ]


class Why(Strict):
    nodes: str = Field(min_length=1, max_length=4000)


@operation("GET", "/why", VIEWER, "Why nodes are not where they should be", query=Why,
           reply={"type": "array", "items": {"type": "object"}})  # fmt: skip
def explain(query: Why) -> Any:
    return [why.document(answer) for answer in why.why(state.context(), query.nodes)]


@operation("GET", "/status", VIEWER, "The health of the whole cluster", reply={"type": "object"})
def cluster_status() -> Any:
    return status.status(state.context()).document


@operation("GET", "/metrics", VIEWER, "The same for Prometheus: nodes by state, and problems", reply="text/plain")
def metrics() -> Any:
    return Response(status.metrics(status.status(state.context())), content_type="text/plain; version=0.0.4")


@operation("GET", "/reports", VIEWER, "What nodes said of themselves last; the action 'verify' asks them", query=Why,
           reply={"type": "object"})  # fmt: skip
def list_reports(query: Why) -> Any:
    chosen = choosing.select(state.context(), query.nodes)
    return verify.document(chosen, verify.reports(state.context(), chosen))


@operation("GET", "/gpu", VIEWER, "The NVIDIA stack of nodes, with the reason for each part", query=Why,
           reply={"type": "array", "items": {"type": "object"}})  # fmt: skip
def gpu_plan(query: Why) -> Any:
    at = state.context()
    found = [(node.name, gpu.planned(at, node)) for node in choosing.select(at, query.nodes)]
    return [
        {
            "node": name,
            "inspected": plan.inspected,
            "summary": plan.stack.summary,
            "items": [{"kind": i.kind.value, "value": i.value, "reason": i.reason} for i in plan.stack.items],
        }
        for name, plan in found
    ]


class Hosts(Strict):
    nodes: str = Field(default="", max_length=4000)
    """Host keys of these nodes; without it, the one line that vouches for all of them."""


@operation("GET", "/known-hosts", VIEWER, "What SSH needs to know the nodes by", query=Hosts, reply="text/plain")
def known_hosts(query: Hosts) -> Any:
    at = state.context()
    if query.nodes:
        return Response(hostkeys.plain_lines(at, choosing.select(at, query.nodes)), mimetype="text/plain")
    found = publishing.render_file(at, KNOWN_HOSTS)
    if found is None:
        raise NotFound("no node has a host key yet", hint="the first deployment makes them")
    return Response(found.content, mimetype="text/plain")


class Publishing(Strict):
    full: bool = False
    """Compare every file, not only those of changed nodes, and remove what nobody published."""


@operation("POST", "/publish", OPERATOR, "Make the configuration of every changed node live", body=Publishing,
           reply=shapes.Published)  # fmt: skip
def publish(body: Publishing) -> Any:
    made = publishing.publish_changes(state.context(), full=body.full)
    audit.about(detail=f"{len(made.written)} written, {len(made.removed)} removed")
    return {
        "nodes": made.nodes,
        "written": list(made.written),
        "removed": list(made.removed),
        "warnings": list(made.warnings),
    }


@operation("GET", "/publish", VIEWER, "What a publish would change", reply=list[shapes.FileChange])
def preview_publish() -> Any:
    return [
        {"path": change.path, "before": text(change.now), "after": text(change.then)}
        for change in publishing.preview(state.context())
    ]


class RenderQuery(Strict):
    path: str = Field(min_length=1, max_length=255)
    """Below the published tree, such as dnsmasq/provision.conf."""


@operation("GET", "/render", VIEWER, "One file as a publish would write it", query=RenderQuery,
           reply=shapes.FileShown)  # fmt: skip
def render(query: RenderQuery) -> Any:
    found = publishing.render_file(state.context(), query.path)
    if found is None:
        raise NotFound(f"nothing is published at '{query.path}'")
    return {"path": query.path, "content": text(found.content), "mode": f"{found.mode:04o}"}


def text(content: bytes | None) -> str | None:
    return None if content is None else sites.shown_file(state.context(), content)
