"""README and docs/ are right: commands parse, links lead somewhere, and no generated page is stale."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator

import click
import pytest

from slipway.jobs.cli.cli import PROGRAM, cli, find_renamed
from tests.architecture.tracked import ROOT, paths, text
from tests.jobs.cli.test_cli import COMMANDS

ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
TEMPLATE = "jobs/code/template/README.md"
PAGES = sorted(
    {path for path in paths(".md") if path.startswith("docs/")} | {"docs/cli.md", TEMPLATE, *ROOT_PAGES}
)
SHELL_BLOCK = re.compile(r"^```(?:sh|bash|shell|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# One command in a line: it begins the line, or follows a prompt, an operator, a setting or an opening "$(".
SLIPWAY = re.compile(rf"(?:^|[|;&(]|\b\w+=\S+ )\s*(?:\$ )?{PROGRAM} ([^|;&)\n<>]*)")
# A file or folder of ours, named as code.
OURS = re.compile(r"^(?:slipway|infra|jobs|containers|yard|docs|tests)/[\w./-]*$")
TYPED = re.compile(rf'"{PROGRAM}", ((?:"[\w-]+"(?:, )?)+)')  # a command as Python types it
SCRIPT = re.compile(r"(?<![\w./-])((?:scripts|\.ci)/[\w./-]*\w)")

Parse = Callable[[list[str]], None]


def page(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def shell_lines(text: str) -> list[str]:
    """List what readers type: in shell blocks (after the prompt, if there is one), and inline."""
    typed: list[str] = []
    for block in SHELL_BLOCK.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        prompted = [line for line in lines if line.startswith("$ ")]
        typed += prompted or lines
    return typed + [
        code for code in INLINE.findall(CODE_BLOCK.sub("", text)) if code.startswith(f"{PROGRAM} ")
    ]


def command_lines(text: str) -> Iterator[list[str]]:
    for line in shell_lines(text):
        for arguments in SLIPWAY.findall(line):
            yield shlex.split(arguments, comments=True)


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> Parse:
    """Parse a command line to its last option, as the real program would, but run nothing."""
    monkeypatch.setattr(click.Command, "invoke", lambda _self, _context: None)

    def parse(arguments: list[str]) -> None:
        try:
            cli.main(arguments, prog_name=PROGRAM, standalone_mode=False)
        except click.UsageError as error:
            pytest.fail(f"slipway {shlex.join(arguments)}: {error.format_message()}")

    return parse


@pytest.mark.parametrize("path", PAGES)
def test_every_command_in_the_docs_is_one_that_the_command_line_takes(path: str, parse: Parse) -> None:
    for arguments in command_lines(page(path)):
        parse(arguments)
        assert not find_renamed(arguments), f"{path} says an old name: {arguments}"


def test_no_test_and_no_script_types_an_old_name() -> None:
    """Old names end with the next major version, and everything that uses them would break then."""
    typed = [
        (path, words, find_renamed(re.findall(r'"([\w-]+)"', words)))
        for path in paths(".py", ".ipynb")
        for words in TYPED.findall(text(path).replace('\\"', '"'))
    ]
    assert len(typed) > 100
    assert [f"{path}: {words}" for path, words, renamed in typed if renamed] == []


@pytest.mark.parametrize("path", PAGES)
def test_every_script_in_the_docs_exists(path: str) -> None:
    missing = [name for name in SCRIPT.findall(page(path)) if not (ROOT / name).exists()]
    assert not missing


@pytest.mark.parametrize("path", PAGES)
def test_every_file_and_folder_that_a_page_names_is_there(path: str) -> None:
    named = [code for code in INLINE.findall(CODE_BLOCK.sub("", page(path))) if OURS.match(code)]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_index_of_the_docs_names_every_page() -> None:
    index = page("docs/README.md")
    pages = [name.removeprefix("docs/") for name in PAGES if name.startswith("docs/")]
    assert [name for name in pages if name != "README.md" and f"]({name})" not in index] == []


@pytest.mark.parametrize("path", PAGES)
def test_every_link_between_pages_leads_somewhere(path: str) -> None:
    for target, anchor in LINK.findall(CODE_BLOCK.sub("", page(path))):
        there = (ROOT / path).parent / target if target else ROOT / path
        assert there.exists(), f"{path} links to {target}, which does not exist"
        if anchor:
            assert anchor in anchors(there.read_text(encoding="utf-8")), (
                f"{path}: no heading #{anchor} in {target}"
            )


def test_every_command_is_on_the_page_of_the_command_line() -> None:
    reference = page("docs/cli.md")
    assert not [name for name in COMMANDS if f"## {PROGRAM} {name}\n" not in reference]


def test_the_page_of_projects_lists_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| `slipway\[.*", (ROOT / "docs" / "projects.md").read_text(), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`slipway\[(.+?)\]`", row)} == set(extras)


def test_the_readme_shows_how_to_begin() -> None:
    typed = "\n".join(shell_lines(page("README.md")))
    assert "scripts/demo" in typed
    assert "scripts/test" in typed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```sh\nslipway instance list --efa\n```", [["instance", "list", "--efa"]]),
        ("```console\n$ slipway yard up\nslipway is up\n```", [["yard", "up"]]),
        (
            '```sh\neval "$(slipway yard env)"\nA=1 slipway a b | slipway c\n```',
            [["yard", "env"], ["a", "b"], ["c"]],
        ),
        ("say `slipway preflight dl1` first", [["preflight", "dl1"]]),
        ("```text\nslipway is a word here\n```", []),
    ],
)
def test_commands_are_found_where_a_reader_would_type_them(text: str, found: list[list[str]]) -> None:
    assert list(command_lines(text)) == found


def test_a_command_that_does_not_exist_is_found_out(parse: Parse) -> None:
    with pytest.raises(pytest.fail.Exception, match="No such option"):
        parse(["instance", "list", "--no-such-option"])


def anchors(text: str) -> set[str]:
    """Make anchors as the forges do: lower case, no punctuation, hyphens for spaces."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}
