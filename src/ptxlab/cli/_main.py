"""The command group: a command's module is imported when the command is used."""

from __future__ import annotations

from importlib import import_module

import click

__all__ = ["COMMANDS", "cli"]

COMMANDS = {
    "campaign": "Run the launches that CAMPAIGN_FILE (TOML) describes, and collect the results in a folder.",
    "check": "Run LAUNCH_FILE with every check under several schedules, and compare the results.",
    "debug": "Step through the kernel that LAUNCH_FILE (TOML, or a replay bundle) describes, forwards and backwards.",
    "devices": "List the devices that programs see: those of PTXLAB_DEVICES, else the one of PTXLAB_TARGET.",
    "diff": "Compare EXPECTED.npy with ACTUAL.npy, or with what a launch gives: the first wrong tile, and who wrote it.",
    "exec": "Run a Python script or a native program whose kernels execute in ptxlab.",
    "explain": "Say what VALUE means: its fields, the layout, whether it is legal, and what may have been meant.",
    "import-records": "Compare FILE, the results of a record kit, with what ptxlab gives for the same kernels, bit for bit.",
    "layout": "Where is element (m, k)? Draw operands, accumulators and register fragments.",
    "lint": "Check PTX files: syntax, names, operands, the legality of their instructions, and what their paths show.",
    "lsp": "Serve an editor over standard input and output, by the Language Server Protocol.",
    "profile": "Count what the kernel of LAUNCH_FILE executes, and estimate its time.",
    "report": "Write one page about the kernel of LAUNCH_FILE: estimated timeline, counters by line, rooflines, findings.",
    "record-kit": "Write a folder of kernels, with a script that runs them on a GPU of the target and writes one file of results.",
    "rule": "Explain a diagnostic code such as L113; for an instruction such as tcgen05.cp, print its legal forms.",
    "run": "Run the kernel that LAUNCH_FILE (TOML, or a replay bundle) describes.",
    "warmup": "Fill the code cache: the helpers of every launch, and every kernel of the PTX files.",
}
"""The commands by name, with the first line of their help."""

_ELSEWHERE = {
    "exec": ("_exec", "exec_"),
    "import-records": ("_record_kit", "import_records"),
    "lsp": ("_lint", "lsp"),
    "profile": ("_run", "profile"),
    "report": ("_run", "report"),
    "rule": ("_lint", "rule"),
    "warmup": ("_run", "warmup"),
}
"""Module and function of the commands whose module is not named after them."""


class _Commands(click.Group):
    """Lists its commands from the table, so that ``--help`` imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module, function = _ELSEWHERE.get(cmd_name, (f"_{name}", name))
        found: click.Command = getattr(import_module(f"ptxlab.cli.{module}"), function)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ptxlab", prog_name="ptxlab")
def cli() -> None:
    """Run and check NVIDIA tensor-core PTX on a computer without a GPU.

    Exit status: 0 clean, 1 findings, 2 wrong use.
    """
