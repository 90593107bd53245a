"""Turns a user's command into settings of the recipe `command`, which all platforms run; finds its mistakes.

Another program that runs a script of the folder is a row of _INTERPRETERS or of _STARTERS.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from slipway.containers.recipes.command.config import SECRETS_PREFIX, is_secret, is_variable
from slipway.jobs.code.folder import CannotShip, ProjectFolder
from slipway.jobs.words.errors import did_you_mean
from slipway.jobs.words.job import LONGEST_NAME, DoesNotFit
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import printable

RECIPE = "command"
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
# AWS Batch would replace it in a command; JSON can spell the same word differently.
_PLACEHOLDER, _SPELLED_OTHERWISE = "Ref::", "Ref:\\u003a"
_PROMISES_SECRET = re.compile(r".*(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)", re.IGNORECASE)
_NO_INDEX = re.compile(r"^\s*--no-index\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCommand:
    """Hold the command that a user wants to run, and its options."""

    words: tuple[str, ...]
    is_per_node: bool = False  # it starts the processes of its node itself
    requirements: str | None = None  # a path in the folder
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)  # names in Secrets Manager, by variable

    def __post_init__(self) -> None:
        # Refuse secrets in a job's definition, which everybody can read who may list jobs.
        for name in self.environment:
            if _PROMISES_SECRET.fullmatch(name):
                raise DoesNotFit(
                    f"--env: {name} looks like a secret, and whoever may list jobs could read it",
                    hint=f"aws secretsmanager create-secret --name {SECRETS_PREFIX}mine --secret-string "
                    f"file://FILE; then --secret {name}=mine",
                )
        for variable, name in self.secrets.items():
            if not is_secret(name.removeprefix(SECRETS_PREFIX)):
                raise DoesNotFit(
                    f"--secret: {variable} is to be '{printable(name[:60])}', which is no name of a secret",
                    hint=f"write --secret {variable}=mine for the secret {SECRETS_PREFIX}mine of Secrets "
                    "Manager",
                )

    def processes(self, asked: int | None) -> int | None:
        """Return how many processes a node starts; refuse a number if the command starts them itself."""
        if not self.is_per_node:
            return asked
        if asked is not None:
            raise DoesNotFit(
                f"the command starts once a node, and {asked} processes a node were asked for",
                hint="leave out --processes-per-node, or --per-node; torchrun has --nproc-per-node itself",
            )
        return 1


def read_variables(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Split NAME=VALUE texts; refuse a name that is set twice, and names that the launcher sets itself."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name in found or not is_variable(name):
            why = "is set twice" if name in found else "is no variable that you can set with a value"
            raise DoesNotFit(
                f"{option}: '{printable(name)}' {why}",
                hint=f"write {option} NAME=VALUE once; names of torchrun's, PATH and SLIPWAY_… are taken",
            )
        found[name] = value
    return found


def command_settings(command: OwnCommand, source: str) -> dict[str, str]:
    """Return the settings; `source` is the URL of the folder's archive."""
    secrets = {each: name.removeprefix(SECRETS_PREFIX) for each, name in command.secrets.items()}
    return {
        "source": source,
        "command": _in_json(command.words),
        **({"per_node": "yes"} if command.is_per_node else {}),
        **({"requirements": os.path.normpath(command.requirements)} if command.requirements else {}),
        **({"environment": _in_json(command.environment)} if command.environment else {}),
        **({"secrets": _in_json(secrets)} if secrets else {}),
    }


def _in_json(value: object) -> str:
    return json.dumps(value).replace(_PLACEHOLDER, _SPELLED_OTHERWISE)


def folder_name(folder: Path) -> str:
    """Return the folder's name, changed so that a job may have it."""
    return job_name(folder.resolve().name)


def job_name(text: str) -> str:
    """Return the text, changed so that a job may be named so."""
    name = _NO_NAME.sub("-", text).strip("-_")[:LONGEST_NAME]
    return name or RECIPE


def refuse_requirements(requirements: str, folder: ProjectFolder, target: Target) -> None:
    """Refuse a file that is not sent, and one that no node of the cluster could install."""
    refuse_left_behind(requirements, folder)
    content = (folder.path / requirements).read_text(encoding="utf-8", errors="replace")
    refuse_uninstallable(requirements, content, target)


def refuse_left_behind(requirements: str, folder: ProjectFolder) -> None:
    """Refuse a requirements file that is not sent with its folder."""
    if os.path.normpath(requirements) not in {file.name for file in folder.files}:
        raise CannotShip(
            f"requirements {printable(requirements)} is no file that is sent from "
            f"{printable(str(folder.path))}",
            hint="give a file of the folder that git does not ignore, by its path in the folder",
        )


def refuse_uninstallable(requirements: str, content: str, target: Target) -> None:
    """Refuse packages that pip would download, if the cluster's nodes have no way to the internet."""
    if not target.has_internet and not _NO_INDEX.search(content):
        raise DoesNotFit(
            f"the nodes of {target.name} reach no internet, so that pip could not install "
            f"{printable(requirements)} there",
            hint="put wheels into the folder, with --no-index and --find-links in the file; or deploy with a "
            f"way out: cdk deploy {target.name} -c {target.name}.egress=nat",
        )


# Finds mistakes in a command before a node starts.
_INTERPRETERS = re.compile(r"(python|pypy)[0-9.]*|bash|sh")
_TAKE_A_VALUE = frozenset({"-W", "-X", "-o", "+o", "-O"})  # an interpreter's options before its script
_STARTERS = frozenset({"torchrun", "accelerate", "deepspeed"})  # their options come before the script
_STARTING_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
# Options of `slipway run` that few programs have. By mistake given to the program, they cost money or time.
_OURS = frozenset(
    {"--dry-run", "--on", "--follow", "--again", "--confirm-cost", "--per-node", "--processes-per-node"}
    | {"--timeout-hours", "--include-secrets", "--depends-on"}
)
_MOST_BYTES = 1 << 20


def refuse_mistakes(command: OwnCommand, folder: ProjectFolder) -> None:
    """Refuse a command that would fail on its nodes, train alone there or lose an option of `slipway run`."""
    words, script = command.words, script_of(command.words)
    first = _started(words)[0]
    starter = PurePath(first).name
    if len(words) == 1 and " " in words[0].strip() and not os.path.lexists(folder.path / words[0]):
        raise CannotShip(
            f"'{printable(words[0])}' is one word, and no shell divides it",
            hint=f"leave out the quotes; if it needs a shell: -- bash -c {shlex.quote(printable(words[0]))}",
        )
    _refuse_own_paths(words, folder)
    if script is not None and not os.path.normpath(script).startswith(("/", "..")):
        _refuse_script(os.path.normpath(script), folder, is_program=first == script)
    if starter in _STARTERS and not command.is_per_node:
        raise CannotShip(
            f"{starter} starts the processes of a node, and here each process of a node would be one more "
            f"{starter}, whose ranks train alone",
            hint="start it once a node: --per-node (in a plan: per_node = true)",
        )
    given = (word.partition("=")[0] for word in words[1:])
    for option in (each for each in given if each in _OURS):
        if not _is_named_in(option, folder):
            program = printable(words[0])
            raise CannotShip(
                f"{option} stands behind `--` and would go to {program}; no file of the folder names it",
                hint=f"put it before `--`: slipway run {option} … -- {program} …; if it is your program's "
                "own: -- bash -c 'PROGRAM OPTIONS'",
            )


def _refuse_own_paths(words: Sequence[str], folder: ProjectFolder) -> None:
    """Refuse the full path of something in the folder: a node unpacks the folder elsewhere."""
    sent = {file.name for file in folder.files}
    for word in words:
        path = Path(word.partition("=")[2] if word.startswith("-") and "=" in word else word)
        if not path.is_absolute() or "\0" in word:
            continue
        real = Path(os.path.realpath(path))
        pairs = ((path, folder.path), (real, folder.path.resolve()))  # by a link, or not
        if name := next((str(way.relative_to(own)) for way, own in pairs if way.is_relative_to(own)), None):
            raise CannotShip(
                f"{printable(str(path))} is a path of this machine, and nodes have the folder elsewhere",
                hint=f"write {printable(name)}: the command starts in the folder"
                if name in sent
                else "name what is sent, by its path in the folder, or what the nodes have",
            )


def _refuse_script(name: str, folder: ProjectFolder, *, is_program: bool) -> None:
    """Refuse a script that is not in the folder, or that Linux could not start."""
    shown, quoted = printable(name), shlex.quote(printable(name))
    sent = [file.name for file in folder.files]
    # The disk of a Mac finds a file by its name in any case, and a node's does not.
    is_misspelt = name not in sent and name.casefold() in map(str.casefold, sent)
    if is_misspelt or not (folder.path / name).exists():
        known = [each for each in sent if PurePath(each).suffix == PurePath(name).suffix]
        raise CannotShip(
            f"{shown} is not in {printable(str(folder.path))}, the folder that is sent",
            hint=did_you_mean(name, known, otherwise="correct it, or give --folder the folder of your code"),
        )
    if is_program and any(file.name == name and not file.is_program for file in folder.files):
        raise CannotShip(
            f"{shown} is not executable", hint=f"chmod +x {quoted}; or name its interpreter: python {quoted}"
        )
    if (is_program or name.endswith(".sh")) and _first_line(folder.path / name).endswith(b"\r\n"):
        raise CannotShip(
            f"{shown} has the line ends of Windows (CRLF), and would not run on Linux",
            hint=f"perl -pi -e 's/\\r$//' {quoted}",
        )


def _first_line(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as file:
        return file.readline(_MOST_BYTES)
    return b""


def _started(words: Sequence[str]) -> list[str]:
    """Return the command without `env` and variables, the modules of torchrun by that name."""
    rest = list(words)
    while rest and (rest[0] == "env" or _ASSIGNMENT.match(rest[0])):
        rest.pop(0)
    is_torchrun = rest[1:2] == ["-m"] and rest[2:3] and rest[2] in _STARTING_MODULES
    return (["torchrun", *rest[3:]] if is_torchrun else rest) or [""]


def script_of(words: Sequence[str]) -> str | None:
    """Return the file that a command runs by a relative path; None if that is not known."""
    first, *arguments = _started(words)
    program = PurePath(first).name
    if program in _STARTERS:
        is_module = {"-m", "--module"} & set(arguments)
        return None if is_module else next((word for word in arguments if word.endswith(".py")), None)
    if _INTERPRETERS.fullmatch(program):
        return _first_file(arguments)
    return first if os.sep in first else None


def _first_file(arguments: Sequence[str]) -> str | None:
    """Return the file that an interpreter runs; None if it runs a module (-m), text (-c) or its input."""
    words = iter(arguments)
    for word in words:
        if word in _TAKE_A_VALUE:
            next(words, None)
        elif word == "-" or (word.startswith("-") and not word.startswith("--") and word[-1] in "mcs"):
            return None
        elif not word.startswith(("-", "+")):
            return word
    return None


def _is_named_in(option: str, folder: ProjectFolder) -> bool:
    """Return True if a program of the folder seems to have the option, as text or as a name in Python."""
    name = option.removeprefix("--")
    python = rf"\b{name.replace('-', '_')}\b" if "-" in name else rf"\b{name}\s*[:=]"
    named = re.compile(rf"{option}(?![\w-])|{python}")
    return any(named.search(text) for text in _programs(folder))


def _programs(folder: ProjectFolder) -> Iterable[str]:
    for file in folder.files:
        is_program = file.is_program or file.name.endswith((".py", ".sh"))
        if is_program and file.link is None and file.size_bytes <= _MOST_BYTES:
            with suppress(OSError):
                yield (folder.path / file.name).read_text(encoding="utf-8", errors="replace")
