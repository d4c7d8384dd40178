"""An image that arrives whole, in pieces, damaged, too short, or not at all."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headnode.run import run
from images.agent.errors import Refused, StepFailed
from images.agent.head import Head, NoAnswer
from images.agent.plan import Step
from images.agent.report import Reporter
from images.agent.runner import Log
from images.agent.stream import CHUNK, Ahead, unpack
from tests.images.fakehead import SESSION, FakeHead, serve

pytestmark = [pytest.mark.program("zstd", "tar")]
URL = "/images/t@1/image.tar.zst"


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[tuple[FakeHead, Head, Step]]:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for number in range(40):
            member = tarfile.TarInfo(f"./file{number}")
            member.size = 50_000
            archive.addfile(member, io.BytesIO(hashlib.shake_256(bytes([number])).digest(50_000)))
    (tmp_path / "image.tar").write_bytes(content.getvalue())
    packed = tmp_path / "image.tar.zst"
    run(["zstd", "-q", tmp_path / "image.tar", "-o", packed])
    (tmp_path / "target").mkdir()
    whole = packed.read_bytes()
    step = Step("image", "image", url=URL, sha256=hashlib.sha256(whole).hexdigest(), size=len(whole),
                target=str(tmp_path / "target"))  # fmt: skip
    said = FakeHead(files={URL: packed})
    server = serve(said)
    yield said, Head(f"http://127.0.0.1:{server.server_port}", patience=2, sleep=lambda _: None), step
    server.shutdown()
    server.server_close()


def stream(head: Head, step: Step) -> list[int]:
    seen: list[int] = []
    unpack(head, step, seen.append, patience=3, sleep=lambda _: None)
    return seen


def test_whole(fake: tuple[FakeHead, Head, Step]) -> None:
    _, head, step = fake
    assert stream(head, step)[-1] == step.size
    assert len(list(Path(step.target).iterdir())) == 40


def test_broken_connections_are_taken_up_where_they_broke(fake: tuple[FakeHead, Head, Step]) -> None:
    said, head, step = fake
    said.trouble[URL] = [700_000, 503, 1000, 502, 100_000]
    stream(head, step)
    assert len(list(Path(step.target).iterdir())) == 40
    assert len(said.requests) == 6


def test_a_flipped_bit(fake: tuple[FakeHead, Head, Step]) -> None:
    said, head, step = fake
    content = bytearray(said.files[URL].read_bytes())
    content[len(content) // 2] ^= 0x10
    said.files[URL].write_bytes(content)
    with pytest.raises(StepFailed, match="is damaged: its SHA-256 is"):
        stream(head, step)


def test_it_comes_before_it_is_needed_and_waits_in_bounds(fake: tuple[FakeHead, Head, Step]) -> None:
    _, head, step = fake
    assert step.size > 1.5 * CHUNK, "otherwise there would be nothing to wait"
    ahead = Ahead(head, step, room=CHUNK)
    ahead.wait_until_begun()
    assert ahead._queue.qsize() == 1
    unpack(head, step, lambda _: None, ahead=ahead)
    assert len(list(Path(step.target).iterdir())) == 40


def test_what_nobody_reads_any_more_is_let_go(fake: tuple[FakeHead, Head, Step]) -> None:
    _, head, step = fake
    ahead = Ahead(head, step, room=CHUNK)
    ahead.wait_until_begun()
    ahead.close()
    ahead._thread.join(10)
    assert not ahead._thread.is_alive()


def test_an_image_that_is_not_there_is_noticed_at_once(fake: tuple[FakeHead, Head, Step]) -> None:
    said, head, step = fake
    said.files.clear()
    with pytest.raises(StepFailed, match="is not on the head node"):
        Ahead(head, step).wait_until_begun()


def test_a_shorter_file(fake: tuple[FakeHead, Head, Step]) -> None:
    said, head, step = fake
    said.files[URL].write_bytes(said.files[URL].read_bytes()[:-100])
    with pytest.raises(StepFailed, match=f"has {step.size - 100} bytes on the head node, and the plan says"):
        stream(head, step)


def test_a_download_that_always_breaks(fake: tuple[FakeHead, Head, Step]) -> None:
    said, head, step = fake
    said.trouble[URL] = [5000] + [503] * 100
    with pytest.raises(StepFailed, match=rf"after 5000 of {step.size} bytes: the head node answers 503"):
        stream(head, step)


def test_an_image_deleted_in_the_middle(fake: tuple[FakeHead, Head, Step]) -> None:
    said, head, step = fake
    said.trouble[URL] = [5000, 404]
    with pytest.raises(StepFailed, match="not on the head node any more, after 5000 bytes"):
        stream(head, step)


def test_an_image_that_never_was(fake: tuple[FakeHead, Head, Step]) -> None:
    _, head, step = fake
    with pytest.raises(StepFailed, match=r"/images/other is not on the head node$"):
        stream(head, replace(step, url="/images/other"))


def test_right_bytes_that_are_no_archive(fake: tuple[FakeHead, Head, Step]) -> None:
    said, head, step = fake
    content = b"this is no archive" * 1000
    said.files[URL].write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    with pytest.raises(StepFailed, match=r"could not be unpacked: .*zstd"):
        stream(head, replace(step, sha256=digest, size=len(content)))


def test_a_target_that_is_not_there(fake: tuple[FakeHead, Head, Step]) -> None:
    _, head, step = fake
    with pytest.raises(StepFailed, match=r"could not be unpacked: .*Cannot open: No such file"):
        stream(head, replace(step, target="/nowhere"))


def test_the_head_node_comes_back(fake: tuple[FakeHead, Head, Step]) -> None:
    said, head, _ = fake
    said.trouble["/token"] = [502, 503]
    assert head.text("/token") == "one-time-token\n"
    assert len(said.requests) == 3


def test_no_is_an_answer(fake: tuple[FakeHead, Head, Step]) -> None:
    said, head, _ = fake
    with pytest.raises(Refused) as refused:
        head.get("/node/v1/plan")
    assert refused.value.status == 404
    head.session = SESSION
    with pytest.raises(Refused, match="there is no plan for this machine"):
        head.get("/node/v1/plan")
    assert len(said.requests) == 2


def test_nobody_answers() -> None:
    head = Head("http://127.0.0.1:1", patience=1, sleep=lambda _: None)
    with pytest.raises(NoAnswer, match="does not answer"):
        head.text("/token")


def test_reports_come_in_batches_and_are_kept_when_they_cannot_be_sent(fake: tuple[FakeHead, Head, Step]) -> None:
    said, head, _ = fake
    head.session = SESSION
    reporter = Reporter(head, Log())
    for percent in range(50):
        reporter.event("progress", "streaming", step="image", percent=percent, size=percent)
    reporter.event("step", "next", step="grub")
    said.trouble["/node/v1/events"] = [503]
    assert reporter.send() is False
    reporter.event("step", "last", step="done")
    assert reporter.send() is True
    assert [(event["kind"], event["percent"]) for event in said.events] == [
        ("progress", 49),
        ("step", None),
        ("step", None),
    ]
    assert said.log == "headnode: next\nheadnode: last\n"
    assert reporter.send() is True
    assert len(said.requests) == 2, "nothing new is nothing to send"
