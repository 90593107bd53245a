"""Submits a job exactly once: `submit(Job(name="bert", recipe="bert_pretrain", nodes=2), on="dl1")`.

preparing.py decides everything and changes nothing. `submit_prepared` looks whether the job exists, confirms
its cost, writes the journal, and sends the request through jobs/platforms/sending.py.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import count

from slipway.containers.recipes.command.config import SECRETS_PREFIX
from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, reader
from slipway.jobs.cloud.capacity import ask_quota, ask_reservation, in_utc
from slipway.jobs.code.command_job import RECIPE as OWN_COMMAND
from slipway.jobs.platforms.journal import Entry, Journal, NoJournal, journal_folder
from slipway.jobs.platforms.platform import AnyPlatform, AnyPrepared, MayHaveTwins, platform_of
from slipway.jobs.platforms.sending import SubmitCall, Waiting, send_once
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.words.catalogue.instances import CAPACITY_BLOCK, ON_DEMAND, SPOT, instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.given import checked
from slipway.jobs.words.job import DoesNotFit, Job
from slipway.jobs.words.launch_environment import saved_in, timeout_seconds
from slipway.jobs.words.run import AGREED_UNSAID, UNKNOWN, Agreed
from slipway.jobs.words.targets import SageMakerTarget, Target
from slipway.jobs.words.text import Say, money

# Asks a person whether a job may cost more than was agreed: True is yes, False means nobody is there to ask.
Ask = Callable[[str], bool]


class Unconfirmed(SlipwayError):
    """The job may cost more than the user agreed to."""


def refuse_unconfirmed(prepared: AnyPrepared, agreed: Agreed, ask: Ask = lambda _: False) -> None:
    """Refuse a job that may cost more than agreed, unless a person says yes; jobs in the yard are free."""
    ceiling = prepared.ceiling
    if aws.is_in_yard() or agreed.covers(ceiling):
        return
    enough = UNKNOWN if ceiling.usd is None else math.ceil(ceiling.usd)
    refusal = Unconfirmed(
        f"{prepared.name} may cost {ceiling.words}, but you agreed to {money(agreed.usd)} USD at most",
        hint=f"--confirm-cost {enough}, or fewer --nodes, --timeout-hours or --attempts",
    )
    if not ask(f"{refusal.message}. Submit it?"):
        raise refusal


# A job that the platform took longer ago than this and no longer lists has ended, or was another yard's.
_REMEMBERED_SECONDS = 3600
_REAL_TIME = Waiting(pause=time.sleep, now=time.monotonic, share=random.random)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    prepared: AnyPrepared
    job_id: str
    existed: bool  # True: it was submitted before, or by another machine at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Hold what the user agreed to: the cost, and running the same job again."""

    agreed: Agreed = AGREED_UNSAID
    ask: Ask = lambda _: False
    again: bool = False


@checked
def submit(
    job: Job,
    on: str,
    region: str | None = None,
    *,
    again: bool = False,
    agreed: Agreed = AGREED_UNSAID,
    say: Say = lambda _: None,
) -> Submitted:
    """Submit a job, or return the existing same job unless `again` is set."""
    return submit_prepared(prepare(job, on, region), Consent(agreed=agreed, again=again), say=say)


def submit_prepared(
    prepared: AnyPrepared,
    consent: Consent = Consent(),
    *,
    bring: Callable[[], None] | None = None,
    say: Say = lambda _: None,
    waiting: Waiting = _REAL_TIME,
) -> Submitted:
    """Submit a prepared job. If it is new, confirm its cost first, and let `bring` upload what it reads."""
    platform = platform_of(prepared.target)
    platform.refuse_unready(prepared)
    journal = Journal(folder=journal_folder(prepared.target, aws.endpoint()))
    if consent.again:
        prepared = _next_repeat(prepared, platform, journal, say)
    name, target = prepared.name, prepared.target
    with journal.locked(name, lambda: say(f"another slipway is submitting {name}; waiting for it")) as noted:
        sent = None
        job_id = platform.find_job_id(name, target) or _remembered(noted, platform, target)
        if job_id is None:
            refuse_small_quota(prepared.job, target)
            refuse_past_block(prepared.job, target)
            refuse_missing_secrets(prepared.job, target)
            refuse_unconfirmed(prepared, consent.agreed, consent.ask)
            if bring:
                bring()
            taker = platform.make_ready(prepared, say)
            journal.write(_entry(prepared, None))
            job_id = sent = send_once(
                SubmitCall(name=name, service=platform.SERVICE, send=partial(platform.send, prepared, taker)),
                find=partial(platform.find_job_id, name, target),
                refused=partial(journal.remove, name),
                waiting=waiting,
                say=say,
            )
            if isinstance(platform, MayHaveTwins):
                job_id = platform.keep_first(sent, name, target, waiting, say)
        if noted is None or noted.job_id != job_id:
            try:
                journal.write(_entry(prepared, job_id))
            except NoJournal as error:  # the job is already running
                say(f"{name} was submitted as {job_id}, but {error.message}")
    return Submitted(prepared=prepared, job_id=job_id, existed=job_id != sent)


def _next_repeat(prepared: AnyPrepared, platform: AnyPlatform, journal: Journal, say: Say) -> AnyPrepared:
    """Return the first repeat that does not exist, or an interrupted one to finish it."""
    earlier = ""
    for repeat in count():
        other = prepared.repeated(repeat)
        entry = journal.read(other.name)
        is_free = entry is None and platform.find_job_id(other.name, prepared.target) is None
        if is_free or (entry is not None and entry.job_id is None):
            if earlier and prepared.job.checkpoints is None:
                kept = saved_in(earlier, prepared.target)
                say(f"{other.name} starts from the beginning; --checkpoints {kept} resumes {earlier} instead")
            return other
        earlier = other.name
    raise AssertionError("unreachable: repeats are not limited")


def _remembered(entry: Entry | None, platform: AnyPlatform, target: Target) -> str | None:
    """Return the journal's job if the platform knows it, or may still be slow to list it."""
    if entry is None or entry.job_id is None:
        return None
    is_fresh = time.time() - entry.written_at < _REMEMBERED_SECONDS
    is_there = platform.is_known(entry.job_id, target) or (is_fresh and not aws.is_in_yard())
    return entry.job_id if is_there else None


def _entry(prepared: AnyPrepared, job_id: str | None) -> Entry:
    return Entry(
        name=prepared.name,
        target=prepared.target.name,
        recipe=prepared.job.recipe,
        nodes=prepared.job.nodes,
        image=prepared.image,
        image_digest=prepared.image_digest,
        written_at=int(time.time()),
        job_id=job_id,
    )


# Refuses a job that could never start: the account's vCPU quota is smaller than the job.
_OVER = ("cancelled", "expired", "failed", "payment-failed", "unsupported")


class SmallQuota(SlipwayError):
    """The job would wait for machines that the account may not run, so nothing was submitted."""


def refuse_small_quota(job: Job, target: Target) -> None:
    """Refuse a job that no current quota lets start; where the user may not read quotas, AWS decides."""
    if isinstance(target, SageMakerTarget):
        return  # SageMaker checks its own quotas when the job is sent
    market = SPOT if target.is_spot else ON_DEMAND
    quota = ask_quota(target.instance_type, target.region, market)
    vcpus = instance_type(target.instance_type).vcpus
    needed = job.nodes * vcpus
    if quota is None or isinstance(quota, Unanswered) or needed <= quota.vcpus or _may_have_block(target):
        return
    raise SmallQuota(
        f"{job.name} needs {job.nodes} × {vcpus} = {needed} vCPUs of {target.instance_type}, but the quota "
        f"'{quota.name}' of this account is {quota.vcpus:.0f} in {target.region}, so its nodes cannot start",
        hint=f"slipway cluster quota {target.name} --request; or ask for fewer --nodes",
    )


def refuse_missing_secrets(job: Job, target: Target) -> None:
    """Refuse secrets that do not exist; where the user may not look, the nodes find out."""
    names = json.loads(job.settings.get("secrets", "{}")) if job.recipe == OWN_COMMAND else {}
    for name in names.values():
        secret, client = f"{SECRETS_PREFIX}{name}", reader("secretsmanager", target.region)
        found = ask(client, "DescribeSecret", SecretId=secret)
        if isinstance(found, Unanswered) and found.code == "ResourceNotFoundException":
            raise DoesNotFit(
                f"the secret {secret} is not in Secrets Manager of {target.region}",
                hint=f"aws secretsmanager create-secret --region {target.region} --name {secret} "
                "--secret-string file://FILE",
            )


class PastTheBlock(SlipwayError):
    """EC2 would take the nodes before the job's time is over, so nothing was submitted."""


def refuse_past_block(job: Job, target: Target) -> None:
    """Refuse a job that may run past its capacity block's end; where nobody may read blocks, AWS decides."""
    block = target.capacity_block
    found = ask_reservation(block, target.region)
    if found is None or isinstance(found, Unanswered):
        return
    last, left = found.last_minute, found.seconds_left(datetime.now(UTC))
    if last is None or left is None or timeout_seconds(job, target) <= left:
        return
    hours = math.floor(left / 360) / 10
    raise PastTheBlock(
        f"{job.name} may take {timeout_seconds(job, target) / 3600:g} hours, but EC2 ends the nodes of "
        f"{block} from {in_utc(last)} on",
        hint=f"--timeout-hours {hours:g}"
        if hours > 0
        else f"declare {target.name} with another reservation_id, and deploy it again",
    )


def _may_have_block(target: Target) -> bool:
    """Return True if a capacity block may serve the job; quotas do not count its nodes."""
    of_type = [{"Name": "instance-type", "Values": [target.instance_type]}]
    found = ask_all(
        reader("ec2", target.region),
        "DescribeCapacityReservations",
        "CapacityReservations",
        Filters=of_type,
    )
    if isinstance(found, Unanswered):
        return True
    return any(each.get("ReservationType") == CAPACITY_BLOCK and each["State"] not in _OVER for each in found)
