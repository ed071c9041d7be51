"""The `circlet` command: one program with subcommands, one file each."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from io import TextIOWrapper

import click

from circlet.cli.common import start_logging
from circlet.cli.console import say
from circlet.errors import CircletError, FileError
from circlet.escape import escaped

_COMMANDS = {
    "run": "run a network on pictures, arrays or random data",
    "compile": "compile a network to an artifact that runs without a compiler",
    "keygen": "make a key that signs artifacts",
    "sign": "sign an artifact, for those who accept the key",
    "dump": "print what a model file holds",
    "place": "say where each operator runs, and place operators by hand",
    "pareto": "find the placements that no other beats in time and memory",
    "inspect": "say what a network costs: operators, memory, weights, placement",
    "profile": "say where a network's time goes, operator by operator, and why",
    "costs": "say what operators cost on each backend, measured and predicted",
    "memory": "say what a run needs of memory, and what is alive at the peak",
    "bench": "time a network, by other engines in turn as well",
    "report": "write a page for a browser: graph, times, memory, placement",
    "verify": "check a network against every rule, and list what cannot be run",
    "convert": "turn a model file into one of another format",
    "optimize": "rewrite a model file into a better one that computes the same",
    "map": "say what became of each operator, and where it comes from",
    "diff": "compare two networks: operators, weights, costs, values",
    "cut": "write a part of a network as a network of its own",
    "partition": "write a network in parts that run one after the other",
    "resize": "write a network with other sizes of its inputs",
    "fleet": "measure and search for placements on many machines",
    "doctor": "say what this machine offers: CPU, compiler, cache, backends",
}

_INTERRUPTED = 128 + 2  # as shells say of a program that SIGINT ended


class _Shown(click.UsageError):
    """An error of wrong usage as it may be printed."""

    def __init__(self, error: click.UsageError) -> None:
        super().__init__(escaped(error.format_message()), error.ctx)


class _Lazy(click.Group):
    """Imports a command's file only when it is called, so that `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"circlet.cli.{cmd_name}_command")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named; where there is none, an error that says which may be meant."""
        if args[0] not in _COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0].lower(), _COMMANDS, cutoff=0.5)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"There is no command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; an error in the settings ends as one of the command's own would."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say("interrupted", err=True)
            ctx.exit(_INTERRUPTED)
        except CircletError as error:
            say(*str(error).split("\n"), err=True)
            ctx.exit(1)
        except click.UsageError as error:  # it repeats what was typed
            raise _Shown(error) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _show_version(ctx: click.Context, param: click.Parameter, is_wanted: bool) -> None:
    if not is_wanted or ctx.resilient_parsing:
        return
    from circlet.commands.version import build_facts

    facts = build_facts()
    say(f"circlet {facts.pop('circlet')}", *(f"  {key}: {text}" for key, text in facts.items()))
    ctx.exit()


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, and what a report of a defect needs besides.",
)
def group() -> None:
    """Run neural networks on this device.

    Exit codes: 0 done, 1 an error with a code on standard error, 2 wrong usage, 130 interrupted.

    \b
    Environment:
      CIRCLET_CC           C compiler command in place of the package ziglang
      CIRCLET_CACHE_DIR    folder of compiled artifacts (~/.cache/circlet)
      CIRCLET_CACHE_BYTES  to which it is pruned; 0 switches it off (2 GiB)
      CIRCLET_THREADS      threads of a run (the cores that may be used)
      CIRCLET_EXECUTOR     linear, dataflow or parallel (linear, or the artifact's)
      CIRCLET_OPENCL_DEVICE  index or part of the name of a device (the first GPU)
      CIRCLET_LOG          debug, info, warning or error (warning)
      CIRCLET_ONE_ENV      1 to heed BACKENDS, OP_BACKEND_... as Samsung ONE does (0)
    """
    start_logging()


def main() -> None:
    """Entry point of the `circlet` program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # letters that its encoding lacks become codes
            stream.reconfigure(errors="backslashreplace")
    try:
        sys.exit(group.main(prog_name="circlet", standalone_mode=True))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        where, why = "standard output", str(error.strerror)
        failed = FileError(
            "the answer cannot be printed", where=where, why=why, fix="free some space"
        )
        say(*str(failed).split("\n"), err=True)
        os._exit(1)  # an ordinary end would try once more to print what is left


__all__ = ["group", "main"]
