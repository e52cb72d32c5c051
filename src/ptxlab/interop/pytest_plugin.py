"""The pytest plugin: kernels of a test run in ptxlab, and their errors make the test fail.

``@pytest.mark.ptxlab(target="sm_90a", policy="lazy")`` or the fixture ``ptxlab_session`` switches a test over, with
Triton and CuTe DSL if the test imports them; launches by `ptxlab.Kernel.launch` belong to the test, too. The mark takes the
options of `ptxlab.interop.triton.device`, the variables ``PTXLAB_TARGET``, ``PTXLAB_CHECK`` and so on give their defaults.
``--ptxlab-sarif FILE`` writes all findings of the run.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ptxlab.diagnostics import Diagnostic
    from ptxlab.interop.session import Session

__all__ = ["ptxlab_session"]

_FIXTURE = "ptxlab_session"


class _Sarif:
    """Collects the findings in test reports, and writes them at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.found += getattr(report, "ptxlab", ())

    def pytest_sessionfinish(self) -> None:
        from ptxlab.diagnostics import render_sarif

        self.path.write_text(render_sarif(map(_diagnostic, self.found)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_sep("-", f"{len(self.found)} findings of ptxlab in {self.path}")


def _diagnostic(fields: dict[str, Any]) -> Diagnostic:
    """The diagnostic that `Diagnostic.as_dict` was called on."""
    from ptxlab.diagnostics import Diagnostic, Place

    values = dict(fields, details=tuple(fields.get("details", {}).items()))
    values |= {name: Place(**fields[name]) for name in ("place", "source") if name in fields}
    return Diagnostic(**values)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the command line."""
    parser.getgroup("ptxlab").addoption("--ptxlab-sarif", metavar="FILE", type=Path, help="write the findings of ptxlab as SARIF")


def pytest_configure(config: pytest.Config) -> None:
    """Describe the mark; collect findings if a file was asked for, once where processes share the tests."""
    config.addinivalue_line(
        "markers", "ptxlab(option=value, ...): run the test's kernels in ptxlab; the options are those of `ptxlab exec`, and keep_going"
    )
    path = config.getoption("--ptxlab-sarif")
    if path is not None and not hasattr(config, "workerinput"):
        try:
            path.touch()
        except OSError as error:
            raise pytest.UsageError(f"--ptxlab-sarif: cannot write {path}: {error.strerror}") from None
        config.pluginmanager.register(_Sarif(path), "ptxlab-sarif")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests with the mark the fixture, before all others."""
    for item in items:
        names = getattr(item, "fixturenames", None)
        if names is not None and item.get_closest_marker("ptxlab") is not None:
            if _FIXTURE in names:
                names.remove(_FIXTURE)
            names.insert(0, _FIXTURE)


@pytest.fixture
def ptxlab_session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """Run the kernels of the test in ptxlab; the session holds the launches and their findings."""
    from ptxlab.interop.compilers import switched
    from ptxlab.interop.session import Session, Settings

    mark = request.node.get_closest_marker("ptxlab")
    settings = Settings.from_environment().changed(**(mark.kwargs if mark is not None else {}))
    with switched(Session(settings, report=lambda _: None)) as session:
        yield session


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Make a test with ``keep_going`` fail at its end if errors were found."""
    result = yield
    session = getattr(item, "funcargs", {}).get(_FIXTURE)
    if session is not None and session.settings.keep_going and not session.ok:
        from ptxlab.machine import KernelError

        raise KernelError(*session.diagnostics)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Show diagnostics in place of a traceback, and add the findings to the report, which may be sent to another process."""
    report = yield
    diagnostics = sys.modules.get("ptxlab.diagnostics")
    session = getattr(item, "funcargs", {}).get(_FIXTURE)
    if call.when != "call" or diagnostics is None:
        return report
    failure: Any = call.excinfo.value if call.excinfo is not None else None
    shown = failure.diagnostics if isinstance(failure, diagnostics.PtxlabError) else ()
    if shown and report.failed:
        report.longrepr = diagnostics.render_report(shown)
    found = [*session.diagnostics] if session is not None else []
    rest = [d for d in found if d not in shown]
    if rest:
        report.sections.append(("ptxlab", diagnostics.render_report(rest)))
    report.ptxlab = [d.as_dict() for d in [*found, *(d for d in shown if d not in found)]]
    return report
