"""README and guides do what they print: their code runs, links lead somewhere. (Numbers: tests/test_numbers.py.)"""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

import tproper as tp

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
PAGES = runpy.run_path(str(ROOT / "docs" / "pages.py"))


@pytest.mark.kept
@pytest.mark.parametrize("page", PAGES["PAGES"])
def test_the_code_of_a_page_runs_as_printed(page, tmp_path):
    """Every block of code runs, prints what the page says it prints, and draws the pictures that the page shows."""
    results = PAGES["run_page"](ROOT / page, tmp_path)
    for block, printed in results:
        if block.printed is not None:
            assert PAGES["same"](block.printed, printed), f"{page}: run `python docs/pages.py {page}`\n{printed}"
    for _, shown in PAGES["pictures"](ROOT / page, tmp_path):
        assert shown.is_file(), f"{page}: run `python docs/pages.py {page}`"


def test_every_guide_has_its_steps_and_prints_something():
    """Guides by the kind of label have the same five steps."""
    by_kind = ("annotators", "candidates", "groups", "language-model", "noisy", "not-this", "positives")
    five = ["Labels", "T", "Fit", "Calibrate", "Score"]
    guides = [
        p for p in PAGES["PAGES"] if p.startswith("docs/guides/") and Path(p).stem not in ("index", "coming-from")
    ]
    assert len(guides) >= 7
    for guide in guides:
        text = (ROOT / guide).read_text()
        steps = re.findall(r"^## \d\. (.*)$", text, flags=re.M)
        assert steps == five if Path(guide).stem in by_kind else len(steps) >= 3, guide
        assert sum(block.printed is not None for block in PAGES["blocks"](text)) >= 3, guide


def test_outputs_are_compared_word_by_word_and_number_by_number():
    same = PAGES["same"]
    assert same("accuracy 0.912 (n = 597)\n", "accuracy 0.915 (n = 597)\n")
    assert not same("accuracy 0.912\n", "accuracy 0.812\n")
    assert not same("accuracy 0.912\n", "error 0.912\n")
    assert not same("1 2\n", "1\n")


def test_every_fence_is_run_or_known_not_to_be():
    """What is neither run nor an output is text, JSON, or lines that install and make."""
    for page in PAGES["PAGES"]:
        text = (ROOT / page).read_text()
        kinds = set(re.findall(r"^```(\w+)$", text, flags=re.M))
        assert kinds <= {"python", "console", "output", "text", "json", "sh"}, (page, kinds)
        for block in re.findall(r"^```sh\n(.*?)^```", text, flags=re.M | re.S):
            assert all(re.match(r"make \w+|pip install|tproper doctor", line) for line in block.splitlines()), page


def test_the_extras_of_the_install_lines_exist():
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for text in (README, (ROOT / "docs/install.md").read_text()):
        (named,) = re.findall(r"'\.\[([\w,]+)\]'", text)
        assert set(named.split(",")) <= extras
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/install.md").read_text(), flags=re.M)
    assert set(listed) == extras


ALL = [
    "README.md",
    *sorted(
        p.relative_to(ROOT).as_posix()
        for folder in ("", "guides", "estimation")
        for p in (ROOT / "docs" / folder).glob("*.md")
    ),
]


@pytest.mark.parametrize("page", ALL)
def test_links_and_pictures_exist(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", text):
        made = re.sub(
            r"auto_(gallery|playbook)/(\w+)\.rst", r"\1/\2.py", target
        )  # pages that the gallery's code becomes
        assert (ROOT / page).parent.joinpath(made).exists(), target


def test_links_into_the_repository_lead_somewhere():
    """Those of the README are absolute, so that they work on a package index too."""
    assert not re.findall(r"\]\((?!https://)[^)]*\)", README)
    found = re.findall(r"https://github\.com/tproper/tproper/(?:blob|tree|raw)/main/([^)#]*)", README)
    assert len(found) > 10
    for path in found:
        assert (ROOT / path).exists(), path


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, flags=re.M):
        assert re.search(rf"^{target}:", makefile, flags=re.M)


def test_the_ambiguity_degree_of_the_theory_page():
    text = (ROOT / "docs/theory.md").read_text()
    (code,) = re.findall(r"`(tp\.Transition\(.*?\.diagnose\(\))`", text, flags=re.S)
    assert eval(code, {"tp": tp}).ambiguity_degree == 0.5
