"""An image's packages as a CycloneDX document, which scanners for known vulnerabilities read. Pure."""

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from headnode import __version__
from images.recipes import SUITES, Recipe

SBOM = "sbom.cdx.json"
NAMESPACE = uuid.UUID("6f2c1c55-7a0c-5d4e-9f0b-2d1f3a5b7c90")


def document(name: str, recipe: Recipe, packages: Sequence[Mapping[str, str]], epoch: int) -> dict[str, Any]:
    """The same packages give the same document, to the byte."""
    components = [component(recipe, package) for package in packages]
    identity = f"{name} {recipe.digest} {json.dumps(components, sort_keys=True)}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, identity)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": [{"type": "application", "name": "headnode", "version": __version__}]},
            "component": {"type": "operating-system", "bom-ref": "image", "name": name, "version": recipe.suite},
        },
        "components": components,
    }


def component(recipe: Recipe, package: Mapping[str, str]) -> dict[str, str]:
    address = purl(recipe, package)
    return {
        "type": "library",
        "bom-ref": address,
        "name": package["name"],
        "version": package["version"],
        "purl": address,
    }


def purl(recipe: Recipe, package: Mapping[str, str]) -> str:
    """How package scanners name a Debian package: pkg:deb/debian/bash@5.2-2?arch=amd64&distro=debian-12."""
    release = next((number for (_, number), suite in SUITES.items() if suite == recipe.suite), recipe.suite)
    name, version = quote(package["name"], safe=""), quote(package["version"], safe="")
    distribution = f"{recipe.os}-{release}"
    return f"pkg:deb/{recipe.os}/{name}@{version}?arch={package['architecture']}&distro={distribution}"


def text(name: str, recipe: Recipe, packages: Sequence[Mapping[str, str]], epoch: int) -> str:
    return json.dumps(document(name, recipe, packages, epoch), indent=1) + "\n"
