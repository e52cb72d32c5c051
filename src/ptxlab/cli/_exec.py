"""``ptxlab exec``: a Python script or a native program runs as it is, and its kernels execute in ptxlab."""

from __future__ import annotations

import runpy
import sys
import traceback
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ptxlab import cuda
from ptxlab.cli._debug import LaunchDebugger
from ptxlab.cli._inspect import Expected, Mmas, OtherSchedules, Writers
from ptxlab.cli._output import FILE_WIDTH, ProgressLine, emit, findings, launch_options, refusing, write_text, writing
from ptxlab.cuda.remote.executables import is_executable
from ptxlab.diagnostics import PtxlabError, render_sarif
from ptxlab.interop.frameworks import prepared
from ptxlab.interop.optional_packages import EXTRAS, missing
from ptxlab.interop.profiles import KeptProfile
from ptxlab.interop.programs import run_program
from ptxlab.interop.session import Session, Settings, activate, launched_at, raise_site, replace_attribute
from ptxlab.machine import KernelError

__all__ = ["exec_"]

_KEPT = "ptxlab-kept"
"""The folder of replay bundles if none is named."""


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@launch_options(Settings, "keep_going")
@click.option("--sarif", type=click.Path(dir_okay=False, path_type=Path), help="Write the findings to this file as SARIF.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the PTX of kernels with findings to this folder, with --keep-inputs a replay bundle of each launch too "
    f"(without --keep to {_KEPT}).",
)
@click.option(
    "--schedules",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Run each launch under so many schedules (eager, lazy, random ones), and compare the results.",
)
@click.option(
    "--expect", multiple=True, metavar="ARRAY=FILE", help="Compare an array argument of the last launch that has it with a .npy file."
)
@click.option(
    "--provenance", multiple=True, metavar="ELEMENT", help="Say who wrote an element, such as 'c[3, 17]', in the last launch that has it."
)
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what --provenance says, for the last element, as a picture to this .svg or .html file.",
)
@click.option(
    "--mmas", is_flag=True, help="List the matrix instructions that each launch executed: shapes, types, descriptors, and where D is."
)
@click.option("--writers", is_flag=True, help="With --mmas: say who wrote the operands. The launches run again several times, slowly.")
@click.option("--profile", "counted", is_flag=True, help="Count what launches execute, and estimate their time; show both at the end.")
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), help="Write profiles, estimated timelines and findings to this page."
)
@click.option("--debug-on-finding", is_flag=True, help="Open the debugger after each launch with findings, where the first one is made.")
@click.option(
    "--debug-commands",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Where the debugger is opened, execute the commands of this file instead of those from standard input.",
)
@click.option("--progress/--no-progress", default=None, help="Show kernels that run for seconds (default: on a terminal).")
@click.option("--json", "as_json", is_flag=True, help="Print launches and findings as JSON; the script prints to standard error.")
def exec_(
    script: str,
    arguments: tuple[str, ...],
    sarif: Path | None,
    keep: Path | None,
    schedules: int,
    expect: tuple[str, ...],
    provenance: tuple[str, ...],
    picture: Path | None,
    mmas: bool,
    writers: bool,
    counted: bool,
    report: Path | None,
    debug_on_finding: bool,
    debug_commands: tuple[Path, ...],
    progress: bool | None,
    as_json: bool,
    options: dict[str, str],
) -> None:
    """Run a Python script or a native program whose kernels execute in ptxlab.

    A native program must be linked with the shared runtime library (nvcc -cudart shared). ARGUMENTS are the script's own. Each option may
    also be set by a variable: PTXLAB_TARGET, PTXLAB_CHECK and so on. breakpoint() in the script opens the debugger at its next launch, and
    breakpoint() in a Triton kernel where the kernel reaches it.

    Exit status: 0 clean, 1 findings or an exception in the script, 2 wrong use; else what the script exits with.
    """
    with refusing(None, err=True):
        settings = Settings.from_environment().read(options).changed(keep_going=True)
        session = Session(settings, (lambda _: None) if as_json else None)
    expected, elements = [Expected.of(text) for text in expect], [Writers.of(text) for text in provenance]
    session.inspectors += [*([OtherSchedules(schedules)] if schedules > 1 else ()), *expected, *elements]
    if picture is not None:
        if not elements:
            raise click.UsageError("--picture: name an element with --provenance")
        picture = picture.absolute()
    if writers and not mmas:
        raise click.UsageError("--writers: list the matrix instructions with --mmas")
    products = Mmas(writers)
    if mmas:
        session.inspectors.append(products)
    if counted or report is not None:
        session.profiles.kept = []
    # Paths are absolute, because the script may change the directory.
    if report is not None:
        write_text(report, "")
        report = report.absolute()
    if keep is None and settings.keep_inputs:
        keep = Path(_KEPT)
    if keep is not None:
        session.keep = keep.absolute()
        with writing(f"to {keep}"):
            keep.mkdir(parents=True, exist_ok=True)
            (keep / ".ptxlab").touch()
            (keep / ".ptxlab").unlink()
    if sarif is not None:
        write_text(sarif, render_sarif(()))
        sarif = sarif.absolute()
    if sys.stderr.isatty() if progress is None else progress:
        session.progress = ProgressLine(sys.stderr).launch
    session.debugger = debugger = LaunchDebugger(debug_on_finding, tuple(path.absolute() for path in debug_commands))
    with activate(session), ExitStack() as stack, redirect_stdout(sys.stderr if as_json else sys.stdout):
        replace_attribute(stack, sys, "breakpointhook", debugger.ask)
        status = _run(script, arguments, session)
    told, multiplied = [], []
    if not status:
        for found in (each.difference() for each in expected):
            if found is not None:
                session.note(found)
        with refusing(None, err=True):
            told = [each.provenance() for each in elements]
            multiplied = list(products.records())
    if sarif is not None:
        write_text(sarif, render_sarif(session.diagnostics))
    if picture is not None and told:
        from ptxlab.view import draw_provenance

        drawn = draw_provenance(told[-1])
        write_text(picture, drawn.html() if picture.suffix == ".html" else drawn.svg())
    profiles = session.profiles.kept or []
    if report is not None:
        from ptxlab.view import report_page

        write_text(report, report_page([(each.profile, each.findings) for each in profiles]))
    if as_json:
        more: dict[str, Any] = {"ok": session.ok, "skipped": session.skipped, "launches": [launch.as_dict() for launch in session.launches]}
        if provenance:
            more["provenance"] = [each.as_dict() for each in told]
        if mmas:
            more["mmas"] = [{"kernel": name, "products": each.as_dict()} for name, each in multiplied]
        if counted:
            more["profiles"] = [each.as_dict() for each in profiles]
        emit(session.diagnostics, "json", **more)
    elif not any(d.code == "I301" for d in session.diagnostics):  # whose one line says all
        for each in told:
            click.echo(str(each), err=True)
        for name, records in multiplied:
            click.echo(products.text(name, records), err=True)
        if counted:
            _show_profiles(profiles, session.profiles.left)
        click.echo(_summary(session), err=True)
    sys.exit(status or (0 if session.ok else 1))


def _run(script: str, arguments: tuple[str, ...], session: Session) -> int:
    """Run the script as ``python script`` does, or the program; return its exit status."""
    if is_executable(Path(script)):
        with refusing(None, err=True):
            return run_program(Path(script), arguments, session)
    driver = _driver(session)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        with prepared():
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        package = error.name or ""
        if package not in EXTRAS:  # a missing module of an installed package is an error of the program
            return _traceback(error)
        session.note(missing(f"{script} needs the package {package}", EXTRAS[package]))
        return 2
    except PtxlabError as error:
        site = raise_site(error, "triton", "torch", "cutlass")
        for diagnostic in error.diagnostics:
            session.note(diagnostic if isinstance(error, KernelError) else launched_at(diagnostic, site))
        return 1
    except Exception as error:
        if not all(launch.result.completed for launch in session.launches):
            return 1  # the error of the driver after a launch that was ended, of which there is a finding
        return _traceback(error)
    finally:
        if driver is not None:
            driver.finish()
    return 0


def _driver(session: Session) -> cuda.Driver | None:
    """Give the script the virtual CUDA driver; without a compiler for it there is a note."""
    try:
        return cuda.install(lambda: session)
    except cuda.BuildError as error:
        for diagnostic in error.diagnostics:
            session.note(replace(diagnostic, severity="note"))
        return None


def _traceback(error: BaseException) -> int:
    """Print the traceback that Python would print: without the frames that started the script."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__") != "__main__":
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames or error.__traceback__)
    return 1


def _show_profiles(profiles: list[KeptProfile], left: int) -> None:
    from rich.console import Console

    from ptxlab.view import profile_tables

    console = Console(stderr=True) if sys.stderr.isatty() else Console(stderr=True, width=FILE_WIDTH)
    for each in profiles:
        times = f"the last of {each.launches} launches" if each.launches > 1 else "one launch"
        click.echo(f"profile of {times}" + (f" at {each.site}" if each.site is not None else ""), err=True)
        by = "source" if any(instruction.source is not None for instruction in each.profile.instructions) else "ptx"
        console.print(profile_tables(each.profile, by))
    if left:
        click.echo(f"{left} launches of other kernels or grids have no profile: there were too many", err=True)


def _summary(session: Session) -> str:
    count = len(session.launches)
    found = findings(session.diagnostics)
    if not session.asked and not count:
        return "ptxlab: no kernel was launched"
    what = f"{found} finding{'s' * (found != 1)}" if found else "nothing found"
    limit = session.settings.limit_ctas
    partial = [f"{session.skipped} left out"] * bool(session.skipped) + [f"at most {limit} CTAs each"] * (limit is not None)
    which = f" ({', '.join(partial)})" if partial else ""
    times = "; benchmarks, autotuning and events have taken estimated times" if session.settings.estimate_time else ""
    return f"ptxlab: {count} launch{'es' * (count != 1)} on {session.settings.target}{which}, {what}{times}"
