"""How the code is cut, as functions that return what breaks the rule: an empty list is what we want.

Each takes the folder to look in, so that the rules themselves are tested on small made-up trees.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# Where what we wrote lies; everything else in the checkout is configuration or made by a tool.
OUR_FOLDERS = ("cayu_project", "cayu_runtime", "cayu_review", "tests", "templates", "static", "docs")
OUR_SUFFIXES = (".py", ".html", ".css", ".js")
APPS = ("cayu_runtime", "cayu_review")
NOUN_LAYERS = ("selectors", "services", "api")
# A plan is made from other rows each time it is read, and its execution is an event.
NOUNS_WITHOUT_A_TABLE = {"recovery"}

FILE_LINES = 400
FUNCTION_LINES = 70

INLINE = [
    (re.compile(r"<script(?![^>]*\ssrc=)", re.IGNORECASE), "a script without src"),
    (re.compile(r"<style\b", re.IGNORECASE), "a style element"),
    (re.compile(r"<[a-z][^<>]*\sstyle\s*=", re.IGNORECASE), "a style attribute"),
    (re.compile(r"<[a-z][^<>]*\son[a-z]+\s*=", re.IGNORECASE), "an event attribute"),
    (re.compile(r"javascript:", re.IGNORECASE), "a javascript: address"),
]


def our_files(root: Path) -> Iterator[Path]:
    """Every source file that a person wrote. Migrations are records, not prose."""
    yield from sorted(root.glob("*.py"))
    for folder in OUR_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in OUR_SUFFIXES and "migrations" not in path.relative_to(root).parts:
                yield path


def too_long_files(root: Path) -> list[str]:
    counted = ((path, len(path.read_text(encoding="utf-8").splitlines())) for path in our_files(root))
    return [f"{path.relative_to(root)} has {lines} lines" for path, lines in counted if lines >= FILE_LINES]


def too_long_functions(root: Path) -> list[str]:
    found = []
    for path in our_files(root):
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines >= FUNCTION_LINES:
                    found.append(f"{path.relative_to(root)}:{node.lineno} {node.name} has {lines} lines")
    return found


def files_that_are_no_noun(root: Path) -> list[str]:
    """Each file in selectors, services and api of an app is named by a file of that app's models, but for those that
    can have none.
    """
    found = []
    for app in APPS:
        nouns = _names(root / app / "models") | NOUNS_WITHOUT_A_TABLE
        for layer in NOUN_LAYERS:
            strangers = _names(root / app / layer) - nouns
            found += [f"{app}/{layer}/{name}.py: there is no {app}/models/{name}.py" for name in sorted(strangers)]
    return found


def _names(folder: Path) -> set[str]:
    entries = [path for path in folder.glob("*") if path.suffix == ".py" or (path / "__init__.py").is_file()]
    return {path.stem for path in entries} - {"__init__"}


def utils(root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in our_files(root) if path.stem in ("utils", "util", "utilities")]


def inline_scripts_and_styles(root: Path) -> list[str]:
    """What the content security policy would block: found here before a person meets it."""
    found = []
    for path in our_files(root):
        if path.suffix == ".html":
            text = path.read_text(encoding="utf-8")
            for pattern, what in INLINE:
                for match in pattern.finditer(text):
                    line = text.count("\n", 0, match.start()) + 1
                    found.append(f"{path.relative_to(root)}:{line} has {what}")
    return found


def pages_that_nothing_leads_to(root: Path) -> list[str]:
    """Each page of the docs, and each of those beside README, is linked from README itself."""
    readme = (root / "README.md").read_text() if (root / "README.md").exists() else ""
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    names = sorted(str(page.relative_to(root)) for page in pages)
    return [name for name in names if name != "README.md" and f"({name})" not in readme]


LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def links_that_lead_nowhere(root: Path) -> list[str]:
    """A relative link of a page leads to a file or a folder."""
    pages = sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])
    broken = [(page, link) for page in pages for link in LINK.findall(page.read_text())]
    return [f"{page.relative_to(root)}: {link}" for page, link in broken if not (page.parent / link).exists()]
