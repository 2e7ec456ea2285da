"""``python -m tools.hub_package FOLDER``: write the package for a kernel hub.

The folder gets ``build.toml``, a page, the layer and its test from ``kernels``, and the files of ``src/maxsup`` that
the losses need, with relative imports and with operators under the prefix of the builder. So two versions of the
package can be imported side by side, and beside maxsup itself.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
HERE, SOURCE = ROOT / "kernels", ROOT / "src" / "maxsup"
NAME = "maxsup_loss"
# What the layer calls; all else follows from the imports.
ROOTS = ("losses.maxsup", "losses.head.linear")
_IMPORT = re.compile(r"^(\s*)from maxsup\.([\w.]+) import ", re.MULTILINE)
_OPERATOR = re.compile(r'^(\s*)"maxsup::(\w+)",$|\("maxsup::(\w+)"', re.MULTILINE)
_OPS = '''"""The prefix of the operators, which the builder replaces by its own."""

PREFIX = "{prefix}"


def add_op_namespace_prefix(op_name: str) -> str:
    """Return the name of an operator in the namespace of this build."""
    return f"{{PREFIX}}::{{op_name}}"
'''


def main() -> None:
    """Write the package into an empty folder."""
    parser = argparse.ArgumentParser(prog="python -m tools.hub_package")
    parser.add_argument("folder", type=Path, help="a folder that does not exist yet")
    folder = parser.parse_args().folder
    if folder.exists():
        parser.error(f"{folder} exists. Name a folder that does not.")
    print(f"written: {len(assemble(folder))} files in {folder}")


def assemble(folder: Path) -> list[Path]:
    """Write the package for the hub; return the Python files."""
    package = folder / "torch-ext" / NAME
    package.mkdir(parents=True)
    for name in ("build.toml", "README.md"):
        shutil.copy(HERE / name, folder)
    shutil.copytree(HERE / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "layers.py"):
        shutil.copy(HERE / "layer" / name, package)
    texts = {module: relative(module, (SOURCE / path_of(module)).read_text()) for module in closure(ROOTS)}
    for module, text in texts.items():
        file = package / path_of(module)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        for parent in list(file.relative_to(package).parents)[:-1]:
            (package / parent / "__init__.py").touch()
    digest = hashlib.sha256("".join(texts.values()).encode()).hexdigest()[:8]
    (package / "_ops.py").write_text(_OPS.format(prefix=f"_{NAME}_{digest}"))
    return sorted(package.rglob("*.py"))


def path_of(module: str) -> Path:
    """The file of a module below the package, such as ``losses/maxsup.py``."""
    return Path(*module.split(".")).with_suffix(".py")


def closure(roots: tuple[str, ...]) -> list[str]:
    """The modules that some modules import, directly or not, and these themselves."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += imported(ast.parse((SOURCE / path_of(module)).read_text()))
    return sorted(found)


def imported(tree: ast.Module) -> list[str]:
    """The modules below ``maxsup`` that a file names, inside functions too."""
    modules = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("maxsup."):
            name = str(node.module).removeprefix("maxsup.")
            is_file = (SOURCE / path_of(name)).exists()
            modules += [name] if is_file else [f"{name}.{alias.name}" for alias in node.names]
    return modules


def relative(module: str, text: str) -> str:
    """The text of a module with relative imports, and operators under the prefix of the builder."""
    up = "." * len(module.split("."))
    text = _IMPORT.sub(lambda found: f"{found[1]}from {up}{found[2]} import ", text)
    with_operators = _OPERATOR.sub(
        lambda found: (
            f'{found[1]}add_op_namespace_prefix("{found[2]}"),'
            if found[2]
            else f'(add_op_namespace_prefix("{found[3]}")'
        ),
        text,
    )
    if with_operators != text:
        # After the line that comes before all other imports.
        line = "from __future__ import annotations\n"
        text = with_operators.replace(line, f"{line}\nfrom {up}_ops import add_op_namespace_prefix\n", 1)
    return text


if __name__ == "__main__":
    main()
