"""Whatever a node can say is shown and never obeyed: every field it controls, on every page that shows it."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from flask import Flask

from headnode.model import Intent, Severity, Sighting, State
from headnode.workflows import deploy, planning
from headnode.workflows.context import Context
from ipmi.recording import Kind, Recording
from tests.support import row_of
from tests.web.conftest import Person

PROBE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>{{7*7}}</textarea></pre>"
PAGES = (
    "/", "/cluster/now", "/nodes", "/nodes/rows", "/nodes/gpu01", "/nodes/gpu01/now", "/nodes/gpu01/timeline",
    "/nodes/gpu01/files", "/racks", "/racks?by=temperature", "/enrol", "/audit", "/images", "/site", "/people",
    "/act/deploy?nodes=gpu01", "/act/retire?nodes=gpu01",
)  # fmt: skip


class Watcher(HTMLParser):
    """What a browser would take for more than text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if tag in ("img", "iframe", "object", "embed") or any(name.startswith("on") for name in names):
            self.found.append(f"<{tag} {names}>")
        if tag == "script" and "src" not in names:
            self.found.append("<script> without a file of ours")
        if "style" in names:
            self.found.append(f"<{tag} style>")
        for name, value in attrs:
            ours = re.match(r"^(/|#|https?://localhost)", value or "/")
            if name in ("href", "src", "action", "formaction") and not ours:
                self.found.append(f"{name}={value}")


@pytest.fixture
def hostile(context: Context) -> None:
    """A node that says nothing but probes, wherever it is asked."""
    from headnode.workflows import enroll

    enroll.enroll(context, [row_of(1)])
    (node,) = context.inventory.nodes(["gpu01"])
    (work,) = deploy.begin(context, ["gpu01"], Intent.INSPECT)
    words = {"product": PROBE, "cpu_model": PROBE, "serial": {"x": PROBE}, "cpus": [PROBE], "memory_bytes": PROBE,
             "disks": [{"device": PROBE, "model": PROBE, "serial": PROBE, "size": PROBE}, PROBE, None],
             "gpus": {"not": "a list"}, "nics": [{"name": PROBE, "mac": [PROBE]}], PROBE: PROBE}  # fmt: skip
    deploy.report_hardware(context, node, words)
    deploy.progress(context, work, [{"kind": PROBE, "message": PROBE, "step": PROBE, "percent": 5}])
    planning.keep_log(context, work, PROBE)
    deploy.failed(context, work, node, PROBE, PROBE)
    with context.inventory.change("boot plane", PROBE) as change:
        change.record("dhcp", f"host name {PROBE}", node="gpu01", severity=Severity.ERROR, data={"x": PROBE})
        change.record_seen([Sighting("52:54:00:aa:00:99", datetime.now(UTC), datetime.now(UTC), PROBE, PROBE)])
    recording = Recording(context.paths.consoles / "gpu01")
    recording.write(Kind.DATA, f"\x1b]0;{PROBE}\x07\x1b[31m{PROBE}\r\n".encode())
    recording.write(Kind.DATA, bytes(range(256)) + b"\r\n")
    recording.close()
    with context.inventory.change("x", "y") as change:
        change.replace([replace(change.nodes(["gpu01"])[0], state=State.FAILED, reason=PROBE, phase=PROBE[:32])])


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_probes_as_text(app: Flask, admin: Person, path: str) -> None:
    answer = admin.get(path)
    assert answer.status_code == 200, answer.text[:500]
    watcher = Watcher()
    watcher.feed(answer.text)
    assert watcher.found == []
    assert "<script>alert" not in answer.text
    assert ">49<" not in answer.text
    if path in ("/nodes/gpu01", "/", "/nodes", "/nodes/gpu01/timeline"):
        assert "&lt;script&gt;alert(1)" in answer.text  # it is there, as text


@pytest.mark.usefixtures("hostile")
def test_what_a_person_types_is_text_too(admin: Person) -> None:
    for path in (f"/nodes?nodes={PROBE}&text={PROBE}&sort={PROBE}", f"/audit?text={PROBE}&who={PROBE}",
                 f"/nodes/{PROBE}", f"/enrol?mac={PROBE}", f"/racks?by={PROBE}", f"/act/{PROBE}?nodes=gpu01",
                 f"/act/set?nodes=gpu01&with-profile={PROBE}&with-rack={PROBE}", f"/images/{PROBE}",
                 f"/login?next={PROBE}"):  # fmt: skip
        answer = admin.get(path)
        assert answer.status_code in (200, 404, 422), (path, answer.status_code)
        watcher = Watcher()
        watcher.feed(answer.text)
        assert watcher.found == [], path
    answer = admin.post("/enrol/preview", text=f"name,mac\n{PROBE},x\n")
    watcher = Watcher()
    watcher.feed(answer.text)
    assert watcher.found == []


@pytest.mark.usefixtures("hostile")
def test_the_api_says_it_as_json_and_nothing_else(admin: Person) -> None:
    for path in ("/nodes/gpu01", "/nodes/gpu01/hardware", "/events", "/seen", "/cluster", "/why?nodes=gpu01"):
        answer = admin.get(f"/api/v1{path}")
        assert (answer.status_code, answer.mimetype) == (200, "application/json"), path
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    console = admin.get("/api/v1/nodes/gpu01/console")
    assert console.mimetype == "text/plain"
    assert "\x1b" not in console.text
