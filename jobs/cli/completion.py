"""`slipway completion SHELL`: prints the script for tab completion of commands, options and types."""

from __future__ import annotations

import click

from slipway.jobs.output import print_text


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script for tab completion of commands, options and instance types.

    \b
    bash, in ~/.bashrc:  eval "$(slipway completion bash)"
    zsh, in ~/.zshrc:    eval "$(slipway completion zsh)"
    fish, once:          slipway completion fish > ~/.config/fish/completions/slipway.fish
    """
    from click.shell_completion import get_completion_class

    from slipway.jobs.cli.cli import COMPLETE_VARIABLE, PROGRAM, cli

    completer = get_completion_class(shell)
    assert completer is not None, f"click completes no {shell}"
    print_text(completer(cli, {}, PROGRAM, COMPLETE_VARIABLE).source())
