"""Fetch what the pages load from npm, exactly the versions that package-lock.json names.

`python -m headnode.web.vendor`, once, when Headnode is installed. Without it every page can still be read;
it only does not move.
"""

import re
import shutil
import sys
import tempfile
from pathlib import Path

from headnode import run

HERE = Path(__file__).parent
TARGET = HERE / "static/vendor"
FILES = {
    "htmx.org/dist/htmx.min.js": "htmx.min.js",
    "@xterm/xterm/lib/xterm.js": "xterm.js",
    "@xterm/xterm/css/xterm.css": "xterm.css",
    "@xterm/addon-fit/lib/addon-fit.js": "addon-fit.js",
    "uplot/dist/uPlot.iife.min.js": "uplot.js",
    "uplot/dist/uPlot.min.css": "uplot.css",
}


def fetch(target: Path = TARGET) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, place)
        # No package may run anything of its own here.
        run.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=place, timeout=600)
        staged = place / "staged"
        staged.mkdir()
        for source, name in FILES.items():
            text = (place / "node_modules" / source).read_text()
            # The maps are not here, and a browser would ask for them.
            (staged / name).write_text(re.sub(r"(?m)^//# sourceMappingURL=.*$", "", text))
        target.mkdir(parents=True, exist_ok=True)
        for file in staged.iterdir():
            shutil.move(file, target / file.name)


if __name__ == "__main__":
    fetch()
    sys.stderr.write(f"The pages' scripts are in {TARGET}\n")
