"""`circlet optimize`: a model file in, a better one out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from circlet.cli.common import (
    CircletCommand,
    given_options,
    json_option,
    level_option,
    max_memory_option,
    print_json,
)
from circlet.cli.progress import working
from circlet.cli.standard_input import InputFile
from circlet.commands.optimize import (
    BisectRequest,
    OptimizeReport,
    OptimizeRequest,
    PassChoice,
    bisect_file,
    list_passes,
    optimize_file,
)
from circlet.passes.selection import ROUNDS

_RANDOM = Path("random")
_ONLY_BISECT = ("--seed", "--tolerance")
_ONLY_WRITING = ("--print-after", "--time-passes", "--changes")


@click.command(cls=CircletCommand, name="optimize")
@click.argument("model", metavar="IN", required=False, type=InputFile())
@click.argument("output", metavar="OUT", required=False, type=click.Path(path_type=Path))
@level_option(default="O2", show_default=True)
@click.option("--pass", "named", multiple=True, metavar="NAME", help="Run this; may be repeated.")
@click.option("--passes", "file", type=InputFile(), help="Run those of a text file, one a line.")
@click.option(
    "--rounds", default=ROUNDS, show_default=True, type=click.IntRange(1), help="Runs of the list."
)
@click.option("--check", is_flag=True, help="Hold every pass to the rules and to its promises.")
@click.option("--print-after", metavar="PASS", default="", help="Print the network; or after all.")
@click.option("--time-passes", is_flag=True, help="Print how long each pass takes.")
@click.option("--changes", is_flag=True, help="Print which operators each pass changed.")
@click.option(
    "--bisect",
    multiple=True,
    metavar="INPUT",
    type=InputFile(),
    help="Find the first pass that changes results. A file for each input, or `random`.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of random.")
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    help="How far results may be from those of IN; default: what each pass declares.",
)
@click.option("--list", "as_list", is_flag=True, help="Print every pass, and do nothing else.")
@max_memory_option
@json_option
def command(
    model: Path | None,
    output: Path | None,
    level: str,
    named: tuple[str, ...],
    file: Path | None,
    bisect: tuple[Path, ...],
    as_list: bool,
    time_passes: bool,
    changes: bool,
    as_json: bool,
    **options: object,
) -> None:
    """Rewrite the network IN (.tflite, .circle or .onnx) into a better one, OUT, of any of these.

    The format of OUT is that of its suffix. The passes are those of a level, but for what makes
    better native code only, or those that are named. A name may have options behind it: --pass
    "split-sums most=4". Results stay the same, and operators keep the names of those that they
    descend from. The counts are of IN and of OUT as `circlet inspect` gives them.
    """
    if as_list:
        _show_passes(as_json=as_json)
        return
    _check_usage(model, output, is_bisect=bool(bisect))
    assert model is not None
    choice = PassChoice(level, named, file)
    if bisect:
        inputs, picked = () if bisect == (_RANDOM,) else bisect, _without(options, "print_after")
        request = BisectRequest(model, choice, inputs, **picked)  # type: ignore[arg-type]
        _bisect(request, as_json=as_json)
        return
    assert output is not None
    picked = _without(options, "seed", "tolerance")
    with working("optimising"):
        report = optimize_file(OptimizeRequest(model, output, choice, **picked))  # type: ignore[arg-type]
    _show(report, as_json=as_json, times=time_passes, changes=changes)


def _without(options: dict[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in options.items() if name not in names}


def _check_usage(model: Path | None, output: Path | None, *, is_bisect: bool) -> None:
    """UsageError where arguments lack, or options exclude each other."""
    given = given_options()
    lists = [name for name in ("--level", "-O", "--pass", "--passes") if name in given]
    if len(lists) > 1:
        raise click.UsageError(f"{' and '.join(lists)} both say which passes run; give one")
    if model is None or (output is None and not is_bisect):
        raise click.UsageError(f"{'IN' if model is None else 'OUT'} is missing")
    if is_bisect and output is not None:
        raise click.UsageError("--bisect writes nothing; leave OUT out")
    unused = [name for name in (_ONLY_WRITING if is_bisect else _ONLY_BISECT) if name in given]
    if unused:
        rest = "says nothing with" if is_bisect else "needs"
        raise click.UsageError(f"{unused[0]} {rest} --bisect")


def _show_passes(*, as_json: bool) -> None:
    rows = list_passes()
    if as_json:
        print_json(rows)
        return
    from circlet.cli.render_optimize import show_passes

    show_passes(rows)


def _bisect(request: BisectRequest, *, as_json: bool) -> None:
    with working("running the network after each pass"):
        found = bisect_file(request)
    if as_json:
        print_json(asdict(found))
    else:
        from circlet.cli.render_optimize import show_bisection

        show_bisection(found)
    if found.culprit is not None:
        click.get_current_context().exit(1)


def _show(report: OptimizeReport, *, as_json: bool, times: bool, changes: bool) -> None:
    if as_json:
        totals = {"before": report.before._asdict(), "after": report.after._asdict()}
        print_json({**asdict(report), **totals})
        return
    from circlet.cli.render_optimize import show_report

    show_report(report, times=times, changes=changes)
