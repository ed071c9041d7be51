"""`circlet fleet`: measuring and searching on many machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from circlet.cli.common import (
    CircletCommand,
    json_option,
    max_memory_option,
    options_of,
    print_json,
)
from circlet.cli.console import say
from circlet.cli.standard_input import InputFile
from circlet.commands.fleet import (
    FleetSearchRequest,
    TlsFiles,
    fleet_status,
    search_in_fleet,
    serve_fleet,
    work_in_fleet,
)


def _numbers(ctx: click.Context, param: click.Parameter, text: str) -> tuple[int, ...]:
    """Numbers and ranges between commas, such as 0-3,8."""
    found: list[int] = []
    for part in filter(None, map(str.strip, text.split(","))):
        first, dash, last = part.partition("-")
        if not (first.isdigit() and (last.isdigit() or not dash)) or int(last or first) > 4096:
            raise click.BadParameter("give numbers such as 1,2,4 or 0-3")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def _words(ctx: click.Context, param: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The files by which the processes of a fleet know each other."""
    for name, what in (
        ("key", "Key of this process's certificate."),
        ("cert", "Certificate of this process, PEM."),
        ("ca", "Authority whose certificates all accept, PEM; without, nothing is encrypted."),
    ):
        path = click.Path(path_type=Path)
        command = click.option(f"--tls-{name}", f"tls_{name}", type=path, help=what)(command)
    return command


def _tls(options: dict[str, Any]) -> TlsFiles:
    return TlsFiles(*(options.pop(f"tls_{name}") for name in ("ca", "cert", "key")))


scheduler_option = click.option(
    "--scheduler", required=True, help="Address that circlet fleet serve printed."
)
storage_option = click.option(
    "--storage",
    required=True,
    metavar="URL",
    help="sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/NAME for many machines.",
)


@click.group(name="fleet")
def command() -> None:
    """Measure and search on many machines at once; docs/fleet.md goes through it.

    Workers run what the scheduler sends them: keep both in a network of your own, or use TLS.
    """


@command.command(cls=CircletCommand)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8786, show_default=True, type=click.IntRange(0, 65535))
@click.option("--insecure", is_flag=True, help="Let anyone who reaches the host in.")
@tls_options
def serve(host: str, port: int, insecure: bool, **options: Any) -> None:
    """Run the scheduler, which workers and searches meet at; prints its address."""
    serve_fleet(host, port, _tls(options), insecure=insecure, said=say)


@command.command(cls=CircletCommand)
@scheduler_option
@click.option("--cores", default="", callback=_numbers, help="Cores to be bound to, such as 0-3.")
@tls_options
def work(scheduler: str, cores: tuple[int, ...], **options: Any) -> None:
    """Run a worker, which carries out one trial at a time; prints its address."""
    work_in_fleet(scheduler, _tls(options), cores, said=say)


@command.command(cls=CircletCommand)
@click.argument("model", type=InputFile())
@scheduler_option
@storage_option
@click.option("--study", required=True, help="A new name, or that of a study to go on with.")
@click.option(
    "--evaluations",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    help="Configurations to measure on each class of machines.",
)
@click.option("--backend", "backends", default="", callback=_words, help="Default: all there are.")
@click.option(
    "--threads", default="", callback=_numbers, help="Numbers to try. Default: 1 and all cores."
)
@click.option("--levels", default="O2", show_default=True, callback=_words, help="To be tried.")
@click.option("--sampler", default="nsga2", type=click.Choice(["nsga2", "tpe", "random"]))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--rounds", default=11, show_default=True, type=click.IntRange(1), help="Of timing.")
@click.option("--seconds", default=0.02, show_default=True, help="That a round takes.")
@click.option(
    "--memory",
    default="process",
    show_default=True,
    type=click.Choice(["process", "planned"]),
    help="What a fresh process holds, or what is planned.",
)
@click.option(
    "--heartbeat",
    default=10,
    show_default=True,
    type=click.IntRange(1),
    help="Seconds between signs of life; without two of them a trial is lost, and repeated.",
)
@click.option("--trial-seconds", default=600.0, show_default=True, help="The most for one trial.")
@click.option("--patience", default=60.0, show_default=True, help="Seconds to wait for workers.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the fronts here.")
@max_memory_option
@tls_options
@json_option
def search(as_json: bool, **options: Any) -> None:
    """Search for the front of MODEL on all workers; the same command again goes on."""
    tls = _tls(options)
    options["options"] = options_of({"limits": options.pop("limits")})
    request = FleetSearchRequest(tls=tls, **options)
    told = (lambda name, count: None) if as_json else _progress(request.evaluations)
    _show(asdict(search_in_fleet(request, told)), as_json=as_json)


@command.command(cls=CircletCommand)
@storage_option
@click.option("--study", default="", help="Only studies of this name.")
@json_option
def status(storage: str, study: str, as_json: bool) -> None:
    """Say how far the studies of a storage are, and print their fronts."""
    _show(asdict(fleet_status(storage, study)), as_json=as_json)


def _progress(evaluations: int) -> Callable[[str, int], None]:
    return lambda name, count: say(f"{name}: {count} of {evaluations}", err=True)


def _show(report: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    from circlet.cli.render_fleet import show_fleet

    show_fleet(report)
