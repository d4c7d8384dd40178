"""What somebody meets who has just found Headnode: the README's tour, and commands that have nothing to show yet."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import headnode, mac

HERE = Path(__file__).parents[2]
TOUR = re.compile(r"## A tour in 60 seconds\n+```sh\n(.*?)```", re.DOTALL)


def test_the_tour_of_the_readme_works_as_it_stands(tmp_path: Path) -> None:
    (found,) = TOUR.findall((HERE / "README.md").read_text())
    steps = [line for line in found.replace("\\\n", " ").splitlines() if line.startswith("headnode ")]
    assert len(steps) == 10
    script = found.replace("HEADNODE_ROOT=/tmp/demo PATH=$PWD/.venv/bin:$PATH", f"HEADNODE_ROOT={tmp_path}/demo")
    assert script != found
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eu", "-c", script], cwd=HERE, env={**os.environ, "PATH": path}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 to enrol (gpu02,login01), 1 already enrolled and unchanged" in done.stderr
    assert "kernel_args: none → pci=realloc" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.fixture
def young(root: Path) -> Path:
    assert headnode(root, "enroll", "gpu01", "--mac", mac(1), "--profile", "gpu", "--yes").code == 0
    return root


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set", "gpu01", "rack=r1", "--yes"], "Changed 1 node."),
        (["account", "list"], "Nobody yet"),
        (["image", "list"], "'headnode image build cpu' makes one"),
        (["image", "list", "cpu"], "There is no image 'cpu' yet; 'headnode image build cpu' makes one."),
        (["image", "list", "mine"], "There is no image 'mine', and no profile, group or node uses one"),
        (["gpu", "plan", "gpu01"], "never inspected"),
        (["console", "@all", "--grep", "panic"], "Nothing like that was recorded of 1 node."),
        (["seen"], "Nothing unknown"),
    ],
)
def test_a_command_with_nothing_to_show_says_so(young: Path, words: list[str], said: str) -> None:
    done = headnode(young, *words)
    assert (done.code, said in done.err) == (0, True), done.err


def test_nobody_is_sent_to_build_an_image_that_would_be_refused(young: Path) -> None:
    listed, refused = headnode(young, "image", "list", "mine"), headnode(young, "image", "build", "mine")
    assert refused.code == 2
    assert "image build" not in listed.err
    assert refused.err.partition("in use are ")[2].split("\n")[0] in listed.err


def test_what_was_never_inspected_is_not_said_to_have_no_gpu(young: Path) -> None:
    done = headnode(young, "gpu", "plan", "gpu01")
    assert "no NVIDIA GPU" not in done.out + done.err


def test_nothing_is_started_where_the_provision_network_is_missing(young: Path) -> None:
    done = headnode(young, "up")
    assert (done.code, done.out) == (1, "")
    assert "this machine has no such interface" in done.err
    assert not [*(young / "run/headnode").glob("*.lock")]


def test_check_says_each_hint_once(young: Path) -> None:
    done = headnode(young, "check")
    assert done.code == 1
    assert "HINT" not in done.out
    assert done.err.count("'ip link' lists them") == 1
    assert "(provision interface, management interface, foreign DHCP on provision)" in done.err
