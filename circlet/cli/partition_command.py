"""`circlet partition`: a network as several files that run one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from circlet.cli.common import (
    CircletCommand,
    backend_option,
    json_option,
    max_memory_option,
    print_json,
)
from circlet.cli.console import console, line, show_table
from circlet.cli.standard_input import InputFile
from circlet.commands.partition import PartitionReport, PartitionRequest, partition_model
from circlet.limits import Limits
from circlet.options import Options
from circlet.words import shortened

_SHOWN = 4


@click.command(cls=CircletCommand, name="partition")
@click.argument("model", type=InputFile())
@click.argument("part_file", metavar="PART", type=InputFile())
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--groups", default="", help="Groups in place of the file's backends, by commas.")
@click.option("--default", default="", help="Group of operators that the file does not name.")
@click.option("--check", is_flag=True, help="Run the parts and the whole, and compare each bit.")
@click.option("--seed", default=0, show_default=True, help="Of the random data for --check.")
@backend_option
@max_memory_option
@json_option
def command(
    model: Path,
    part_file: Path,
    folder: Path,
    groups: str,
    default: str,
    check: bool,
    seed: int,
    backends: tuple[str, ...],
    limits: Limits,
    as_json: bool,
) -> None:
    """Write MODEL to FOLDER in parts, as PART groups its operators, with .conn files.

    PART is a .part file of ONE's circle-partitioner: [partition] has backends=, default= and
    comply=opcode or opname; [OPCODE] has lines such as CONV_2D=npu, [OPNAME] such as conv1=npu.
    The .conn files, JSON and INI, list the parts in the order in which they run; --backend says
    what runs them for --check, at O0.
    """
    listed = tuple(filter(None, map(str.strip, groups.split(","))))
    options = Options(backends, limits=limits, level="O0")
    request = PartitionRequest(model, part_file, folder, listed, default, check, seed, options)
    report = partition_model(request)
    if as_json:
        print_json(asdict(report))
    else:
        _show(report)
    if report.is_identical is False:
        click.get_current_context().exit(1)


def _show(report: PartitionReport) -> None:
    out = console()
    rows = [
        (row.file, row.group, f"{row.ops:,}", _joined(row.inputs), _joined(row.outputs))
        for row in report.parts
    ]
    headings = ("file", "group", "operators", "reads", "gives")
    show_table(out, headings, rows, numbers={"operators"})
    line(out, f"written to {report.folder}, with {' and '.join(report.connection)}")
    if report.unused:
        line(out, f"no operator follows the rules for {', '.join(report.unused)}")
    if report.is_identical is not None:
        same = "the same bits as" if report.is_identical else "OTHER answers than"
        line(out, f"run one after the other, the parts give {same} the whole network")


def _joined(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(shortened, names[:_SHOWN])) + more
