"""Answers of many BMCs, told in few lines: nodes that say the same share a line."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from headnode.cli.common import FORMATS, emit, note

if TYPE_CHECKING:
    from headnode.bmclink import Answer

# Up to so many failures of one kind are told one by one.
FEW_FAILURES = 3
folded_option = click.option(
    "-o", "--output", type=click.Choice(("folded", *FORMATS)), default="folded", show_default=True,
    help="Format; folded puts nodes that say the same on one line.",
)  # fmt: skip
fanout_option = click.option(
    "--fanout", type=click.IntRange(1, 10_000), help="Ask at most so many BMCs at once.", show_default="256"
)


def fold_answers(answers: "Iterable[Answer]") -> list[str]:
    """`gpu[001-480]: on`, the most frequent first. Pure."""
    from headnode.nodeset import fold

    said: dict[str, list[str]] = {}
    for answer in answers:
        said.setdefault(answer.status, []).append(answer.name)
    return [f"{fold(names)}: {status}" for status, names in sorted(said.items(), key=lambda item: -len(item[1]))]


def explain_failures(answers: "Iterable[Answer]") -> list[str]:
    """What is wrong, once for each kind: by itself for a few nodes, in one sentence for many. Pure."""
    failed: dict[str, list[Answer]] = {}
    for answer in answers:
        if not answer.ok:
            failed.setdefault(answer.status, []).append(answer)
    lines = []
    for alike in failed.values():
        lines += [f"{answer.name}: {answer.error}" for answer in alike[:FEW_FAILURES]]
        if len(alike) > FEW_FAILURES:
            lines.append(f"… and {len(alike) - FEW_FAILURES} more nodes: {alike[0].status}")
        if alike[0].hint:
            lines.append(f"  hint: {alike[0].hint}")
    return lines


def finish(ctx: click.Context, answers: "Sequence[Answer]", output: str) -> None:
    """Print a status for each node, explain failures to the person, and end with 1 if there were any."""
    if output == "folded":
        for line in fold_answers(answers):
            click.echo(line)
    else:
        emit([document(answer) for answer in answers], output, ["name", "status", "error"], ["hint", "seconds"])
    end(ctx, answers)


def end(ctx: click.Context, answers: "Sequence[Answer]") -> None:
    for line in explain_failures(answers):
        note(line)
    if any(not answer.ok for answer in answers):
        ctx.exit(1)


def document(answer: "Answer") -> dict[str, Any]:
    return {
        "name": answer.name,
        "status": answer.status,
        "ok": answer.ok,
        "value": answer.value,
        "error": answer.error or None,
        "hint": answer.hint or None,
        "seconds": round(answer.seconds, 3),
    }


def progress() -> "Callable[[Answer, int], None]":
    """One line on a terminal that counts along; nothing at all for scripts and for a few nodes."""
    counts: Counter[str] = Counter()

    def show(answer: "Answer", total: int) -> None:
        if total < 2 or not sys.stderr.isatty():
            return
        counts[answer.status] += 1
        done = counts.total()
        words = ", ".join(f"{count} {status}" for status, count in counts.most_common(4))
        click.echo("\r\x1b[K" + (f"{done}/{total}: {words}" if done < total else ""), nl=False, err=True)

    return show
