"""Stand-ins for nvidia-smi and dcgmi, which answer as on a node with NVIDIA GPUs; the yard has no GPUs.

To add a fault: a row of FAULTS, with what it changes in the answers of a healthy node. The forms of the
answers were recorded on other people's machines; fields that Slipway does not read are left out:

- `nvidia-smi -q -x`: influxdata/telegraf, plugins/inputs/nvidia_smi/testdata, a100-sxm4-v12.xml (driver 535)
  and pro-6000-maxq-blackwell-v13.xml (driver 590)
- `nvidia-smi nvlink --status`: aws-samples/awsome-distributed-training, 1.architectures/efa-cheatsheet.md (of
  a p4de.24xlarge)
- `dcgmi diag -r 1 -j`: DCGM 4.2.3 on a GB10, in the test of a public parser

A healthy H200 with driver 580.159.04 answered `nvidia-smi -q -x` with all of these fields. How a fault
changes them follows NVIDIA's manual of nvidia-smi and DCGM's list of errors; no such machine was seen.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

RECORDED = "NVIDIA A100-SXM4-80GB"  # the GPU of the recorded answers, whatever the node's type
STAND_IN = "nvidia"  # value of SLIPWAY_STAND_IN that makes launchers ask these programs
LINKS = 12
_ILL = -1  # index of the faulty GPU: the last
_GPU = """\
	<gpu id="00000000:{bus:02X}:00.0">
		<product_name>{product}</product_name>
		<persistence_mode>Enabled</persistence_mode>
		<mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
		<uuid>GPU-513536b6-7d19-9063-b049-1e69664bb2{bus:02x}</uuid>
		<minor_number>{index}</minor_number>
		<gpu_recovery_action>None</gpu_recovery_action>
		<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
		<ecc_errors>
			<volatile>
				<sram_correctable>0</sram_correctable>
				<sram_uncorrectable_parity>0</sram_uncorrectable_parity>
				<sram_uncorrectable_secded>0</sram_uncorrectable_secded>
				<dram_correctable>0</dram_correctable>
				<dram_uncorrectable>0</dram_uncorrectable>
			</volatile>
			<aggregate>
				<sram_correctable>0</sram_correctable>
				<sram_uncorrectable_parity>0</sram_uncorrectable_parity>
				<sram_uncorrectable_secded>0</sram_uncorrectable_secded>
				<dram_correctable>0</dram_correctable>
				<dram_uncorrectable>0</dram_uncorrectable>
				<sram_threshold_exceeded>No</sram_threshold_exceeded>
			</aggregate>
			<channel_repair_pending>No</channel_repair_pending>
			<tpc_repair_pending>No</tpc_repair_pending>
			<unrepairable_memory>No</unrepairable_memory>
		</ecc_errors>
		<remapped_rows>
			<remapped_row_corr>0</remapped_row_corr>
			<remapped_row_unc>0</remapped_row_unc>
			<remapped_row_pending>No</remapped_row_pending>
			<remapped_row_failure>No</remapped_row_failure>
		</remapped_rows>
		<fabric><state>N/A</state><status>N/A</status></fabric>
	</gpu>
"""
_LOG = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
	<timestamp>Tue Dec 30 09:49:57 2025</timestamp>
	<driver_version>590.44.01</driver_version>
	<cuda_version>13.1</cuda_version>
	<attached_gpus>{count}</attached_gpus>
{gpus}</nvidia_smi_log>
"""
_LOST = (
    "Unable to determine the device handle for GPU 0000:04:00.0: GPU is lost.  "
    "Reboot the system to recover this GPU"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAnswers:
    gpus: tuple[str, ...]  # part of `nvidia-smi -q -x` for each GPU
    links: tuple[str, ...]  # part of `nvidia-smi nvlink --status` for each GPU
    lost: str = ""  # the error with which nvidia-smi fails
    diagnostic: tuple[tuple[int, str], ...] = ()  # (severity, text) of each finding of dcgmi


def of_node(product: str, count: int) -> GpuAnswers:
    """Return the answers of a healthy node."""
    gpus = (_GPU.format(index=index, bus=index + 1, product=product) for index in range(count))
    speeds = "".join(f"\n\t Link {link}: 25 GB/s" for link in range(LINKS))
    links = (f"GPU {index}: {product} (UUID: GPU-{index}){speeds}" for index in range(count))
    return GpuAnswers(gpus=tuple(gpus), links=tuple(links))


def with_field(name: str, value: str) -> Callable[[GpuAnswers], GpuAnswers]:
    """Return the fault in which a GPU has `value` in the first field of this name."""

    def changed(answers: GpuAnswers) -> GpuAnswers:
        start, _, rest = answers.gpus[_ILL].partition(f"<{name}>")
        text = f"{start}<{name}>{value}</{name}>{rest.partition(f'</{name}>')[2]}"
        return replace(answers, gpus=(*answers.gpus[:_ILL], text))

    return changed


def _link_down(answers: GpuAnswers) -> GpuAnswers:
    text = answers.links[_ILL].replace("Link 4: 25 GB/s", "Link 4: <inactive>")
    return replace(answers, links=(*answers.links[:_ILL], text))


def _links_off(answers: GpuAnswers) -> GpuAnswers:
    title = answers.links[_ILL].partition("\n")[0]
    text = f"{title}\nUnable to retrieve NVLink information as all links are inActive"
    return replace(answers, links=(*answers.links[:_ILL], text))


_REMAPPING_FAILED = "A GPU had uncorrectable memory errors and row remapping failed."
# Fault name -> function that changes the answers.
FAULTS: Mapping[str, Callable[[GpuAnswers], GpuAnswers]] = {
    "one-missing": lambda answers: replace(answers, gpus=answers.gpus[:_ILL], links=answers.links[:_ILL]),
    "lost": lambda answers: replace(answers, lost=_LOST),
    "uncorrectable-errors": with_field("dram_uncorrectable", "2"),
    "row-remapping-failed": with_field("remapped_row_failure", "Yes"),
    "sram-threshold": with_field("sram_threshold_exceeded", "Yes"),
    "unrepairable-memory": with_field("unrepairable_memory", "Yes"),
    "reset-needed": with_field("gpu_recovery_action", "Reset"),
    "outside-the-fabric": with_field(
        "fabric", "<state>Completed</state><status>Insufficient resources</status>"
    ),
    "link-down": _link_down,
    "links-off": _links_off,
    "diagnostic": lambda answers: replace(answers, diagnostic=((2, _REMAPPING_FAILED),)),
}


def write(folder: Path, answers: GpuAnswers) -> None:
    """Write both programs into a folder that is to be on PATH."""
    smi = {
        "-q -x": _LOG.format(count=len(answers.gpus), gpus="".join(answers.gpus)),
        "nvlink --status": "".join(f"{text}\n" for text in answers.links),
    }
    if answers.lost:
        smi = dict.fromkeys(smi, answers.lost)
    _write(folder / "nvidia-smi", smi, 15 if answers.lost else 0)
    _write(folder / "dcgmi", {"diag -r 1 -j": _diagnostic(answers)}, 226 if answers.diagnostic else 0)


def _write(path: Path, answers: Mapping[str, str], code: int) -> None:
    cases = "".join(
        f"{shlex.quote(words)}) printf %s {shlex.quote(text)}; exit {code};;\n"
        for words, text in answers.items()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\ncase "$*" in\n{cases}*) echo "Invalid combination of input arguments."; exit 1;;\nesac\n'
    )
    path.chmod(0o755)


def _diagnostic(answers: GpuAnswers) -> str:
    status = "Fail" if answers.diagnostic else "Pass"
    results = [
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": index, "status": "Pass"}
        for index in range(len(answers.gpus))
    ]
    if answers.diagnostic:
        warnings = [
            {"error_category": 8, "error_id": 29, "error_severity": severity, "warning": words}
            for severity, words in answers.diagnostic
        ]
        results[_ILL] |= {"status": "Fail", "warnings": warnings}
    tests = [{"name": "software", "results": results, "test_summary": {"status": status}}]
    record = {
        "DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": tests}]},
        "metadata": {"Driver Version Detected": "590.44.01", "version": "4.2.3"},
    }
    return json.dumps(record, indent="\t")
