"""Run `scripts/release`: check, build and tag a version, or prepare the next one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from scripts.releasing.artifacts import build, build_site, clone, run
from scripts.releasing.preparing import CHANGELOG, next_files, pages_of_another, section_of, write_all
from scripts.releasing.statements import bill_of_materials, checksums, provenance
from slipway._version import TAG, VERSION
from slipway.jobs.output import complain, say
from slipway.jobs.words.errors import SlipwayError

ROOT = Path(__file__).resolve().parents[2]
NAME = f"slipway-{VERSION}"
_INTERRUPTED = 130


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--prepare", metavar="VERSION", help="Give the checkout this version, for you to commit; build nothing."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    default=ROOT / "dist",
    show_default="dist",
    help="Folder in which the release's folder appears.",
)
@click.option(
    "--from", callback=lambda *told: os.chdir(told[2] or "."), hidden=True, expose_value=False, is_eager=True
)
@click.option("--checks", is_flag=True, help="Run .ci/run first, all that a change must pass.")
@click.option("--tag", is_flag=True, help="Tag the commit at the end. Nothing is pushed.")
@click.option("--dry-run", is_flag=True, help="Check, say each step, and do none.")
def release(*, prepare: str | None, out: Path, checks: bool, tag: bool, dry_run: bool) -> None:
    """Build the release of this commit: wheel, source distribution, site, SBOM, provenance and checksums."""
    refuse_changes()
    if prepare is not None:
        return prepare_version(prepare, dry_run=dry_run)
    notes = section_of((ROOT / CHANGELOG).read_text(encoding="utf-8"), VERSION)
    refuse_other_tags()
    refuse_other_pages()
    steps = [
        f"clone HEAD and build {NAME} from it",
        "build the documentation as a site",
        "write SBOM, provenance and checksums",
        f"move all to {out / NAME}",
    ]
    steps = [*(["run .ci/run"] if checks else []), *steps, *([f"tag HEAD as {TAG}"] if tag else [])]
    if dry_run:
        for step in steps:
            say(f"release: would {step}")
        return None
    if checks:
        run_checks()
    finished = make(out)
    say(f"release: {finished}")
    click.echo((finished / "SHA256SUMS").read_text(encoding="ascii"), nl=False)
    if tag:
        tag_head(notes)
    return None


def run_checks() -> None:
    say("release: running .ci/run")
    code = subprocess.run([ROOT / ".ci" / "run"], cwd=ROOT, check=False).returncode
    if code:
        raise SlipwayError(
            f".ci/run ended with {code}", hint="mend what it names, commit, and run this again"
        )


def refuse_changes() -> None:
    changed = run("git", "-C", str(ROOT), "status", "--porcelain")
    if changed:
        raise SlipwayError(
            f"the checkout has changes that are in no commit: {', '.join(changed.split(chr(10))[:5])}",
            hint="commit them, or take them back: a release is what a commit says",
        )


def refuse_other_tags() -> None:
    """Refuse a commit with the tag of another version, and a version whose tag is on another commit."""
    tags = run("git", "-C", str(ROOT), "tag", "--points-at", "HEAD").split()
    here = [each for each in tags if re.fullmatch(r"v\d+\.\d+\.\d+", each)]
    if wrong := [each for each in here if each != TAG]:
        raise SlipwayError(
            f"HEAD is tagged {', '.join(wrong)}, and slipway/_version.py says {VERSION}",
            hint="tag the commit whose file says that version",
        )
    if not here and run("git", "-C", str(ROOT), "tag", "--list", TAG):
        raise SlipwayError(
            f"{VERSION} is released: {TAG} is another commit than HEAD",
            hint="check that commit out to build it again, or --prepare the next version",
        )


def refuse_other_pages() -> None:
    if pages := pages_of_another(ROOT, VERSION):
        raise SlipwayError(
            f"{', '.join(map(str, pages))} shows another version than {VERSION}",
            hint="change it there, and commit",
        )


def prepare_version(version: str, *, dry_run: bool) -> None:
    files = next_files(ROOT, version, datetime.now(tz=UTC).date())
    for path in files:
        say(f"release: {'would write' if dry_run else 'writing'} {path}")
    if not dry_run:
        write_all(ROOT, files)
        say("release: now read the changelog, commit, and run scripts/release")


def make(out: Path) -> Path:
    """Make the release's folder, which appears once it is complete; an existing one must be identical."""
    out.mkdir(parents=True, exist_ok=True)
    work = out / f".{NAME}.unfinished"
    shutil.rmtree(work, ignore_errors=True)  # from a run that was killed
    try:
        made, finished = make_unfinished(work), out / NAME
        if not finished.exists():
            made.rename(finished)
        elif (finished / "SHA256SUMS").read_text(encoding="ascii") != (made / "SHA256SUMS").read_text(
            "ascii"
        ):
            raise SlipwayError(
                f"{finished} is there and differs from what this commit gives",
                hint="remove it, or choose another folder with --out",
            )
        return finished
    finally:
        shutil.rmtree(work, ignore_errors=True)


def make_unfinished(work: Path) -> Path:
    target = work / NAME
    target.mkdir(parents=True)
    say("release: cloning HEAD")
    source = clone(ROOT, work / "clone", TAG)
    say(f"release: building {NAME} from {source.commit[:9]}")
    sdist, wheel = build(source, work, target)
    say("release: building the documentation as a site")
    site = build_site(source, work, target / f"{NAME}-docs.tar.gz")
    say("release: writing SBOM, provenance and checksums")
    sbom = target / f"{NAME}.cdx.json"
    sbom.write_text(bill_of_materials(source, VERSION, wheel), encoding="utf-8")
    about = target / f"{NAME}.provenance.json"
    about.write_text(provenance(source, VERSION, (sdist, wheel, site, sbom)), encoding="utf-8")
    (target / "SHA256SUMS").write_text(checksums((sdist, wheel, site, sbom, about)), encoding="ascii")
    return target


def tag_head(notes: str) -> None:
    if run("git", "-C", str(ROOT), "tag", "--list", TAG):
        say(f"release: HEAD has the tag {TAG} already")
        return
    words = f"Slipway {VERSION}\n\n{notes}\n"
    run("git", "-C", str(ROOT), "tag", "--annotate", "--cleanup=verbatim", "--message", words, TAG)
    say(f"release: tagged {TAG}; git push origin {TAG} lets the forge build it")


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the unfinished folder is removed, too
    try:
        release.main(standalone_mode=False)
    except click.exceptions.Exit as asked:
        sys.exit(asked.exit_code)
    except click.ClickException as wrong:
        wrong.show()
        sys.exit(wrong.exit_code)
    except SlipwayError as error:
        complain(error.message, error.hint)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        complain("interrupted: nothing is half done", "run it again")
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
