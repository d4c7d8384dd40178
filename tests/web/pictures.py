"""Write docs/screenshots anew: `python -m tests.web.pictures`, as root; pngquant makes them small."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.web import machines
from tests.web.door import first_admin

TARGET = Path("docs/screenshots")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, machines.lab(Path(scratch)) as lab:
        first_admin(lab.door)
        lab.door.post("/act/power-cycle", nodes="gpu03", count="1")
        lab.door.post("/act/set", nodes="gpu[010-020]", count="10", **{"with-profile": "gpu"})
        shutil.rmtree(TARGET, ignore_errors=True)
        said = lab.run("pages.mjs", PAGES=json.dumps(machines.PAGES), SHOTS=str(TARGET.absolute()))
    # Few colours are on any page, and a picture in the documentation is looked at, not measured.
    listed = [str(picture) for picture in sorted(TARGET.glob("*.png"))]
    subprocess.run(["pngquant", "--force", "--strip", "--ext", ".png", "--speed", "1", "64", *listed], check=True)
    size = sum(picture.stat().st_size for picture in TARGET.glob("*.png"))
    sys.stderr.write(f"{len(list(TARGET.glob('*.png')))} pictures, {size / 1e6:.2f} MB; {said}\n")


if __name__ == "__main__":
    main()
