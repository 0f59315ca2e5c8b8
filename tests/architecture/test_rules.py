"""The code keeps the rules, and each rule finds what breaks it."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture import rules

RULES: list[Callable[[Path], list[str]]] = [
    rules.too_long_files,
    rules.too_long_functions,
    rules.files_that_are_no_noun,
    rules.utils,
    rules.inline_scripts_and_styles,
    rules.pages_that_nothing_leads_to,
    rules.links_that_lead_nowhere,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_code_keeps_the_rule(rule: Callable[[Path], list[str]]) -> None:
    assert rule(rules.ROOT) == []


def test_the_rules_look_at_the_code() -> None:
    seen = {path.relative_to(rules.ROOT).parts[0] for path in rules.our_files(rules.ROOT)}
    assert {"manage.py", "cayu_project", "cayu_runtime", "cayu_review", "tests", "templates", "static"} <= seen


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_layers_import_only_what_stands_to_their_right(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from importlinter.cli import lint_imports

    monkeypatch.chdir(rules.ROOT)
    monkeypatch.setattr(sys, "path", [str(rules.ROOT), *sys.path])
    exit_code = lint_imports(no_cache=True)
    assert exit_code == 0, capsys.readouterr().out


@pytest.mark.django_db
def test_no_migration_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    from django.core.management import call_command

    try:
        call_command("makemigrations", check_changes=True, dry_run=True)
    except SystemExit:
        pytest.fail(capsys.readouterr().out, pytrace=False)


def make(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_file_of_400_lines_is_found_and_one_of_399_is_not(tmp_path: Path) -> None:
    make(tmp_path, {"static/long.css": "a\n" * 400, "static/right.css": "a\n" * 399})
    make(tmp_path, {"cayu_runtime/migrations/0001_initial.py": "a\n" * 4000})
    assert rules.too_long_files(tmp_path) == ["static/long.css has 400 lines"]


def test_a_function_of_70_lines_is_found_and_one_of_69_is_not(tmp_path: Path) -> None:
    source = "def right():\n" + "    1\n" * 68 + "async def long():\n" + "    1\n" * 69
    make(tmp_path, {"cayu_review/views.py": source})
    assert rules.too_long_functions(tmp_path) == ["cayu_review/views.py:70 long has 70 lines"]


def test_a_selector_that_is_no_noun_of_the_models_is_found(tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            "cayu_review/models/membership.py": "",
            "cayu_review/services/__init__.py": "",
            "cayu_review/services/membership.py": "",
            "cayu_review/services/mailing.py": "",
            "cayu_runtime/models/session.py": "",
            "cayu_runtime/selectors/membership.py": "",
        },
    )
    assert rules.files_that_are_no_noun(tmp_path) == [
        "cayu_runtime/selectors/membership.py: there is no cayu_runtime/models/membership.py",
        "cayu_review/services/mailing.py: there is no cayu_review/models/mailing.py",
    ]


def test_a_utils_file_is_found(tmp_path: Path) -> None:
    make(tmp_path, {"cayu_review/utils.py": "", "tests/db/utils.py": ""})
    assert rules.utils(tmp_path) == ["cayu_review/utils.py", "tests/db/utils.py"]


@pytest.mark.parametrize(
    "html",
    [
        "<script>alert(1)</script>",
        '<script type="module">x</script>',
        "<STYLE>p {}</STYLE>",
        '<p class="a"\n style="color: red">',
        '<button onclick="x()">',
        '<a href="javascript:x()">',
    ],
)
def test_inline_script_and_style_are_found(tmp_path: Path, html: str) -> None:
    make(tmp_path, {"templates/page.html": f"<h1>Queue</h1>\n{html}"})
    assert len(rules.inline_scripts_and_styles(tmp_path)) == 1


def test_linked_script_and_style_are_let_through(tmp_path: Path) -> None:
    html = '<link rel="stylesheet" href="a.css"><script defer src="a.js"></script><p>One style = one voice</p>'
    make(tmp_path, {"templates/page.html": html})
    assert rules.inline_scripts_and_styles(tmp_path) == []


def test_a_page_without_a_link_and_a_link_without_a_page_are_found(tmp_path: Path) -> None:
    make(tmp_path, {
        "README.md": "[a](docs/a.md) and [b](docs/b.md#part) and [out](https://example.org/x.md)",
        "docs/a.md": "[up](../README.md)", "docs/lost.md": "",
    })  # fmt: skip
    assert rules.pages_that_nothing_leads_to(tmp_path) == ["docs/lost.md"]
    assert rules.links_that_lead_nowhere(tmp_path) == ["README.md: docs/b.md"]
