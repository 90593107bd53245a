"""List the readers of bytes that others wrote, each with a valid file. To add one, add a row to READERS."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from slipway.containers.data.corpus.documents import read_page, text_of
from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.tasks import TASKS
from slipway.containers.data.glue.texts import TRAIN, open_table, read_texts
from slipway.containers.data.megatron.engines import parse_bpe_vocabulary
from slipway.containers.data.text.documents import read_json
from slipway.containers.data.tokens.engine import parse_vocabulary
from slipway.containers.models.published import read_shape
from slipway.containers.recipes.command.packages import unpack_source
from slipway.containers.runtime.checkpoint import manifest
from slipway.containers.runtime.checkpoint.tensor_file import decode_entries
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.launch import gpus, sagemaker_entry
from slipway.containers.runtime.observe.metric_files import MetricFiles
from slipway.containers.runtime.observe.telemetry import first_record, scalars_record
from slipway.containers.tasks.description import parse_description
from slipway.containers.tasks.values import decode_value, encode_value
from slipway.infra.declare.cdk_json import refuse_repeated_keys
from slipway.jobs.clusters.images.dockerfile import refuse_leaving
from slipway.jobs.estimate.evidence.measurements import decode_measurements
from slipway.jobs.estimate.evidence.published_rows import decode_published
from slipway.jobs.estimate.inputs.model_files import model_from_file
from slipway.jobs.estimate.prices import decode_rates
from slipway.jobs.plan.inputs.files import read_plan_file
from slipway.jobs.plan.inputs.plan_json import read_plan
from slipway.jobs.plan.inputs.sweeps import read_sweep
from slipway.jobs.plan.run import journal as plan_journal
from slipway.jobs.platforms.batch.platform import _architectures
from slipway.jobs.platforms.mpi.node.facts import decode_facts
from slipway.jobs.platforms.mpi.node.setting import NodePaths, read_setup
from slipway.jobs.platforms.slurm.node import allocation
from slipway.jobs.platforms.slurm.node.setting import SlurmNodePaths, read_facts
from slipway.jobs.submit import curve
from slipway.jobs.words import mpi, slurm, targets
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images import amis
from slipway.yard import bounded_yaml
from slipway.yard.cloudformation.template import template
from slipway.yard.errors import ApiError
from slipway.yard.permissions import policies
from slipway.yard.state import STATE_FILE, read_state
from tests.any_input import requests
from tests.jobs.platforms.slurm.node.test_attempts import NEW, OLD, set_

Read = Callable[[bytes], object]
OURS = (SlipwayError, Refusal, ApiError, DataError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    read: Read
    valid: tuple[bytes, ...]
    also: tuple[type[Exception], ...] = ()  # an error that its callers expect besides ours


def of_text(read: Callable[[str], object]) -> Read:
    return lambda content: read(content.decode("utf-8", "replace"))


def of_file(read: Callable[[Path], object], name: str) -> Read:
    """Return a reader of bytes as a file of this name."""

    def reader(content: bytes) -> object:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            return read(path)

    return reader


def in_folder(read: Callable[[Path], object], name: str) -> Read:
    return of_file(lambda path: read(path.parents[name.count("/")]), name)


CORPUS = Path(__file__).with_name("corpus")


def kept(name: str) -> tuple[bytes, ...]:
    """Return a file of the corpus."""
    return ((CORPUS / name).read_bytes(),)


def js(value: object) -> bytes:
    return json.dumps(value).encode()


def packaged(name: str, lines: int = 3) -> bytes:
    content = (Path(targets.__file__).parents[1] / name).read_bytes()
    return b"".join(content.splitlines(keepends=True)[:lines])


KILLED = {"status": ["ERROR"], "return_code": set_(85), "signal": {"id": set_(9), "name": ""}}
QUEUE = {"jobs": [OLD, {**NEW, "exit_code": KILLED}]}
ACCOUNTED = {
    "comment": {"job": "slipway:neox-0123456789ab"},
    "time": {"submission": 1, "start": 2, "end": 3},
    "state": {"current": ["COMPLETED"], "reason": "None"},
    "array": {"job_id": 3, "task_id": {"set": True, "number": 1}},
    "job_id": 8,
    "exit_code": {"return_code": set_(0), "signal": {"id": 0}},
    "nodes": "a",
    "allocation_nodes": 2,
}
RECORD = {
    "id": "7",
    "name": "a",
    "phase": "run",
    "state": "RUNNING",
    "reason": "",
    "nodes": 1,
    "hosts": "n",
    "exit_code": None,
    "exit_signal": None,
    "restarts": 0,
    "submitted": 1,
    "started": 2,
    "ended": None,
    "depends_on": "",
}
ANSWER = {
    "jobs": [RECORD],
    "attempts": [{"job": "7", "number": 1, "started": 1, "ended": 2, "exit_code": 0}],
    "nodes": [{"name": "n", "state": "IDLE", "reason": ""}],
    "left_out": 0,
    "notes": ["x"],
}
READINESS = {
    "schema": mpi.READINESS_SCHEMA_VERSION,
    "ready": True,
    "at": 1,
    "nodes": [{"name": "n", "instance_id": "i-0", "answered": True, "why": ""}],
}
FACTS = {
    "python": "3",
    "torch": "2",
    "mpi": "x",
    "slipway": "1",
    "training": "c",
    "numa_domains": 1,
    "cores": 2,
    "ccl": True,
    "running": "",
}
NODE = {
    "cluster": "c",
    "region": "us-east-1",
    "secret_arn": "a",
    "job_role_arn": "r",
    "bucket": "b",
    "file_system_mount": None,
    "nodes": 2,
    "mpi": "openmpi",
    "log_group": "l",
    "efa_interfaces": 4,
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 64,
    "hidden_act": "silu",
    "rope_theta": 1e4,
    "rms_norm_eps": 1e-5,
}
NEOX = {
    "architectures": ["GPTNeoXForCausalLM"],
    "model_type": "gpt_neox",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "vocab_size": 100,
    "max_position_embeddings": 64,
    "rotary_pct": 0.25,
    "use_parallel_residual": True,
}
TOKENIZER = {
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    "added_tokens": [{"id": 3, "content": "<|endoftext|>"}],
}
PLAN_FILE = {
    "pools": [{"type": "p4d", "nodes": 2, "devices_per_node": 4, "price_per_hour": 1.5, "spans_nodes": True}],
    "jobs": [
        {
            "name": "a",
            "deadline": 7200,
            "priority": 2,
            "steps": 10,
            "modes": [{"technique": "ddp", "type": "p4d", "devices": 2, "seconds": 60.5}],
        },
        {
            "name": "b",
            "depends_on": ["a"],
            "modes": [{"technique": "x", "type": "p4d", "devices": 1, "seconds": 9}],
        },
    ],
}
SWEEP = b"""[[pools]]
type = "p4d.24xlarge"
nodes = 1
[[jobs]]
name = "bert"
recipe = "bert_pretrain"
settings = { size = "base", sequences = 2000, micro_batch = 8 }
grid = { learning_rate = [1e-3] }
"""
BAKERY = {
    "schema": amis.SCHEMA_VERSION,
    **dict.fromkeys(amis.Bakery.__dataclass_fields__, "x"),
}
POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["s3:Get*"],
            "Resource": "arn:aws:s3:::b/${aws:username}",
            "Condition": {"StringEquals": {"aws:PrincipalTag/a": ["b"]}},
        }
    ],
}
STACK = {
    "Parameters": {"Name": {"Type": "String", "Default": "x", "AllowedPattern": "[a-z]+"}},
    "Conditions": {"Is": {"Fn::Equals": [{"Ref": "Name"}, "x"]}},
    "Resources": {
        "Bucket": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain", "Condition": "Is"},
        "Topic": {
            "Type": "AWS::SNS::Topic",
            "DependsOn": ["Bucket"],
            "Properties": {
                "TopicName": {"Fn::Sub": ["${Name}-${B}", {"B": {"Fn::GetAtt": ["Bucket", "Arn"]}}]}
            },
        },
    },
    "Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["Bucket", "Arn"]}, "Export": {"Name": "x"}}},
}
LOOPED = {
    "Transform": "AWS::LanguageExtensions",
    "Resources": {
        "Fn::ForEach::Topics": ["Name", ["A", "B"], {"Topic${Name}": {"Type": "AWS::SNS::Topic"}}],
    },
}
CODE: dict[str, Any] = {"module": "m", "name": "f", "file": None, "arguments": [], "options": {}}
TASK = {
    "name": "t",
    "load_model": CODE,
    "load_dataloader": CODE,
    "loss": CODE,
    "rate": 0.1,
    "optimizer": "adam",
    "epochs": 1,
    "batches": None,
    "arguments": {},
    "micro_batch": None,
    "seed": 0,
}
DOCKER = {"manifests": [{"digest": "sha256:x", "platform": {"architecture": "amd64", "os": "linux"}}]}
LOG = b"""step=1 loss=2.5 samples/s=10
{'loss': 2.1, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.5}
{"step": 3, "loss": 1.5}
 10%|#         | 1/10 [00:01<00:09,  1.0it/s, loss=2]
[2026-01-01 00:00:00,000] [INFO] [Rank 0] step=10, skipped=0, lr=[1e-3], mom=[[0.9, 0.99]]
step: 10 loss: 2.0 iter time (s): 0.5 samples/sec: 16.0
Epoch 1: 50%|#####     | 5/10 [00:05<00:05, v_num=0, train_loss=1.5]
"""


def packed(*, name: str = "a/b.py", link: str | None = None) -> bytes:
    whole = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=whole, mode="wb", mtime=0) as plain,
        tarfile.open(fileobj=plain, mode="w|") as tar,
    ):
        entry = tarfile.TarInfo(name)
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"x=1"))
        if link is not None:
            entry = tarfile.TarInfo("link")
            entry.type, entry.linkname = tarfile.SYMTYPE, link
            tar.addfile(entry)
    return whole.getvalue()


def unpack(content: bytes) -> None:
    """Unpack any bytes that claim to be the submitted archive, with the right digest."""
    plain = content
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.tar.gz").write_bytes(gzip.compress(plain, 1))
        there = Path(folder) / "out"
        there.mkdir()
        unpack_source(str(Path(folder) / "x.tar.gz"), hashlib.sha256(plain).hexdigest(), there, None)


def tensors(content: bytes) -> object:
    body = memoryview(content)
    return decode_entries(Path("x"), len(content), lambda start, length: body[start : start + length])


def read_table(path: Path) -> object:
    table = open_table(str(path.parent), TASKS["sst2"], TRAIN)
    return [read_texts(table, piece) for piece in table.pieces(50)]


def signed_manifest(content: bytes) -> object:
    """Read a manifest with any content and the right digest."""
    try:
        record = json.loads(content)
        record["sha256"] = manifest.digest_of({key: record[key] for key in record if key != "sha256"})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return manifest.decode(json.dumps(record).encode())


def relayed(content: bytes, name: str) -> object:
    with tempfile.TemporaryDirectory() as folder:
        files = MetricFiles(Path(folder))
        (Path(folder) / name).write_bytes(content)
        return files.new_rows()


TSV = b"sentence\tlabel\nfine film\t1\n"
HEADER = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
TENSORS = len(HEADER).to_bytes(8, "little") + HEADER + bytes(4)
EVENTS = first_record(1.0) + scalars_record(2.0, 3, {"loss": 1.5, "rate": 2.0})
READERS: dict[str, Reader] = {
    "ami record": Reader(
        read=of_text(lambda text: amis.decode_bakery(text, parameter="p")), valid=(js(BAKERY),)
    ),
    "archive of code": Reader(
        read=unpack, valid=(gzip.decompress(packed()), gzip.decompress(packed(link="a")))
    ),
    "bpe vocabulary": Reader(read=lambda c: parse_bpe_vocabulary("v", c), valid=(js(TOKENIZER),)),
    "calibration": Reader(
        read=of_text(lambda text: decode_measurements(text, "f")),
        valid=(packaged("estimate/evidence/calibration.csv"),),
    ),
    "checkpoint's manifest": Reader(read=signed_manifest, valid=kept("manifest.json")),
    "checkpoint's manifest, unsigned": Reader(read=manifest.decode, valid=kept("manifest.json")),
    "cloudformation, looped": Reader(read=of_text(template.load), valid=(js(LOOPED),)),
    "cloudformation, json": Reader(read=of_text(template.load), valid=(js(STACK),)),
    "cloudformation, yaml": Reader(read=of_text(template.load), valid=(yaml.safe_dump(STACK).encode(),)),
    "dataset's record": Reader(read=of_file(read_json, "plan.json"), valid=(js({"a": 1}),)),
    "docker manifest": Reader(read=of_text(_architectures), valid=(js(DOCKER),)),
    "dockerfile": Reader(
        read=of_file(lambda path: refuse_leaving("images/x", path), "Dockerfile"),
        valid=(b'FROM a:1 AS b\nCOPY ["x y", "/z"]\nRUN <<EOF\nls\nEOF\nADD --chown=1 c \\\n  d\n',),
    ),
    "glue table": Reader(read=of_file(read_table, "train.tsv"), valid=(TSV,)),
    "line of a corpus": Reader(read=lambda c: text_of("f", c, "text"), valid=(js({"text": "x"}),)),
    "log": Reader(read=of_text(lambda text: curve.points(text.splitlines())), valid=(LOG,)),
    "metrics file": Reader(read=lambda c: relayed(c, "metrics.jsonl"), valid=(js({"step": 1, "loss": 2}),)),
    "model's config, estimated": Reader(
        read=of_file(lambda path: model_from_file(str(path)), "config.json"), valid=(js(CONFIG), js(NEOX))
    ),
    "model's config, trained": Reader(read=of_file(read_shape, "config.json"), valid=(js(NEOX),)),
    "mpi answer": Reader(read=of_text(mpi.decode_readiness), valid=(js(READINESS),)),
    "mpi facts": Reader(read=of_text(decode_facts), valid=(js(FACTS),)),
    "node.json, mpi": Reader(
        read=in_folder(lambda root: read_setup(NodePaths(root=root)), "etc/slipway/node.json"),
        valid=(js(NODE),),
    ),
    "node.json, slurm": Reader(
        read=in_folder(lambda root: read_facts(SlurmNodePaths(root=root)), "etc/slipway/node.json"),
        valid=(js(NODE),),
    ),
    "nvidia-smi": Reader(read=of_text(gpus._read), valid=(b"<a><gpu id='0'><b>1</b></gpu></a>",)),
    "page of a dump": Reader(
        read=lambda c: read_page("d", c), valid=(b"<page><title>t</title><ns>0</ns></page>",)
    ),
    "plan": Reader(read=of_file(read_plan, "plan.json"), valid=kept("plan.json")),
    "plan's input": Reader(read=of_file(read_plan_file, "jobs.json"), valid=(js(PLAN_FILE),)),
    "plan's journal": Reader(
        read=of_text(lambda text: plan_journal.decode(text, "l")), valid=kept("plan-journal.jsonl")
    ),
    "policy": Reader(
        read=of_text(lambda text: policies.decode("p", text)), valid=(js(POLICY),), also=(ValueError,)
    ),
    "prices": Reader(
        read=of_text(lambda text: decode_rates(text, "f")), valid=(packaged("words/catalogue/rates.csv"),)
    ),
    "project's cdk.json": Reader(
        read=in_folder(refuse_repeated_keys, "cdk.json"), valid=(js({"app": "x", "context": {"a": 1}}),)
    ),
    "published rates": Reader(
        read=of_text(lambda text: decode_published(text, "f")),
        valid=(packaged("estimate/evidence/other_rows.csv"),),
    ),
    "result of a task": Reader(
        read=lambda c: decode_value(c, "r"), valid=(encode_value({"a": [1, None, "x"]}, "v"),)
    ),
    "sacct": Reader(read=of_text(allocation.read_accounts), valid=(js({"jobs": [ACCOUNTED]}),)),
    "sagemaker's settings": Reader(read=of_text(sagemaker_entry._settings), valid=(js({"a": "1", "b": 2}),)),
    "sinfo": Reader(
        read=of_text(allocation.read_nodes),
        valid=(js({"nodes": [{"name": "n", "state": ["IDLE"], "reason": None}]}),),
    ),
    "squeue": Reader(read=of_text(allocation.read_queue), valid=(js(QUEUE),)),
    "squeue's time left": Reader(read=of_text(allocation._seconds), valid=(b"1-02:03:04",)),
    "slurm's answer": Reader(read=of_text(slurm.decode_answer), valid=(js(ANSWER),)),
    "sweep": Reader(read=of_file(read_sweep, "sweep.toml"), valid=(SWEEP,)),
    "task": Reader(read=of_text(parse_description), valid=(js(TASK),)),
    "target": Reader(
        read=of_text(lambda text: targets.decode_target(text, parameter="p")), valid=kept("target.json")
    ),
    "tensor file": Reader(read=tensors, valid=(TENSORS,)),
    "tensorboard's events": Reader(read=lambda c: relayed(c, "events.out.tfevents.1"), valid=(EVENTS,)),
    "wordpiece vocabulary": Reader(
        read=lambda c: parse_vocabulary("v", c), valid=(b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n",)
    ),
    "request, form": Reader(read=requests.form, valid=(requests.FORM,)),
    "request, json": Reader(
        read=requests.json_rpc, valid=(js({"Name": "a", "Value": "b", "Type": "String"}),)
    ),
    "request, keys to delete": Reader(
        read=requests.keys_to_delete, valid=(b"<Delete><Object><Key>a</Key></Object></Delete>",)
    ),
    "request, rest-json": Reader(
        read=requests.rest_json, valid=(js({"jobName": "a", "jobQueue": "q", "jobDefinition": "d"}),)
    ),
    "signature, date": Reader(read=requests.by_date, valid=(b"Thu, 26 Nov 2026 00:00:00 GMT",)),
    "signature, header": Reader(read=requests.by_header, valid=((requests.HEADER % "s3").encode(),)),
    "signature, query": Reader(
        read=requests.by_query, valid=(requests.PRESIGNED.encode(), requests.OLD.encode())
    ),
    "yaml": Reader(
        read=of_text(bounded_yaml.load), valid=(b"a: &x [1, 2]\nb: *x\n",), also=(yaml.YAMLError,)
    ),
    "yard's record": Reader(read=in_folder(read_state, STATE_FILE), valid=(js({"pid": 1}),)),
}
