"""Following a log: nothing lost, nothing twice."""

from pathlib import Path

import pytest

from headnode.tail import Position, Tail


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def append(path: Path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


def test_lines_come_when_they_are_complete(log: Path) -> None:
    tail = Tail(log)
    assert tail.lines() == [], "there may be no log yet"
    append(log, "one\ntw")
    assert tail.lines() == ["one"]
    append(log, "o\n")
    assert tail.lines() == ["two"]
    assert tail.lines() == []
    tail.close()


def test_another_process_goes_on_where_this_one_was(log: Path) -> None:
    append(log, "one\ntwo\nthr")
    first = Tail(log)
    assert first.lines() == ["one", "two"]
    where = Position.parse(str(first.position))
    first.close()
    append(log, "ee\n")
    second = Tail(log, where)
    assert second.lines() == ["three"]
    second.close()


def test_a_rotated_log_is_read_to_its_end(log: Path) -> None:
    append(log, "one\n")
    tail = Tail(log)
    assert tail.lines() == ["one"]
    old = log.rename(log.with_name("log.1"))
    append(old, "two\n")
    append(log, "four\n")
    assert tail.lines() == ["two"]
    assert tail.lines() == []
    append(old, "three\n")  # a writer that had not noticed yet
    assert tail.lines() == ["three"]
    assert tail.lines() == []
    assert tail.lines() == ["four"]
    tail.close()


def test_a_log_that_was_rotated_while_nobody_read_is_not_forgotten(log: Path) -> None:
    append(log, "one\n")
    tail = Tail(log)
    tail.lines()
    where = tail.position
    tail.close()
    append(log, "two\n")
    log.rename(log.with_name("log.1"))
    append(log, "three\n")
    again = Tail(log, where)
    assert [line for _ in range(4) for line in again.lines()] == ["two", "three"]
    again.close()


def test_a_truncated_log_is_read_from_its_beginning(log: Path) -> None:
    append(log, "one\ntwo\n")
    tail = Tail(log)
    tail.lines()
    log.write_text("new\n")
    assert [line for _ in range(3) for line in tail.lines()] == ["new"]
    tail.close()


def test_bytes_that_are_no_text_do_no_harm(log: Path) -> None:
    log.write_bytes(b"\xff\xfe\n\0\n")
    tail = Tail(log)
    assert len(tail.lines()) == 2
    tail.close()


@pytest.mark.parametrize("text", ["", "x", "1", "1:", ":1", "-1:5", "1:x", "1:2:3"])
def test_a_position_that_makes_no_sense_is_the_beginning(text: str) -> None:
    assert Position.parse(text) == Position()
