"""`boostrank completion`: the script that makes a shell complete commands, options and their values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from boostrank.cli.options import Command

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, /, shell: str) -> None:
    """Print the script that completes commands, options, objectives, metrics and other choices in SHELL.

    \b
    boostrank completion bash > ~/.local/share/bash-completion/completions/boostrank
    boostrank completion zsh > ~/.zfunc/_boostrank    # with fpath+=~/.zfunc before compinit in ~/.zshrc
    boostrank completion fish > ~/.config/fish/completions/boostrank.fish

    A new shell reads it; `eval "$(boostrank completion bash)"` does for the present one.
    """
    found = get_completion_class(shell)
    assert found is not None  # click has these three
    click.echo(found(context.find_root().command, {}, "boostrank", "_BOOSTRANK_COMPLETE").source())
