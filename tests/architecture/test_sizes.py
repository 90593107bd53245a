"""Files and functions stay below their limits of size. We aim at 25 lines a function, 150 to 350 a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scripts.house import GOALS, MOST_PRODUCT_FILES, sizes
from tests.architecture import tracked

FILE_LINES = 600
LEAST_MEDIAN = 110  # lines of a file of the product
MOST_OF_NINE_IN_TEN = 400
FUNCTION_LINES = 60
PARAMETERS = 5
# More are the options that somebody else names: a user of Python, PyTorch, AWS.
MANY_PARAMETERS = {
    "containers/models/encoder.py forward": "PyTorch calls a model with each tensor of its batch",
    "infra/adding.py add_cluster": "what the owner of a CDK app may give, as props of the CDK are",
    "jobs/estimate/inputs/asking.py estimate": "options in `import slipway`",
    "jobs/plan/tasks/orchestrating.py orchestrate": "options in `import slipway`",
    "jobs/plan/tasks/searching.py search": "options in `import slipway`",
    "jobs/submit/functions.py run": "options in `import slipway`, and those of the user's function",
    "jobs/submit/submission.py submit": "options in `import slipway`",
    "yard/services/functions/inside/cfnresponse.py send": "AWS's own module of this name has them",
}
USUAL_FUNCTION_LINES = 25
USUAL_SHARE = 0.95  # share of the functions that are no longer than usual

# Data tables: one line is one fact, and a table cut in two is harder to read. Path to reason.
LARGE_FILES: dict[str, str] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions() -> Iterator[tuple[str, Function]]:
    for path in tracked.paths(".py"):
        for node in tracked.nodes(path):
            if isinstance(node, Function):
                yield f"{path}:{node.lineno} {node.name}", node


def lines(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: Function) -> int:
    """Count what a caller gives: neither self, nor a construct's place in the tree (scope, id)."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    if names[:1] in (["self"], ["cls"]):
        names = names[1:]
    if names[:2] == ["scope", "id"]:
        names = names[2:]
    return len([*names, *given.kwonlyargs, *filter(None, [given.vararg, given.kwarg])])


def is_called_by_name(function: Function) -> bool:
    """Return True for a test, whose fixtures pytest gives, and a command, whose options click gives."""
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    return function.name.startswith("test_") or ".command(" in decorators


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    long = {path: tracked.text(path).count("\n") for path in tracked.paths(".py")}
    assert not {path: n for path, n in long.items() if n > FILE_LINES and path not in LARGE_FILES}


def test_every_excused_file_is_still_there_and_still_large() -> None:
    assert not [path for path in LARGE_FILES if tracked.text(path).count("\n") <= FILE_LINES]


def test_a_subject_is_in_one_file_and_not_in_many_that_nobody_opens_alone() -> None:
    product = sizes([room for room in GOALS if room != "tests"])
    assert len(product) <= MOST_PRODUCT_FILES
    assert product[len(product) // 2] >= LEAST_MEDIAN
    assert product[len(product) * 9 // 10] <= MOST_OF_NINE_IN_TEN


def test_no_function_is_longer_than_a_screen() -> None:
    assert not [f"{where}: {lines(one)} lines" for where, one in functions() if lines(one) > FUNCTION_LINES]


def test_most_functions_are_read_at_a_glance() -> None:
    sizes = [lines(one) for _, one in functions()]
    usual = sum(size <= USUAL_FUNCTION_LINES for size in sizes)
    assert usual / len(sizes) >= USUAL_SHARE, (
        f"only {usual} of {len(sizes)} fit in {USUAL_FUNCTION_LINES} lines"
    )


def test_no_function_takes_more_than_it_can_name() -> None:
    many = {
        re.sub(r":\d+", "", where): parameters(one)
        for where, one in functions()
        if parameters(one) > PARAMETERS and not is_called_by_name(one)
    }
    assert many.keys() == MANY_PARAMETERS.keys()


def test_every_module_says_what_it_is() -> None:
    silent = [
        path
        for path in tracked.paths(".py")
        if tracked.text(path).strip() and not ast.get_docstring(tracked.syntax(path))
    ]
    assert not silent
