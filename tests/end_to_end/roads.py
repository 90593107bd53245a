"""Runs the commands of each road's page in order, in a new yard.

The page marks a command that cannot run here with a comment: `not in the yard: …`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slipway.containers.data.rows.train_vocabulary import train
from slipway.containers.data.samples.texts import write_sample
from slipway.containers.data.sources.sources import local_source
from slipway.containers.data.tokens.engine import write_vocabulary
from slipway.containers.recipes.prepare_bert.train import TRAINED_ENTRIES
from slipway.yard.services.imagebuilder.machine.base import reason_for_no_base
from tests.architecture.tracked import ROOT
from tests.containers.data.corpus.dumps import multistream, page
from tests.end_to_end.conftest import Shell

BAKE_SECONDS = 1200  # a Debian, 150 packages, 200 MB of wheels, and two imports of torch
_COMMANDS = r"^## {}$.*?^```sh\n(.*?)^```$"  # of a section
_NOT_HERE = "# not in the yard:"
_MAY_FAIL = "slipway preflight"  # its exit code says that something is missing, which is right at first


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRoad:
    """Runs the commands of one road's page in a folder with a user's files."""

    name: str
    yard: Shell
    folder: Path
    bakes: bool  # otherwise an empty AMI takes the place of a bake

    @classmethod
    def at(cls, name: str, shell: Shell, folder: Path, *, bakes: bool) -> PlayedRoad:
        _write_own_files(shell, folder)
        variables = {
            "CDK_OUTPUT": str(folder / "assembly"),
            "CDK_REQUIRE_APPROVAL": "never",
            "SLIPWAY_CONFIRM_COST": "100000",
        }
        yard = replace(shell, environment={**shell.environment, **variables})
        return cls(name=name, yard=yard, folder=folder, bakes=bakes and not reason_for_no_base())

    def commands(self, section: str = "The commands") -> list[str]:
        """Return the commands of a section, without comments and with continued lines joined."""
        page = (ROOT / "docs" / "roads" / f"{self.name}.md").read_text(encoding="utf-8")
        (block,) = re.findall(_COMMANDS.format(section), page, re.MULTILINE | re.DOTALL)
        lines = block.replace("\\\n", " ").splitlines()
        return [
            line.partition("    #")[0].strip() for line in lines if line.strip() and _NOT_HERE not in line
        ]

    def play(self, commands: Iterable[str]) -> str:
        """Run lines as typed, uploads from the user's folder; return what the last one printed."""
        said = ""
        for typed in commands:
            ran = self.yard.run("bash", "-c", self._here(typed), timeout_s=BAKE_SECONDS)
            assert ran.status == 0 or typed.startswith(_MAY_FAIL), f"$ {typed}\n{ran.text}"
            said = ran.text
        return said

    def _here(self, typed: str) -> str:
        command = typed
        if "slipway image bake" in typed and not self.bakes:
            command = re.sub(r"slipway image bake (\S+) --wait", r"slipway yard stand-in \1", typed)
        if "BUCKET" in command:
            command = command.replace("BUCKET", self._bucket())
        command = re.sub(r"\bcdk deploy ", "cdk deploy --require-approval never ", command)
        return re.sub(r"\bslipway cluster upload (\S+)", rf"slipway cluster upload {self.folder}/\1", command)

    def _bucket(self) -> str:
        found = self.yard.data("slipway", "cluster", "targets", "--json")
        return next(str(target["bucket"]) for target in found if target["name"] == self.name)


def split_at(commands: Sequence[str], start: str) -> tuple[Sequence[str], Sequence[str]]:
    """Split the commands before the first one that begins with these words."""
    at = next(number for number, command in enumerate(commands) if command.startswith(start))
    return commands[:at], commands[at:]


def _write_own_files(shell: Shell, folder: Path) -> None:
    """Make the files that a page expects of a user, and keep them small."""
    (folder / "glue").mkdir()
    text = folder / "text"
    write_sample(text, 12345, 1_000_000)
    texts = text.read_text(encoding="utf-8").split("\n\n")
    pages = [page(f"Article {number}", text) for number, text in enumerate(texts)]
    (folder / "enwiki-pages-articles-multistream.xml.bz2").write_bytes(multistream(pages, together=100))
    write_vocabulary(train(local_source(text), TRAINED_ENTRIES), folder / "vocab.txt")
    for kind, name, path in (("task", "mrpc", "glue/mrpc"), ("model", "distilbert", "bert")):
        made = str(folder / path)
        shell.must(
            sys.executable, "-m", "slipway.containers.data.samples", f"--{kind}", name, "--output", made
        )
