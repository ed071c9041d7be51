"""`circlet memory`: what a network needs of memory, and what is alive at the peak."""

from __future__ import annotations

import click

from circlet.cli.common import (
    CircletCommand,
    backend_option,
    json_option,
    level_option,
    max_memory_option,
    options_of,
    precision_option,
    print_json,
    size_of,
)
from circlet.cli.progress import working
from circlet.cli.shapes import shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.memory import MemoryRequest, memory_of


@click.command(cls=CircletCommand, name="memory")
@click.argument("model", type=InputFile())
@level_option(default="O2", show_default=True)
@click.option(
    "--level", "level_word", metavar="LEVEL", help="The same as -O, for those who like words."
)
@click.option("--threads", type=click.IntRange(1), help="Default: the cores that may be used.")
@click.option(
    "--budget",
    "budget_bytes",
    metavar="SIZE",
    callback=lambda ctx, param, text: None if text is None else size_of(text),
    help="Fail if a run is planned to need more, such as 256k or 2M, and say what would help.",
)
@click.option("--advise", is_flag=True, help="Say what would lower the plan, with no budget too.")
@click.option("--no-process", is_flag=True, help="Plan only: measure no process that runs it.")
@backend_option
@click.option("--signature", default="", help="Entry point to run; default: the first graph.")
@click.option("--target", default="native", show_default=True, help="What to plan for.")
@precision_option(default="f32", show_default=True)
@click.option("--no-cache", is_flag=True, help="Compile anew and keep nothing.")
@shapes_option()
@max_memory_option
@json_option
def command(as_json: bool, **options: object) -> None:
    """Say what a run of MODEL needs of memory: planned to the byte, and measured.

    Planned are the arena (with the operator at its peak and what is alive there), the scratch
    memory of threads, and the arrays of inputs and outputs. Measured is a process of its own that
    loads, compiles and runs the network on zeros.
    """
    request = _request(options)
    with working("planning memory"):
        answer = memory_of(request)
    if as_json:
        print_json(answer.as_json())
        return
    from circlet.cli.render_memory import show_memory

    show_memory(answer)


def _request(options: dict[str, object]) -> MemoryRequest:
    word = str(options.pop("level_word") or "")
    if word:
        options["level"] = word if word.startswith("O") else f"O{word}"
    options["cache"] = not options.pop("no_cache")
    options["process"] = not options.pop("no_process")
    wanted = options_of(options)
    return MemoryRequest(**options, options=wanted)  # type: ignore[arg-type]
