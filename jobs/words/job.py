"""A job: one recipe, at one size; also its inputs in S3, and its request for the nodes.

A new option of jobs is one field with its line in _problems; each platform's folder says what it means there.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from shlex import quote
from typing import Any

from slipway.jobs.words.errors import InvalidConfig, Problem, SlipwayError
from slipway.jobs.words.given import shown, wrong_record
from slipway.jobs.words.targets import SageMakerTarget, Target
from slipway.jobs.words.text import decode_json, printable, refuse_newer

LONGEST_NAME = 50  # with the digest appended, a name fits SageMaker's 63 and Batch's 128 characters
MOST_NODES = 1000  # of a multi-node job (AWS Batch user guide, service limits)
MOST_ATTEMPTS = 10
MOST_DEPENDENCIES = 20  # of a job (AWS Batch user guide, service limits)
MOST_REPEATS = 1_000_000
MOST_ELEMENTS = 1000  # of an array of jobs: Slurm's MaxArraySize is 1001 by default
MOST_PROCESSES = 1024  # on a node; containers/runtime/contract/settings.py accepts no more
SHORTEST_TIMEOUT_SECONDS = 60
LONGEST_TIMEOUT_SECONDS = 365 * 24 * 3600
LONGEST_PLACE = 4096
_DIGEST_LENGTH = 12
_SHOWN = 60

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{LONGEST_NAME - 1}}}")
_ARRAY = re.compile(r"0-([0-9]{1,4})(?:%([0-9]{1,4}))?", re.ASCII)
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
# Cc would forge lines and end texts early; Cs is half a character, which no argument vector can carry.
_REFUSED_CHARACTERS = frozenset({"Cc", "Cs"})
# Batch would replace this in a command by a parameter of the job.
_PLACEHOLDER = "Ref::"


class InvalidJob(InvalidConfig):
    """Reports everything that is wrong with a job, before anything is sent."""


class DoesNotFit(SlipwayError):
    """The job is valid, but this cluster cannot run it."""

    exit_code = 2


def own_checkpoints(name: str) -> str:
    """Return the folder of the shared file system to which a job without --checkpoints saves."""
    return f"checkpoints/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    name: str
    recipe: str
    nodes: int
    settings: Mapping[str, str] = field(default_factory=dict)  # of the recipe's config, which has their types
    data: str | None = None  # path or URL; paths are in the cluster's files; None: their data folder
    checkpoints: str | None = None  # likewise; None: a folder of the job's own
    timeout_seconds: int | None = None  # of one attempt; None: the cluster's
    attempts: int | None = None  # None: the cluster's
    processes_per_node: int | None = None  # None: one for each device
    array: str | None = None  # 0-3: four jobs that divide the work; 0-15%4: at most four of 16 at a time
    image: str | None = None  # URI of a container image; None: the cluster's
    repeat: int = 0  # above 0: the same job again, as another job
    # Names or ids of jobs on the same target that must succeed first. They decide when it starts, and are no
    # part of its name.
    depends_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = list(wrong_record(self)) or list(_problems(self))
        if problems:
            raise InvalidJob(problems)

    @property
    def elements(self) -> int:
        """Return how many jobs of Slurm the job becomes; 1 if it is no array."""
        found = _ARRAY.fullmatch(self.array) if self.array else None
        return int(found[1]) + 1 if found else 1


def parse_settings(texts: tuple[str, ...]) -> dict[str, str]:
    """Split `key=value` texts; the job itself checks the values."""
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidJob([Problem(where="--set", message=f"{_show(text)} has no '='", hint=_SET_HINT)])
        if name in settings:
            raise InvalidJob(
                [Problem(where="--set", message=f"{_show(name)} is set twice", hint="say it once")]
            )
        settings[name] = value
    return settings


def submission_name(job: Job, target: Target, image: str) -> str:
    """Return the submission's name, the same for the same job on the same target, so it is sent only once.

    A different image makes a different job. Dependencies are not part of the name: the work is the same,
    whatever the earlier jobs are called and whether they have ended.
    """
    place = {"account": target.account, "region": target.region, "target": target.name, "image": image}
    what = {key: value for key, value in asdict(job).items() if key != "depends_on"}
    for later in ("array", "image"):  # names of jobs without them must not change
        if what[later] is None:
            del what[later]
    spec = json.dumps([what, place], sort_keys=True, ensure_ascii=True)
    return f"{job.name}-{sha256(spec.encode()).hexdigest()[:_DIGEST_LENGTH]}"


_SET_HINT = "write --set key=value"
_NAME_RULE = f"1 to {LONGEST_NAME} letters, digits, '-' and '_', the first a letter or digit"
_SETTING_RULE = "a letter or '_', then letters, digits and '_', 64 at most"


def _problems(job: Job) -> Iterator[Problem]:
    if not _NAME.fullmatch(job.name):
        yield Problem(where="--name", message=f"{_show(job.name)} is not allowed; a name is {_NAME_RULE}")
    yield from _out_of_range("--nodes", job.nodes, 1, MOST_NODES)
    yield from _out_of_range("--attempts", job.attempts, 1, MOST_ATTEMPTS, "1 is no retry")
    yield from _out_of_range(
        "the timeout in seconds", job.timeout_seconds, SHORTEST_TIMEOUT_SECONDS, LONGEST_TIMEOUT_SECONDS
    )
    yield from _out_of_range("repeat", job.repeat, 0, MOST_REPEATS)
    yield from _out_of_range("--processes-per-node", job.processes_per_node, 1, MOST_PROCESSES)
    if job.array is not None:
        found = _ARRAY.fullmatch(job.array)
        if found is None or not 1 <= int(found[1]) < MOST_ELEMENTS or found[2] == "0":
            yield Problem(
                where="--array",
                message=f"{_show(job.array)} is no array; allowed is 0-1 to 0-{MOST_ELEMENTS - 1}, and "
                "0-15%4 for at most 4 at a time",
                hint="the numbers of an array begin with 0, and each job does one share of the work",
            )
    for name, value in job.settings.items():
        yield from _problems_of_setting(name, value)
    for where, place in (("--data", job.data), ("--checkpoints", job.checkpoints)):
        if place is not None:
            yield from _problems_of_place(where, place)
    if len(job.depends_on) > MOST_DEPENDENCIES:
        yield Problem(
            where="--depends-on",
            message=f"names {len(job.depends_on)} jobs; at most {MOST_DEPENDENCIES} are allowed",
        )
    for name in job.depends_on:
        if not name or _refused_character(name):
            message = f"{_show(name)} is not a job's name or id"
            yield Problem(where="--depends-on", message=message, hint="slipway status --all")


def _out_of_range(where: str, value: int | None, low: int, high: int, why: str = "") -> Iterator[Problem]:
    if value is not None and not low <= value <= high:
        yield Problem(where=where, message=f"is {shown(value)}; allowed is {low} to {high}", hint=why)


def _problems_of_setting(name: str, value: str) -> Iterator[Problem]:
    if not _SETTING.fullmatch(name):
        yield Problem(where="--set", message=f"{_show(name)} is no name of a setting; one is {_SETTING_RULE}")
    if bad := _refused_character(value):
        yield Problem(
            where=f"--set {_show(name)}",
            message=f"its value holds {bad}; any text without control characters is allowed",
            hint="put longer text into a file that the recipe reads",
        )
    if _PLACEHOLDER in value:
        yield Problem(
            where=f"--set {_show(name)}",
            message=f"its value holds '{_PLACEHOLDER}', which AWS Batch would replace",
            hint="spell it otherwise",
        )


def _problems_of_place(where: str, place: str) -> Iterator[Problem]:
    if bad := _refused_character(place):
        yield Problem(where=where, message=f"{_show(place)} holds {bad}; a path or URL has none")
    if not 1 <= len(place) <= LONGEST_PLACE:
        yield Problem(where=where, message=f"has {len(place)} characters; allowed is 1 to {LONGEST_PLACE}")
    if ".." in place.split("/"):
        yield Problem(
            where=where,
            message=f"{_show(place)} climbs out of its folder",
            hint="name the folder itself, without '..'",
        )
    if place.casefold().startswith("s3:") and not place.startswith(_S3):
        yield Problem(
            where=where, message=f"{_show(place)} is neither a path nor a URL", hint="write s3://BUCKET/KEY"
        )


def _refused_character(text: str) -> str:
    """Describe the first character that is not allowed."""
    for character in text:
        if unicodedata.category(character) in _REFUSED_CHARACTERS:
            return f"the control character U+{ord(character):04X}"
    return ""


def _show(text: str) -> str:
    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"'{printable(cut)}'"


# What a job may read from S3: infra gives its role these rights, and submitting warns outside of them.
# Another prefix is a word of JOB_PREFIXES. Folders of `slipway run` are elsewhere: jobs can read them, and
# cannot change them.
JOB_PREFIXES = ("datasets/", "jobs/")
PROJECT_PREFIX = "sources/"  # folders of users, each under the digest of its content
PROJECT_DAYS = 180  # until a folder is deleted; it is sent again for a job that comes after half of it
_S3 = "s3://"
_WEB = ("http://", "https://")


def refuse_unreachable_inputs(job: Job, target: Target) -> None:
    """Refuse a URL or a secret that nodes do not reach: the job would fail after they were paid for."""
    if target.has_internet:
        return
    for name, value in job.settings.items():
        if value.lower().startswith(_WEB):
            place = printable(value)
            raise DoesNotFit(
                f"{name} is {place}, and the nodes of {target.name} reach no internet; allowed are a path in "
                f"its files and s3://{target.bucket}/{JOB_PREFIXES[0]}…",
                hint=f"download it here, then: slipway cluster upload FILE --on {target.name}; or deploy "
                f"with a way out: cdk deploy {target.name} -c {target.name}.egress=nat",
            )
    # Of AWS, containers of SageMaker reach S3 alone: every other cluster has an endpoint of Secrets Manager.
    if isinstance(target, SageMakerTarget) and "secrets" in job.settings:
        raise DoesNotFit(
            f"secrets are read from Secrets Manager, which jobs of {target.name} do not reach",
            hint=f"deploy with a way out: cdk deploy {target.name} -c {target.name}.egress=nat",
        )


def project_key(digest: str) -> str:
    """Return the key of a folder's archive; the digest is the uncompressed one's: releases of zlib differ."""
    return f"{PROJECT_PREFIX}{digest}.tar.gz"


def unreadable_inputs(job: Job, target: Target) -> Iterator[str]:
    """Warn of inputs that the job's role may not read. A bucket's own policy may still allow the role."""
    for name, value in {**job.settings, **({"--data": job.data} if job.data else {})}.items():
        if not value.startswith(_S3):
            continue
        bucket, _, key = value.removeprefix(_S3).partition("/")
        if bucket != target.bucket or not f"{key}/".startswith((*JOB_PREFIXES, PROJECT_PREFIX)):
            place, own = printable(value), f"{_S3}{target.bucket}"
            yield (
                f"{name} is {place}, and the role of jobs on {target.name} may read only "
                f"{' and '.join(f'{own}/{prefix}' for prefix in JOB_PREFIXES)}; copy it there: "
                f"aws s3 sync {quote(place)} {own}/{JOB_PREFIXES[0]}{name.strip('-')}, or let the policy of "
                "a bucket of this account allow that role"
            )


# The request of a job in its cluster's bucket: submitting writes it as JSON, the nodes read it. Its key is
# jobs/<name>/request.json, next to the code that it names by digest. Each platform declares its fields with a
# check for each (jobs/words/mpi.py, jobs/words/slurm.py).
NAME = "[A-Za-z0-9_-]{1,128}"  # of a job, which becomes part of a command
WHOLE_NAME = re.compile(r".+-[0-9a-f]{12}(-[0-9]+)?", re.ASCII)  # with the digest of all that it is
CODE_PREFIX = "code/"
_CODE_SHOWN = 16  # characters of its digest
REQUEST_KEYS = "jobs/*/request.json"  # as IAM writes a pattern
_KEY = re.compile(rf"jobs/({NAME})/request\.json", re.ASCII)

Check = Callable[[Any], bool]


class DamagedRequest(SlipwayError):
    """Slipway did not write this request, or something else has changed it."""


def request_key(name: str) -> str:
    return f"jobs/{name}/request.json"


def request_object(name: str, body: str, target: Target) -> Mapping[str, Any]:
    """Return the PutObject of a job's request."""
    owner = {"Bucket": target.bucket, "ExpectedBucketOwner": target.account}
    return {**owner, "Key": request_key(name), "Body": body, "ContentType": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """Holds everything that will be sent except the code and the id of the node that takes the command."""

    digest: str  # of the code, which is uploaded for the nodes unless it is there
    put: Mapping[str, Any]  # of the request object
    send_command: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.send_command["Comment"])


def name_of(key: str) -> str | None:
    """Return the name of the job whose request has this key."""
    found = _KEY.fullmatch(key)
    return found[1] if found else None


def code_key(digest: str) -> str:
    """Return the key of code; the digest is the uncompressed archive's: releases of zlib differ."""
    return f"{CODE_PREFIX}{digest}.tar.gz"


def code_words(machine_image: str, digest: str) -> str:
    """Describe for users what a job on nodes runs in: their machine image, and the code on it."""
    return f"{machine_image}:{digest[:_CODE_SHOWN]}"


def encode_request(schema: int, fields: Mapping[str, Any]) -> str:
    return json.dumps({"schema": schema, **fields}, sort_keys=True)


def decode_request(
    text: str, schema: int, checks: Mapping[str, Check], *, where: str, reader: str
) -> dict[str, Any]:
    """Decode exactly the fields that have a check; `where` and `reader` name the request and its reader."""
    hint = f"submit the job again with the version of Slipway that the {reader}"
    try:
        record = decode_json(text)
    except ValueError as error:
        raise DamagedRequest(f"{where} is not JSON ({error})", hint=hint) from None
    found = record.pop("schema", None) if isinstance(record, dict) else None
    refuse_newer(found, schema, where)
    if found != schema:
        raise DamagedRequest(f"{where} is not of schema {schema}", hint=hint)
    wrong = [name for name, fits in checks.items() if not fits(record.get(name))]
    wrong += [name for name in record if name not in checks]
    if wrong:
        raise DamagedRequest(f"{where} has no {', '.join(wrong)} as this Slipway writes it", hint=hint)
    return dict(record)


def is_text(value: object) -> bool:
    return type(value) is str


def matches(pattern: str) -> Check:
    """Return a check that the whole text matches this pattern."""
    return lambda value: type(value) is str and re.fullmatch(pattern, value, re.ASCII) is not None


is_digest = matches("[0-9a-f]{64}")  # it becomes the name of a folder


def are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def is_count(least: int) -> Check:
    return lambda value: type(value) is int and value >= least
