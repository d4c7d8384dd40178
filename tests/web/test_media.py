"""Media of installers stand in the list of images, and have a page, though no recipe made them."""

from pathlib import Path

from headnode.workflows.context import Context
from images.signing import signer
from images.store import Store
from tests.headnode.test_installing import UBUNTU
from tests.web.conftest import Person


def test_a_medium_is_shown_beside_images(context: Context, viewer: Person, tmp_path: Path) -> None:
    filled = context.paths.state / "build/medium"
    filled.mkdir(parents=True)
    for file in ("vmlinuz", "initrd", "media.iso"):
        (filled / file).write_bytes(b"x" * 100)
    Store(context.paths.state / "images").publish("ubuntu-24.04", filled, UBUNTU, signer(context.paths.config))
    assert "ubuntu noble" in viewer.get("/images").text
    assert viewer.get("/images/ubuntu-24.04@1").status_code == 200
    assert viewer.get("/api/v1/images/ubuntu-24.04@1/packages").json == []
    assert viewer.get("/api/v1/images").status_code == 200
