"""What Batch tells EventBridge of jobs, in the words of DescribeJobs."""

from __future__ import annotations

from slipway.yard.services.batch.api import views
from slipway.yard.services.batch.job_store import BatchJob
from slipway.yard.services.events import bus


def queue_blocked(job: BatchJob) -> None:
    """Tell that this job is the first of its queue, and why it cannot start."""
    bus.emit(
        bus.ServiceEvent(
            source="aws.batch",
            detail_type="Batch Job Queue Blocked",
            region=job.region,
            resources=(views.arn(job), job.queue),
            detail=views.detail(job),
        )
    )
