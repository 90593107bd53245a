"""Run a notebook's code cells in one process, and write what they print and return below them.

`python -m scripts.notebook NOTEBOOK [OUTPUT]`. Jupyter would need a kernel in another process and packages
that nothing else here needs; the cells of docs/examples are plain Python without magic commands.
"""

from __future__ import annotations

import ast
import base64
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

Cell = dict[str, Any]  # JSON, as nbformat 4.5 says


def main(arguments: Sequence[str]) -> int:
    # Now, because cells may change the folder.
    source, target = Path(arguments[0]).resolve(), Path(arguments[-1]).resolve()
    notebook = json.loads(source.read_text(encoding="utf-8"))
    run(notebook["cells"])
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    target.write_text(f"{text}\n", encoding="utf-8")
    return 0


def run(cells: Sequence[Cell]) -> None:
    """Run the code cells in order, in one namespace."""
    names: dict[str, object] = {"__name__": "__main__"}
    code = (cell for cell in cells if cell["cell_type"] == "code")
    for count, cell in enumerate(code, start=1):
        cell["execution_count"] = count
        cell["outputs"] = _outputs("".join(cell["source"]), names, count)


def _outputs(source: str, names: dict[str, object], count: int) -> list[Cell]:
    printed = StringIO()
    with redirect_stdout(printed):
        value = _last_value(source, names, f"<cell {count}>")
    outputs: list[Cell] = []
    if said := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": said.splitlines(keepends=True)})
    if value is not None:
        data: dict[str, object] = {"text/plain": repr(value).splitlines(keepends=True)}
        if draw := getattr(value, "_repr_png_", None):
            data["image/png"] = base64.b64encode(draw()).decode()
        result = {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data}
        outputs.append(result)
    return outputs


def _last_value(source: str, names: dict[str, object], where: str) -> object:
    """Run the statements; return the value of the last one if it is an expression."""
    statements = ast.parse(source, where).body
    last = statements[-1] if statements else None
    if isinstance(last, ast.Expr):
        statements.pop()
    exec(compile(ast.Module(statements, []), where, "exec"), names)  # noqa: S102  # our own notebook
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), where, "eval"), names)  # noqa: S307  # likewise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
