"""The first program in a container of AWS's own: it fetches this project's code, and becomes the launcher.

Its text is an argument of `python -c` (jobs/platforms/batch/request.py), so it imports nothing of ours. The
image has boto3. The archive is named by the digest of what is in it, and anything else is refused.
"""

import gzip
import hashlib
import io
import os
import sys
import tarfile
import tempfile
from importlib import import_module
from pathlib import Path

LAUNCHER = "slipway.containers.runtime.launch"
TRY_AGAIN = 85  # RESUMABLE_EXIT_CODE of runtime/errors.py: the next attempt may reach S3


def main() -> None:
    """Unpack the code into a folder of this container, and run the launcher with the words that follow."""
    url = sys.argv[1]  # s3://BUCKET/code/DIGEST.tar.gz
    bucket, _, key = url.removeprefix("s3://").partition("/")
    try:
        aws = import_module("boto3")  # the image's: nothing of this project needs it here
        packed = aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    except Exception as error:  # noqa: BLE001 - botocore's errors have no common base that is known without it
        print(f"error: the code at {url} cannot be fetched: {error}", file=sys.stderr, flush=True)
        sys.exit(TRY_AGAIN)
    plain = gzip.decompress(packed)
    if hashlib.sha256(plain).hexdigest() != key.rpartition("/")[2].partition(".")[0]:
        sys.exit(f"error: what lies at {url} is not the code that was submitted; submit the job again")
    folder = tempfile.mkdtemp(prefix="slipway-code-")
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        for member in archive:
            unpack(archive, member, folder)
    Path(folder).chmod(0o755)  # ranks may be another user's
    paths = [folder, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.execv(sys.executable, [sys.executable, "-m", LAUNCHER, *sys.argv[2:]])  # noqa: S606 - no shell is wanted


def unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str) -> None:
    """Write one file below the folder, without extractall(): Debian 12's Python lacks its filters."""
    target = Path(folder, member.name)
    source = archive.extractfile(member) if member.isfile() else None
    if source is None or ".." in target.parts or not target.is_relative_to(folder):
        sys.exit(f"error: the code holds {member.name!r}, which is no file below its folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read())
    target.chmod(member.mode & 0o755)


if __name__ == "__main__":
    main()
