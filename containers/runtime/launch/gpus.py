"""Check that this node's NVIDIA GPUs are healthy: the launcher before each attempt, slurmd before each job.

The sources are NVIDIA's programs and the kernel's log. A new sign of a fault is a function that yields a line
for each. A source that is missing is reported, but is no fault: a container may lack nvidia-smi, or the log.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

Say = Callable[[str], None]

_SMI = "nvidia-smi"
_SMI_SECONDS = 60.0
_QUICK_SECONDS = 5.0
_DIAGNOSTIC = ("dcgmi", "diag", "-r", "1", "-j")
_DIAGNOSTIC_SECONDS = 180.0  # "normally lasting seconds" (DCGM's documentation, "dcgmi diag")
_FABRIC_SECONDS = 60.0  # in which a node that has just booted registers its GPUs with the NVSwitches
_PAUSE_SECONDS = 2.0
_LONGEST = 160
_NOTHING = ("", "None", "No", "N/A", "[N/A]")

# What GPUs that NVLink joins are called: those of p3dn, p4d, p4de, p5, p5e, p5en and p6. Those of g5, g6 and
# g6e have no links.
_LINKED = re.compile(r"SXM|HBM3|H200|B200|B300")
_LINK = re.compile(r"^\s*Link [0-9]+: (?P<state>.*)$")
_GPU = re.compile(r"^GPU (?P<index>[0-9]+):")

# Errors after which NVIDIA's catalogue wants the GPU reset, the machine restarted or the part replaced, as
# AWS sorts them (awslabs/awsome-distributed-ai, 4.validation_and_observability/2.gpu-cluster-healthcheck,
# README, after "XID Errors r590"). Errors of programs (13, 31, 43, 45, 94) and what the driver has mended
# (63, 92) are not among them. 154 only repeats what nvidia-smi says as the action to recover.
_XIDS = frozenset({48, 54, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158, 168})
_XID = re.compile(r"NVRM: Xid \(PCI:(?P<bus>[0-9A-Fa-f:.]+)\): (?P<code>[0-9]+)(?:, (?P<text>[^\n\\]*))?")
_KERNEL_LOG = "dev/kmsg"
_RECORD_BYTES = 8192  # the longest that the kernel gives (Documentation/ABI/testing/dev-kmsg)

# Severities of DCGM's errors: isolate, triage, reset. The others are settings (persistence mode) and remarks
# (DCGM's documentation, "Diagnostic Errors").
_SEVERE = frozenset({2, 4, 6})
_SETTINGS = ("persistence mode",)  # of releases that do not tell the severity


def warn(line: str) -> None:
    print(f"warning: {line}", file=sys.stderr, flush=True)


def findings(expected: int, root: Path, say: Say = warn) -> Iterator[str]:
    """Yield every sign that a GPU is faulty, or that there are fewer than `expected`."""
    gpus = None
    if shutil.which(_SMI) is None:
        say(f"there is no {_SMI} here, so the health of its GPUs is not known")
    else:
        text, failure = _ask((_SMI, "-q", "-x"), _SMI_SECONDS)
        gpus = _read(text)
        if failure or gpus is None:
            yield failure or f"{_SMI} -q -x answers with no XML"
    if gpus is not None:
        # Wait a moment for GPUs that still register with the NVSwitches, and describe all again.
        ends = time.monotonic() + _FABRIC_SECONDS
        while any(_of(gpu, "fabric/state") == "In Progress" for gpu in gpus) and time.monotonic() < ends:
            time.sleep(_PAUSE_SECONDS)
            gpus = _read(_ask((_SMI, "-q", "-x"), _SMI_SECONDS)[0]) or gpus
        if len(gpus) < expected:
            yield f"{_SMI} sees {len(gpus)} of {expected} GPUs"
        for index, gpu in enumerate(gpus):
            yield from _memory(_name(index, gpu), gpu, say)
            yield from _recovery(_name(index, gpu), gpu)
        yield from _links(gpus)
    yield from _kernel_errors(root, say)
    yield from _diagnostic(say)


def signs_after_failure(root: Path, say: Say = warn) -> Iterator[str]:
    """Yield what may have made a rank fail, asked within the time that other nodes wait for a heartbeat."""
    text = _ask((_SMI, "-q", "-x"), _QUICK_SECONDS)[0] if shutil.which(_SMI) else ""
    for index, gpu in enumerate(_read(text) or []):
        yield from _memory(_name(index, gpu), gpu, say)
        yield from _recovery(_name(index, gpu), gpu)
    yield from _kernel_errors(root, say)


def _ask(words: tuple[str, ...], seconds: float) -> tuple[str, str]:
    """Return a program's output, and how it failed, if it did."""
    command = " ".join(words)
    try:
        ran = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=seconds, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return "", f"{command} does not end in {seconds:.0f} s"
    except OSError as error:
        return "", f"{command} cannot be started ({error.strerror})"
    said = " ".join((ran.stderr or ran.stdout).split())[-_LONGEST:]
    return ran.stdout, f"{command} fails ({said or f'exit code {ran.returncode}'})" if ran.returncode else ""


def _read(text: str) -> list[Element] | None:
    with suppress(ElementTree.ParseError):
        return ElementTree.fromstring(text).findall("gpu")  # noqa: S314  # it comes from the driver's own program
    return None


def _name(index: int, gpu: Element) -> str:
    return f"GPU {index} ({gpu.get('id', '?').removeprefix('0000')})"


def _of(gpu: Element, path: str) -> str:
    """Return a field; nothing where this driver or device does not tell."""
    found = (gpu.findtext(path) or "").strip()
    return "" if found in _NOTHING or "deprecated" in found else found


def _memory(name: str, gpu: Element, say: Say) -> Iterator[str]:
    """Yield what is wrong with a GPU's memory.

    A row that waits to be remapped is no illness: programs may still be started (NVIDIA, "GPU Memory Error
    Management", row-remapping pending flag). DCGM wants a GPU isolated that had an uncorrectable error since
    its driver was loaded (DCGM_FR_VOLATILE_DBE_DETECTED).
    """
    volatile = gpu.find("ecc_errors/volatile")
    counts = [field.text or "" for field in volatile if "uncorrectable" in field.tag] if volatile else []
    if errors := sum(int(count) for count in counts if count.isdecimal()):
        yield f"{name} had {errors} uncorrectable memory errors since its driver was loaded"
    if _of(gpu, "ecc_errors/unrepairable_memory"):
        yield f"{name} has memory that cannot be repaired"
    if _of(gpu, "remapped_rows/remapped_row_failure"):
        yield f"{name} could not remap a bad row of its memory"
    elif _of(gpu, "remapped_rows/remapped_row_pending"):
        say(f"{name} will remap a bad row of its memory when it is reset")
    if _of(gpu, "ecc_errors/aggregate/sram_threshold_exceeded"):
        yield f"{name} had more errors in its SRAM than NVIDIA allows"


def _recovery(name: str, gpu: Element) -> Iterator[str]:
    """Yield what the driver itself wants done to a GPU; releases before 565 have another field for it."""
    if action := _of(gpu, "gpu_recovery_action"):
        yield f"{name} needs: {action}"
    elif _of(gpu, "gpu_reset_status/reset_required"):
        yield f"{name} needs: Reset"


def _links(gpus: list[Element]) -> Iterator[str]:
    """Yield NVLinks that are down; one GPU alone, as of a p5.4xlarge, has nobody to be linked to."""
    linked = [index for index, gpu in enumerate(gpus) if _LINKED.search(_of(gpu, "product_name"))]
    if len(gpus) == 1 or not linked:
        return
    for index in linked:
        state, status = (_of(gpus[index], f"fabric/{field}") for field in ("state", "status"))
        if state not in ("", "Completed") or status not in ("", "Success"):
            said = f"{state or '?'}, {status or '?'}"
            yield f"{_name(index, gpus[index])} has not joined NVLink's fabric ({said})"
    text, failure = _ask((_SMI, "nvlink", "--status"), _SMI_SECONDS)
    if failure:
        yield failure
        return
    states: dict[int, list[str]] = {}
    index = -1
    for line in text.splitlines():
        if gpu := _GPU.match(line):
            index = int(gpu["index"])
        elif link := _LINK.match(line):
            states.setdefault(index, []).append(link["state"])
    for index in linked:
        own = states.get(index, [])
        active = sum("inactive" not in state for state in own)
        if active < max(len(own), 1):
            yield f"{_name(index, gpus[index])} has {active} of {len(own) or 'its'} NVLinks"


def _kernel_errors(root: Path, say: Say) -> Iterator[str]:
    """Yield each kind of grave error that the driver logged since the machine was started."""
    try:
        log = _kernel_log(root / _KERNEL_LOG)
    except OSError:
        say(f"/{_KERNEL_LOG} cannot be read here, so errors that the driver logged are not known")
        return
    seen = set()
    for found in _XID.finditer(log):
        what = (int(found["code"]), found["bus"])
        if what[0] in _XIDS and what not in seen:
            seen.add(what)
            text = f": {found['text'].strip()[:_LONGEST]}" if found["text"] else ""
            yield f"the kernel logged Xid {what[0]} of the GPU at {what[1]}{text}"


def _kernel_log(path: Path) -> str:
    """Read what the kernel remembers; each read gives a record, and none waits for the next."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    records = []
    try:
        while True:
            try:
                record = os.read(descriptor, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # the oldest were overwritten meanwhile
            if not record:
                break
            records.append(record)
    finally:
        os.close(descriptor)
    return b"".join(records).decode(errors="replace")


def _diagnostic(say: Say) -> Iterator[str]:
    """Yield what DCGM's quick diagnostic finds, where it is installed."""
    if shutil.which(_DIAGNOSTIC[0]) is None:
        return
    command = " ".join(_DIAGNOSTIC[:-1])
    text, failure = _ask(_DIAGNOSTIC, _DIAGNOSTIC_SECONDS)
    try:
        # A line of its own may come before. That tests failed is in the answer and in the exit code.
        answer = json.loads(text[text.index("{") :])
    except (ValueError, RecursionError):
        # It did not run: it found no host engine, or another diagnostic runs. That says nothing of a GPU.
        say(f"{failure or f'{command} answers with no JSON'}, so it was left out")
        return
    for severity, words in dict.fromkeys(_failures(answer)):
        is_severe = severity in _SEVERE if severity is not None else not words.lower().startswith(_SETTINGS)
        if is_severe:
            yield f"{command} fails: {words[:_LONGEST]}"
        else:
            say(f"{command}: {words[:_LONGEST]}")


def _failures(answer: object) -> Iterator[tuple[int | None, str]]:
    """Yield the failed results of a tree of tests, which releases 3 and 4 of DCGM shape differently."""
    if isinstance(answer, list):
        for one in answer:
            yield from _failures(one)
    if not isinstance(answer, dict):
        return
    if str(answer.get("status", "")).lower() == "fail":
        warnings = answer.get("warnings") or answer.get("warning") or []
        for one in warnings if isinstance(warnings, list) else [warnings]:
            record = one if isinstance(one, dict) else {"warning": one}
            severity = record.get("error_severity")
            words = " ".join(str(record.get("warning", "")).split())
            yield severity if isinstance(severity, int) else None, words or "it does not say why"
    for key, value in answer.items():
        if key not in ("warnings", "test_summary"):
            yield from _failures(value)
