"""Measures of names and sizes in the Python distributions.

`python -m tests.tools.naming` prints them. `test_house_rules.py` fails on the lists that must be empty
already.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = sorted(path.parent for path in ROOT.glob("*/pyproject.toml"))
MAX_MODULES = 15
MAX_SUMMARY = 80
"""The maximum number of characters in the first line of a docstring."""
MAX_METHODS = 15
MAX_ARGUMENTS = 8

# Words that hide the meaning of a name: docs/glossary.md has the terms.
BANNED = frozenset(
    (
        "told",
        "tells",
        "said",
        "says",
        "known",
        "kept",
        "seen",
        "found",
        "taken",
        "asked",
        "picked",
        "chosen",
        "alike",
        "before",
        "one",
        "each",
        "luck",
        "door",
        "desk",
        "shelf",
        "book",
        "crew",
        "seat",
        "errand",
        "stint",
        "lookout",
        "wish",
        "wished",
        "stray",
        "strays",
        "heard",
        "foretold",
        "manieth",
        "anatomy",
    )
)
# Modules that a reader expects in every program
EVERYWHERE = frozenset({"__init__", "command", "health", "main", "metrics", "routes", "server", "settings"})
# Classes that every program has of its own
CLASSES_EVERYWHERE = frozenset({"Metrics", "Settings"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    path: Path
    tree: ast.Module

    @property
    def package(self) -> Path:
        return self.path.parent

    def at(self, line: int) -> str:
        return f"{self.path.relative_to(ROOT)}:{line}"


@cache
def read_modules() -> list[Module]:
    paths = sorted(path for folder in DISTRIBUTIONS for path in folder.glob("sidelight*/**/*.py"))
    return [Module(path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def find_large_folders(modules: list[Module]) -> dict[str, int]:
    """Find folders with more than MAX_MODULES modules."""
    counts: dict[Path, int] = defaultdict(int)
    for module in modules:
        counts[module.package] += module.path.name != "__init__.py"
    return {str(folder.relative_to(ROOT)): count for folder, count in counts.items() if count > MAX_MODULES}


def find_repeated_modules(modules: list[Module]) -> dict[str, list[str]]:
    """Find module names used twice, except those that every program has."""
    return _group(
        (module.path.stem, str(module.path.relative_to(ROOT)))
        for module in modules
        if module.path.stem not in EVERYWHERE
    )


def find_repeated_classes(modules: list[Module]) -> dict[str, list[str]]:
    """Find names of public classes used twice, except those that every program has."""
    return _group(
        (node.name, module.at(node.lineno))
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        if node.name not in CLASSES_EVERYWHERE
    )


def find_banned_names(modules: list[Module]) -> list[str]:
    """Find names that are a banned word.

    The names are those of modules, classes, functions, parameters, attributes and constants.
    """
    return [
        f"{module.at(line)} {name}"
        for module in modules
        for line, name in ((1, module.path.stem), *_definitions(module.tree))
        if name.strip("_").lower() in BANNED
    ]


def find_long_summaries(modules: list[Module]) -> list[str]:
    """Find docstrings whose first line is longer than MAX_SUMMARY."""
    return [
        module.at(getattr(node, "lineno", 1))
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Module | ast.ClassDef | Function)
        and len((ast.get_docstring(node) or "").split("\n", 1)[0]) > MAX_SUMMARY
    ]


def find_large_classes(modules: list[Module]) -> list[str]:
    """Find classes with too many public methods or constructor arguments.

    The limits are MAX_METHODS and MAX_ARGUMENTS.
    """
    large = []
    for module in modules:
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            functions = [item for item in node.body if isinstance(item, Function)]
            public = [item for item in functions if not item.name.startswith("_")]
            arguments = next((_arguments(item) for item in functions if item.name == "__init__"), 0)
            if len(public) > MAX_METHODS or arguments > MAX_ARGUMENTS:
                large.append(
                    f"{module.at(node.lineno)} {node.name}: {len(public)} methods, {arguments} arguments"
                )
    return large


def _arguments(function: Function) -> int:
    args = function.args
    return len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs) - 1


def _definitions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                yield node.lineno, node.attr
        if isinstance(node, ast.Module | ast.ClassDef):
            for statement in node.body:
                targets = statement.targets if isinstance(statement, ast.Assign) else []
                if isinstance(statement, ast.AnnAssign):
                    targets = [statement.target]
                yield from ((target.lineno, target.id) for target in targets if isinstance(target, ast.Name))


def _group(names: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in names:
        places[name].append(place)
    return {name: repeated for name, repeated in places.items() if len(repeated) > 1}


def main() -> None:
    modules = read_modules()
    print(f"{len(modules)} modules in {len({module.package for module in modules})} packages")
    for title, findings in (
        (f"folders with more than {MAX_MODULES} modules", find_large_folders(modules)),
        ("module names used twice", find_repeated_modules(modules)),
        ("class names used twice", find_repeated_classes(modules)),
        ("banned names", find_banned_names(modules)),
        (f"docstrings that start with more than {MAX_SUMMARY} characters", find_long_summaries(modules)),
        ("large classes", find_large_classes(modules)),
    ):
        print(f"\n{title}: {len(findings)}")
        lines = findings if isinstance(findings, list) else [f"{k}: {v}" for k, v in findings.items()]
        print("\n".join(f"  {line}" for line in lines))


if __name__ == "__main__":
    main()
