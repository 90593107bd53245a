"""Turns the inputs of a component's step into an Order, which inside.py carries out in the machine's files.

To add an action: a function from its inputs to an Order, and its line in ACTIONS, named as AWS names it in
https://docs.aws.amazon.com/imagebuilder/latest/userguide/toe-action-modules.html.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class BadDocument(Exception):
    """Says what is wrong with a document."""


SHELL = "/bin/bash"
UPDATE = "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get --yes upgrade"
DOWNLOADS = "/run/slipway/downloads"  # where the machine finds downloaded files


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    source: str  # https://…, http://… or s3://…
    place: str  # the file's name in DOWNLOADS
    algorithm: str = ""
    checksum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Download first, then run the program or make the files. `left_out` says why neither is done."""

    argv: tuple[str, ...] = ()
    script: str = ""  # text of the file that is added to argv
    files: tuple[Mapping[str, Any], ...] = ()
    downloads: tuple[Download, ...] = field(default=())
    left_out: str = ""


def order_of(action: str, inputs: Any) -> Order:
    """Return the order for an action; its inputs are already expanded."""
    try:
        return ACTIONS[action](inputs)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadDocument(f"{action} cannot be done with the inputs {inputs!r}: {error!r}") from None


def _bash(inputs: Any) -> Order:
    if not isinstance(inputs["commands"], list):
        raise BadDocument(f"ExecuteBash has the commands {inputs['commands']!r}; they must be a list")
    return Order(argv=(SHELL,), script="\n".join(map(str, inputs["commands"])) + "\n")


def _update(inputs: Any) -> Order:
    narrowed = [name for name in ("include", "exclude") if inputs.get(name)]
    if narrowed:
        raise BadDocument(f"UpdateOS has {narrowed[0]}; the yard updates everything or nothing")
    return Order(argv=(SHELL,), script=UPDATE + "\n")


def _files(do: str) -> Callable[[Any], Order]:
    """Return the function for an action that takes a list of objects."""

    def order(inputs: Any) -> Order:
        if not isinstance(inputs, list) or not all(isinstance(item, dict) for item in inputs):
            raise BadDocument(f"the inputs {inputs!r} are no list of objects")
        for item in inputs:
            path = item.get("path", item.get("source"))
            if not isinstance(path, str) or not path.startswith("/"):
                raise BadDocument(f"the path {path!r} is not absolute")
        return Order(files=tuple({"do": do, **item} for item in inputs))

    return order


def _download(inputs: Any) -> Order:
    downloads = []
    for number, given in enumerate(inputs):
        source = str(given["source"])
        if not source.startswith(("https://", "http://", "s3://")) or "*" in source:
            raise BadDocument(
                f"'{source}' is no file that can be fetched; allowed are https://, http:// and s3://"
            )
        if given.get("ignoreCertificateErrors"):
            raise BadDocument(f"the certificate of '{source}' is to be ignored, which the yard never does")
        if bool(given.get("checksum")) != bool(given.get("algorithm")):
            raise BadDocument(
                f"the download of '{source}' has one of checksum and algorithm without the other"
            )
        algorithm = str(given.get("algorithm", "")).replace("-", "").lower()
        checksum = str(given.get("checksum", ""))
        downloads.append(Download(source=source, place=str(number), checksum=checksum, algorithm=algorithm))
    files = tuple(
        {
            "do": "place",
            "source": f"{DOWNLOADS}/{download.place}",
            "path": each["destination"],
            "overwrite": each.get("overwrite", True),
        }
        for download, each in zip(downloads, inputs, strict=True)
    )
    return Order(downloads=tuple(downloads), files=files)


# Actions for Windows: the yard keeps components with them, but bakes no image.
WINDOWS_ACTIONS = frozenset({"ExecutePowerShell", "InstallMSI", "SetRegistry", "UninstallMSI"})
ACTIONS: Mapping[str, Callable[[Any], Order]] = {
    "AppendFile": _files("append_file"),
    "CopyFile": _files("copy_file"),
    "CreateFile": _files("create_file"),
    "CreateFolder": _files("create_folder"),
    "CreateSymlink": _files("create_symlink"),
    "DeleteFile": _files("delete_file"),
    "DeleteFolder": _files("delete_folder"),
    "ExecuteBash": _bash,
    "ExecuteBinary": lambda inputs: Order(argv=(str(inputs["path"]), *map(str, inputs.get("arguments", ())))),
    "MoveFile": _files("move_file"),
    "Reboot": lambda _inputs: Order(
        left_out="nothing is rebooted here: the next step finds /tmp and /run as they were"
    ),
    "S3Download": _download,
    "SetFileOwner": _files("set_owner"),
    "SetFilePermissions": _files("set_permissions"),
    "SetFolderOwner": _files("set_owner"),
    "SetFolderPermissions": _files("set_permissions"),
    "UpdateOS": _update,
    "WebDownload": _download,
}
