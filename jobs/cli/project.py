"""`slipway init` makes a project of the user's own; `slipway completion` prints a script for the shell."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from slipway.jobs.output import print_text, say


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--name", help="Name of the cluster.  [default: the folder's name]")
def init_command(folder: Path, name: str | None) -> None:
    """Begin a project in FOLDER: clusters to deploy, and a training script to run on them.

    The project works as it is: `cdk synth` makes its templates, `slipway preflight` checks its cluster. Every
    choice in clusters.py has a comment. Nothing is overwritten: a folder with one of the files is refused.

    \b
    slipway init my-training
    slipway init . --name my-cluster
    """
    import secrets

    from slipway.jobs.code.starting import build_files, cluster_name_of, write_project

    cluster = cluster_name_of(folder, name)
    texts = build_files(cluster, secrets.token_hex(3))
    write_project(folder, texts)
    for written in texts:
        print_text(str(folder / written))
    say(f"next: cd {shlex.quote(str(folder))}, read README.md, then slipway preflight {cluster}")


# `slipway completion SHELL`: prints the script for tab completion of commands, options and types.


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the script for tab completion of commands, options, clusters, jobs, recipes and instance types.

    Clusters are those that your project declares, jobs those that were submitted from this machine.

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
