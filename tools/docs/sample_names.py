"""Public names and comments of a checkout, drawn by chance, to be read: `python -m tools.docs.sample_names [FOLDER]`."""

from __future__ import annotations

import argparse
import ast
import io
import random
import tokenize
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_SHORT = 25
"""Comments up to this length, in characters, are headings and labels."""
_TO_TOOLS = ("type: ignore", "noqa", "fmt:")


def public_names(path: Path, root: Path) -> Iterator[str]:
    """What the module's `__all__` lists, with the module's name."""
    module = ".".join(path.relative_to(root).with_suffix("").parts[3:])
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "__all__"
            and isinstance(node.value, ast.List)
        ):
            yield from (f"{module}.{ast.literal_eval(name)}" for name in node.value.elts)


def comments(path: Path) -> Iterator[str]:
    """The comments that are sentences for readers."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        text = token.string
        if token.type == tokenize.COMMENT and len(text) > _SHORT and not any(t in text for t in _TO_TOOLS):
            yield text.strip("# ")


def main() -> None:
    """Prints the samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=_ROOT, help="another checkout")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=30)
    options = parser.parse_args()
    files = sorted(options.folder.glob("packages/*/src/**/*.py"))
    modules = [path for path in files if path.name != "__init__.py"]  # those list the names of others
    names = sorted({name for path in modules for name in public_names(path, options.folder)})
    said = sorted({text for path in files for text in comments(path)})
    choose = random.Random(options.seed)
    for title, found in (("names", names), ("comments", said)):
        print(f"## {options.count} of {len(found)} {title}\n")
        print("\n".join(f"- {text}" for text in sorted(choose.sample(found, options.count))) + "\n")


if __name__ == "__main__":
    main()
