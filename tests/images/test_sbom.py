"""The bill of materials: what scanners read, signed with the image."""

import json
from pathlib import Path

from images.recipes import Recipe
from images.sbom import SBOM, text
from images.signing import signer
from images.store import Store
from tests.images.test_store import MANIFEST, add
from tests.support import headnode

RECIPE = Recipe("debian", "bookworm", "amd64", ("bash",), "linux-image-amd64")
PACKAGES = [
    {"name": "bash", "version": "5.2.15-2+b7", "architecture": "amd64"},
    {"name": "libstdc++6", "version": "12.2.0-14+deb12u1", "architecture": "amd64"},
    {"name": "login", "version": "1:4.13+dfsg1-1+b1", "architecture": "amd64"},
]


def test_every_package_is_named_as_scanners_name_it() -> None:
    found = json.loads(text("gpu", RECIPE, PACKAGES, 1760000000))
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    assert found["metadata"]["timestamp"] == "2025-10-09T08:53:20Z"
    assert [component["purl"] for component in found["components"]] == [
        "pkg:deb/debian/bash@5.2.15-2%2Bb7?arch=amd64&distro=debian-12",
        "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64&distro=debian-12",
        "pkg:deb/debian/login@1%3A4.13%2Bdfsg1-1%2Bb1?arch=amd64&distro=debian-12",
    ]
    references = [component["bom-ref"] for component in found["components"]]
    assert len(set(references)) == len(references)


def test_the_same_packages_give_the_same_bytes_and_others_another_identity() -> None:
    first, again, other = (text("gpu", RECIPE, found, 1) for found in (PACKAGES, PACKAGES, PACKAGES[:2]))
    assert first == again
    assert json.loads(first)["serialNumber"] != json.loads(other)["serialNumber"]


def test_it_is_shown_and_covered_by_the_signature(root: Path, tmp_path: Path) -> None:
    store, key = Store(root / "var/lib/headnode/images"), signer(root / "etc/headnode")
    add(store, key, tmp_path)
    filled = tmp_path / "filled"
    filled.mkdir()
    (filled / "image.tar.zst").write_bytes(b"image")
    (filled / SBOM).write_text(text("gpu", RECIPE, PACKAGES, 1))
    made = store.publish("gpu", filled, MANIFEST, key)
    assert json.loads(headnode(root, "image", "show", "gpu@2", "--sbom").out)["components"][0]["name"] == "bash"
    refused = headnode(root, "image", "show", "gpu@1", "--sbom")
    assert (refused.code, "gpu@1 has no bill of materials" in refused.err) == (2, True)
    (made.directory / SBOM).chmod(0o644)
    (made.directory / SBOM).write_text(text("gpu", RECIPE, PACKAGES[:1], 1))
    assert f"{SBOM} was changed" in headnode(root, "image", "verify", "gpu@2").out
