"""Reports failures of the command line: decides what is printed, and the exit code.

A new kind of failure is one function and one line of ENDINGS; a new refusal of AWS one line of AWS_HINTS.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from io import TextIOWrapper

import click

from slipway.containers.runtime.errors import Refusal
from slipway.jobs.cloud.aws import SIGN_IN, SIGNED_OUT, whole_policy
from slipway.jobs.output import complain, say
from slipway.jobs.words.errors import InvalidConfig, NoAnswer, SlipwayError
from slipway.jobs.words.installation import INSTALL_AGAIN, is_own_file

FAILED = 1
FAULT = 70  # EX_SOFTWARE of sysexits.h: an internal error, not the user's mistake
INTERRUPTED = 130  # 128 + SIGINT, as in a shell
READER_GONE = 141  # 128 + SIGPIPE

_SIGN_IN = f"{SIGN_IN}, or use the yard: slipway yard up"
_FOR_AWS = "set AWS_PROFILE or sign in (for example `aws sso login`)"
_NEW_KEYS = "export new keys; or unset AWS_ACCESS_KEY_ID, which comes first, and set AWS_PROFILE"
_CREDENTIALS = f"{_FOR_AWS}, or use the yard: slipway yard up"
_REACH = "check the network, the region and AWS_ENDPOINT_URL; when it names the yard: slipway yard status"
_PAGE = "open a browser: a proxy, or this network's page to sign in, may answer in place of AWS"
_CLOCK = "set this machine's clock: AWS refuses requests that are signed minutes off"
_SIGNATURE = (
    f"{_CLOCK}; where it is right, AWS_SECRET_ACCESS_KEY does not belong to the access key, "
    'or is of an earlier yard: eval "$(slipway yard env)"'
)
_ALLOW = f"use another AWS_PROFILE, or ask for this action to be allowed to you: {whole_policy()}"

# By the name of botocore's exception, or by the error code in AWS's answer.
AWS_HINTS = {
    **dict.fromkeys(SIGNED_OUT, _SIGN_IN),
    "NoCredentialsError": _CREDENTIALS,
    "PartialCredentialsError": _CREDENTIALS,
    "ProfileNotFound": "set AWS_PROFILE to a profile of your AWS configuration",
    "NoRegionError": "set AWS_REGION",
    "EndpointConnectionError": _REACH,
    "ConnectTimeoutError": _REACH,
    "ProxyConnectionError": "check HTTPS_PROXY and NO_PROXY: the proxy that they name does not answer",
    "SSLError": "a proxy may replace certificates: name its own authority in AWS_CA_BUNDLE",
    "ReadTimeoutError": _REACH,
    "ConnectionClosedError": _REACH,
    "HTTPClientError": _PAGE,
    "ResponseParserError": _PAGE,
    "AuthFailure": "check the credentials, and that the account has this region enabled",
    "InvalidAccessKeyId": "check the credentials, and AWS_ENDPOINT_URL",
    "InvalidClientTokenId": "check the credentials, and that the account has this region enabled",
    "UnrecognizedClientException": "check the credentials, and that the account has this region enabled",
    "OptInRequired": "enable this region in the account's settings first",
    "RequestTimeTooSkewed": _CLOCK,
    "InvalidSignatureException": _SIGNATURE,
    "SignatureDoesNotMatch": _SIGNATURE,
    "AccessDenied": _ALLOW,
    "AccessDeniedException": _ALLOW,
    "UnauthorizedOperation": _ALLOW,
    "ClientException": "slipway preflight CLUSTER says whether the cluster can take jobs",  # AWS Batch's
}


_OF_BOTOCORE = ("botocore.exceptions", "botocore.parsers")


def end(error: BaseException, *, debug: bool) -> int:
    """Report the error on stderr and return the exit code."""
    if debug and not isinstance(error, click.ClickException | click.exceptions.Exit):
        traceback.print_exception(error)
    # By the name of the module, which need not be imported; before ENDINGS, since some of these are OSErrors.
    if any(kind.__module__ in _OF_BOTOCORE for kind in type(error).__mro__):
        answer = (getattr(error, "response", None) or {}).get("Error", {})
        hint = next(
            (AWS_HINTS[key] for key in (answer.get("Code"), type(error).__name__) if key in AWS_HINTS), ""
        )
        complain(f"AWS: {error}", _here(hint))
        return FAILED
    for kind, ending in ENDINGS:
        if isinstance(error, kind):
            return ending(error)
    where = "the traceback is above" if debug else _write_traceback(error)
    complain(f"unexpected {type(error).__name__}: {error}", f"this is a fault of Slipway's own; {where}")
    return FAULT


def open_streams() -> None:
    """Make output that the locale cannot encode print escaped, and occupy closed standard streams."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is the closed stream's
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush_output() -> int:
    """Flush the output; a failure to print may show only now."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        _discard(1)
        return end(error, debug=False)
    return 0


def _end_mistake(error: SlipwayError | Refusal) -> int:
    complain(error.message, error.hint)
    return error.exit_code


def _end_no_answer(error: NoAnswer) -> int:
    known = AWS_HINTS.get(error.code, _ALLOW)
    complain(error.message, error.hint if known is _ALLOW else _here(known))
    return error.exit_code


def _here(hint: str) -> str:
    """Return the hint, or a better one for a shell that has keys, or lacks those of a running yard."""
    if hint is _SIGN_IN and os.environ.get("AWS_ACCESS_KEY_ID"):
        return _NEW_KEYS
    if hint is not _CREDENTIALS:
        return hint
    state = import_module("slipway.yard.state")  # imported by name, because the yard is a layer above jobs
    yard = state.read_state(state.home())
    if yard is None or not yard.is_running():
        return hint
    use_it = 'a yard is up on this machine; to use it in this shell: eval "$(slipway yard env)"'
    return f"{use_it}; for AWS, {_FOR_AWS}"


def _end_invalid_config(error: InvalidConfig) -> int:
    for problem in error.problems:
        complain(str(problem))
    return error.exit_code


def _end_no_arguments(error: click.exceptions.NoArgsIsHelpError) -> int:
    click.echo(error.message, err=True)
    return error.exit_code


def _end_usage(error: click.UsageError) -> int:
    message = error.message if isinstance(error, _UNKNOWN) else error.format_message()
    close = (getattr(error, "possibilities", None) or []) if isinstance(error, _UNKNOWN) else []
    see = f"see '{error.ctx.command_path} --help'" if error.ctx else ""
    complain(" ".join(message.split()), f"did you mean {' or '.join(close)}? {see}" if close else see)
    return error.exit_code


_UNKNOWN = (click.NoSuchOption, click.exceptions.NoSuchCommand)


def _end_click(error: click.ClickException) -> int:
    complain(error.format_message())
    return error.exit_code


def _end_declined(_error: click.Abort) -> int:
    say("stopped: the question was not answered with yes")
    return FAILED


def _end_unanswered(_error: EOFError) -> int:
    complain(
        "a question could not be answered, because there is no terminal",
        "run it in one; a profile with an MFA device asks for its code each hour, and SSO does not",
    )
    return FAILED


def _end_interrupted(_error: KeyboardInterrupt) -> int:
    say("interrupted")
    return INTERRUPTED


def _end_reader_gone(_error: BrokenPipeError) -> int:
    _discard(1, 2)  # one of them lost its reader, and nothing is left to print
    return READER_GONE


def _end_system(error: OSError) -> int:
    if isinstance(error, FileNotFoundError) and is_own_file(str(error.filename)):
        complain(f"slipway is installed without its data files: {error.filename} is missing", INSTALL_AGAIN)
        return FAILED
    if isinstance(error, FileNotFoundError) and error.filename is None:  # as os.getcwd() says it
        complain("the current folder does not exist any more", "go to another one: cd")
        return FAILED
    where = f": {error.filename}" if error.filename else ""
    complain(f"{error.strerror or error}{where}", "--debug shows where it happened")
    return FAILED


def _write_traceback(error: BaseException) -> str:
    from tempfile import NamedTemporaryFile  # imported here, because every command pays for imports above

    try:
        with NamedTemporaryFile("w", prefix="slipway-", suffix=".log", delete=False, encoding="utf-8") as log:
            log.writelines(traceback.format_exception(error))
    except OSError:
        return "run it again with `slipway --debug …` to see the traceback"
    return f"the traceback is in {log.name}"


def _discard(*streams: int) -> None:
    """Redirect streams to nowhere; otherwise Python complains at exit about unwritten text."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in streams:
        os.dup2(nowhere, number)


# The first row that matches wins, so narrower types come first.
ENDINGS: tuple[tuple[type[BaseException], Callable[..., int]], ...] = (
    (InvalidConfig, _end_invalid_config),
    (NoAnswer, _end_no_answer),
    (SlipwayError, _end_mistake),
    (Refusal, _end_mistake),
    (click.exceptions.Exit, lambda error: error.exit_code),
    (click.exceptions.NoArgsIsHelpError, _end_no_arguments),
    (click.UsageError, _end_usage),
    (click.ClickException, _end_click),
    (click.Abort, _end_declined),
    (EOFError, _end_unanswered),
    (KeyboardInterrupt, _end_interrupted),
    (BrokenPipeError, _end_reader_gone),
    (OSError, _end_system),
)
