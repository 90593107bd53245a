"""Rules for stored data: logs that expire and are encrypted, fixed tags, valid file system sizes."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.verify.rules.template import Finding, Properties, Template, checks, resources, rule

_MBPS_PER_TIB = frozenset({125, 250, 500, 1000})


@checks("logs-end-encrypted", "AWS::Logs::LogGroup")
def logs_end_and_are_encrypted(properties: Properties) -> Iterator[str]:
    missing = [each for each in ("RetentionInDays", "KmsKeyId") if each not in properties]
    if missing:
        yield f"has no {' and no '.join(missing)}; set both, with our key"


@checks("image-tags-immutable", "AWS::ECR::Repository")
def tags_never_move(properties: Properties) -> Iterator[str]:
    if properties.get("ImageTagMutability") != "IMMUTABLE":
        yield "ImageTagMutability must be IMMUTABLE: jobs name images by tag"
    if not properties.get("ImageScanningConfiguration", {}).get("ScanOnPush"):
        yield "ImageScanningConfiguration must scan on push"


@checks("lustre-steps", "AWS::FSx::FileSystem")
def lustre_comes_in_steps(properties: Properties) -> Iterator[str]:
    """Check the steps of the FSx API reference: CloudFormation's schema takes any number."""
    lustre = properties.get("LustreConfiguration", {})
    capacity = properties.get("StorageCapacity", 0)
    if lustre.get("DeploymentType") != "PERSISTENT_2":
        yield "DeploymentType must be PERSISTENT_2, which keeps data"
    if capacity != 1200 and (capacity <= 0 or capacity % 2400):
        yield f"StorageCapacity is {capacity}; use 1200 or a multiple of 2400"
    rate = lustre.get("PerUnitStorageThroughput")
    if rate not in _MBPS_PER_TIB:
        allowed = ", ".join(map(str, sorted(_MBPS_PER_TIB)))
        yield f"PerUnitStorageThroughput is {rate}; allowed are {allowed}"


@checks("files-encrypted", "AWS::FSx::FileSystem", "AWS::EFS::FileSystem")
def files_are_encrypted(properties: Properties) -> Iterator[str]:
    if "KmsKeyId" not in properties:
        yield "has no KmsKeyId; files are encrypted with our key"


@rule("bucket-not-public")
def buckets_refuse_the_public(template: Template) -> Iterator[Finding]:
    """Require all four public access blocks, and a policy that refuses requests without TLS."""
    guarded = {str(each["Bucket"]) for _, each in resources(template, "AWS::S3::BucketPolicy")}
    for name, properties in resources(template, "AWS::S3::Bucket"):
        blocks = properties.get("PublicAccessBlockConfiguration", {})
        if len(blocks) != 4 or not all(value is True for value in blocks.values()):
            yield Finding(name, "PublicAccessBlockConfiguration must block all four ways")
        if str({"Ref": name}) not in guarded:
            yield Finding(name, "has no policy that refuses requests without TLS")
