"""The command line: thin. It parses, calls a workflow in this process, and prints.

Commands are imported when they are used, so that `headnode --help` and shell completion stay quick.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import click

from headnode import __version__
from headnode.errors import HeadnodeError

# Command → (module:attribute, its one line in the help). A test compares the lines with the commands' own.
COMMANDS = {
    "init": ("headnode.cli.site:init", "Write a first site.yaml for this machine."),
    "site": ("headnode.cli.site:site", "Check and describe site.yaml."),
    "check": ("headnode.cli.serve:check", "Check that this machine can serve the cluster."),
    "up": ("headnode.cli.serve:up", "Run the head node's services in the foreground."),
    "enroll": ("headnode.cli.enroll:enroll", "Add nodes to the cluster."),
    "nodes": ("headnode.cli.nodes:nodes", "List nodes."),
    "show": ("headnode.cli.nodes:show", "Show everything about a node, and where each value comes from."),
    "set": ("headnode.cli.nodes:set_", "Change fields of nodes."),
    "user": ("headnode.cli.people:user", "Add, change, lock, import and audit people."),
    "group": ("headnode.cli.groups:group", "Add and change groups of people."),
    "power": ("headnode.cli.power:power", "Switch nodes on and off, or tell whether they are on."),
    "bootdev": ("headnode.cli.power:bootdev", "Choose what nodes boot from next."),
    "sensors": ("headnode.cli.bmc:sensors", "Read temperatures, fans, voltages and watts."),
    "sel": ("headnode.cli.bmc:sel", "Read or clear the event logs that BMCs keep."),
    "bmc": ("headnode.cli.bmc:bmc", "Describe BMCs, change their passwords, blink their lights."),
    "console": ("headnode.cli.console:console", "Open, replay or search the consoles of nodes."),
    "maintain": ("headnode.cli.maintenance:maintain", "Take nodes out of service for a while."),
    "resume": ("headnode.cli.maintenance:resume", "Take nodes back into service."),
    "retire": ("headnode.cli.nodes:retire", "Take nodes out of the cluster for good."),
    "status": ("headnode.cli.status:status", "Show the health of the whole cluster on one screen."),
    "why": ("headnode.cli.why:why", "Say why nodes are not up, and what to do about it."),
    "events": ("headnode.cli.nodes:events", "Show what happened."),
    "inspect": ("headnode.cli.deploy:inspect", "Read the hardware of nodes."),
    "deploy": ("headnode.cli.deploy:deploy", "Install nodes."),
    "verify": ("headnode.cli.verify:verify", "Have running nodes show that they are what was asked for."),
    "rescue": ("headnode.cli.deploy:rescue", "Boot a node into the rescue system."),
    "abort": ("headnode.cli.deploy:abort", "Stop what is under way on nodes."),
    "time": ("headnode.cli.time:time_", "Show how far every node's clock is off."),
    "seen": ("headnode.cli.serve:seen", "List unknown hardware that asked for an address."),
    "discover": ("headnode.cli.serve:discover", "Lend addresses to unknown hardware for a while."),
    "publish": ("headnode.cli.publish:publish", "Make the configuration of every changed node live."),
    "render": (
        "headnode.cli.publish:render",
        "Print a file, or all files of nodes, as they would be published.",
    ),
    "diff": ("headnode.cli.publish:diff", "Show what a publish would change."),
    "known-hosts": ("headnode.cli.publish:known_hosts", "Print what SSH needs to know the nodes by."),
    "image": ("headnode.cli.images:image", "Build images and the ramdisk, and look after them."),
    "mirror": ("headnode.cli.mirror:mirror", "Carry packages to a site without Internet."),
    "backup": ("headnode.cli.backup:backup", "Save everything that cannot be made again in one encrypted file."),
    "restore": ("headnode.cli.backup:restore", "Bring a head node back from a backup."),
    "gpu": ("headnode.cli.gpu:gpu", "Show what nodes' GPUs need, and the rules behind it."),
    "lab": ("headnode.cli.lab:lab", "A whole cluster on this machine: emulated nodes, real everything else."),
    "account": ("headnode.cli.account:account", "Say who may use the pages and the API."),
    "service": ("headnode.cli.serve:service", "Run or describe single services; for systemd."),
    "completion": ("headnode.cli.completion:completion", "Print the shell's completion script."),
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)  # noqa: S101 - for the type checker
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Every command has --help with examples: 'headnode enroll --help'.",
)
@click.version_option(__version__, prog_name="headnode", message="%(prog)s %(version)s")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="HEADNODE_ROOT",
    default="/",
    show_default=True,
    help="Keep everything below this directory, for labs and tests. [env: HEADNODE_ROOT]",
)
@click.option("-v", "--verbose", is_flag=True, help="Log what is done, such as every program that is run.")
@click.pass_context
def cli(ctx: click.Context, root: Path, verbose: bool) -> None:
    """Headnode turns one Linux machine into the head node of a GPU cluster.

    \b
    Examples:
      headnode init
      headnode enroll gpu01 --mac 52:54:00:aa:00:01 --bmc 10.21.0.11 --profile gpu
      headnode deploy gpu01 --watch
      headnode status
      headnode why gpu01
    """
    if verbose:
        from headnode.log import configure

        configure(verbose=True)
    ctx.obj = Path(root).absolute()


def main() -> None:
    """Run a command; whatever goes wrong is one sentence and a hint, and the exit code tells which kind it was."""
    try:
        outcome: Any = cli.main(prog_name="headnode", standalone_mode=False)
        sys.stdout.flush()
        code = outcome if isinstance(outcome, int) else 0
    except HeadnodeError as error:
        code = complain(error)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("\nheadnode: stopped; nothing more was done", err=True)
        code = 130
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        if "HEADNODE_DEBUG" in os.environ:
            raise
        click.echo(f"headnode: internal error: {type(error).__name__}: {error}", err=True)
        click.echo("  hint: this is a bug in Headnode; HEADNODE_DEBUG=1 shows where", err=True)
        code = 1
    sys.exit(code)


def complain(error: HeadnodeError) -> int:
    for line in error.message.splitlines():
        click.echo(f"headnode: {line}", err=True)
    if error.hint:
        click.echo(f"  hint: {error.hint}", err=True)
    return error.exit_code
