"""Options of launches for the command line, one for each field of `LaunchOptions`, or of a class derived from it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from ptxlab.machine.launch.options import LaunchOptions

__all__ = ["launch_options"]

Command = Callable[..., Any]


def launch_options(kind: type[LaunchOptions], *without: str) -> Callable[[Command], Command]:
    """Give a command the options of launches; it is called with the texts that were given, as ``options``.

    Parameters
    ----------
    kind : the class whose fields become options
    without : fields that the command sets itself
    """
    described = {name: each for name, each in kind.described().items() if name not in without}

    def decorate(command: Command) -> Command:
        @wraps(command)
        def gathered(**given: Any) -> Any:
            values = {name: given.pop(name) for name in described}
            texts = {name: value if isinstance(value, str) else str(int(value)) for name, value in values.items() if value is not None}
            return command(options=texts, **given)

        made: Command = gathered
        for name, each in reversed(described.items()):
            words = name.replace("_", "-")
            switch = f"--{words}/--no-{words}" if each.form is None else f"--{words}"
            made = click.option(switch, name, metavar=each.form, default=None, help=each.help)(made)
        return made

    return decorate
