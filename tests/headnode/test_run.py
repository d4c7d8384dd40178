"""Starting programs: what they say is kept, what they are told is not logged."""

import os
import time
from pathlib import Path

import pytest

from headnode import run
from headnode.errors import ProgramFailed, ProgramMissing


def test_what_a_program_says_comes_back() -> None:
    done = run.run(["sh", "-c", "cat; echo to stderr >&2"], input="to stdin")
    assert (done.returncode, done.stdout, done.stderr) == (0, "to stdin", "to stderr\n")


def test_words_are_never_read_by_a_shell() -> None:
    assert run.run(["echo", "$HOME; ls", "a b"]).stdout == "$HOME; ls a b\n"


def test_without_input_a_program_sees_the_end_of_it() -> None:
    assert run.run(["cat"]).stdout == ""


def test_a_failure_ends_with_the_programs_own_words() -> None:
    with pytest.raises(ProgramFailed, match=r"failed with exit code 3: it broke$") as caught:
        run.run(["sh", "-c", "echo it broke >&2; exit 3"])
    assert (caught.value.returncode, caught.value.stderr) == (3, "it broke\n")


def test_a_failure_can_be_an_answer() -> None:
    assert run.run(["false"], check=False).returncode == 1


def test_a_program_that_is_not_installed_is_named() -> None:
    with pytest.raises(ProgramMissing, match="'no-such-program' is not installed"):
        run.run(["no-such-program"])
    assert not run.have("no-such-program")


def test_a_missing_directory_is_not_taken_for_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(ProgramFailed, match="could not be started"):
        run.run(["true"], cwd=tmp_path / "none")


def test_a_file_that_is_no_program_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("#!/no/such/interpreter\n")
    with pytest.raises(ProgramFailed, match="could not be started: Permission denied"):
        run.run([tmp_path / "file"])
    with pytest.raises(ProgramFailed, match="could not be started"):
        run.run(["echo", "a\0b"])


def test_a_program_that_does_not_answer_is_stopped_with_its_children(tmp_path: Path) -> None:
    """The child holds our end of the pipe: waiting for it would take as long as it likes."""
    with pytest.raises(ProgramFailed, match=r"was stopped after 0\.5 seconds"):
        run.run(["sh", "-c", "sleep 1000 & echo $! > pid; wait"], timeout=0.5, cwd=tmp_path)
    child = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    deadline = time.monotonic() + 10
    while child.exists() and child.read_text().split()[2] != "Z":  # a killed process takes a moment to be gone
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_output_that_is_no_text_is_kept_readable() -> None:
    assert run.run(["printf", r"a\377b"]).stdout == "a�b"


def test_programs_of_administrators_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert "/usr/sbin" in run.search_path()
    assert run.environment({"X": "1"})["LC_ALL"] == "C.UTF-8"
    assert run.environment({"X": "1"})["X"] == "1"


def test_a_spawned_program_has_a_session_of_its_own() -> None:
    process = run.spawn(["sleep", "1000"])
    try:
        assert os.getsid(process.pid) == process.pid
    finally:
        process.kill()
        process.wait()
    with pytest.raises(ProgramMissing):
        run.spawn(["no-such-program"])


def test_the_command_is_logged_and_the_input_is_not(capfd: pytest.CaptureFixture[str]) -> None:
    import structlog

    from headnode import log

    log.configure(verbose=True, json=True)
    try:
        run.run(["cat"], input="the secret")
    finally:
        structlog.reset_defaults()
    logged = capfd.readouterr().err
    assert '"returncode": 0' in logged
    assert "cat" in logged
    assert "the secret" not in logged


def test_nobody_hands_a_line_to_a_shell() -> None:
    for path in Path(run.__file__).parent.rglob("*.py"):
        assert "shell=True" not in path.read_text()
        assert "os.system" not in path.read_text()
