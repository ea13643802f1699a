"""What users and hosts are promised: public names, deprecations, the changelog, workflow files that a host reads."""

import logging
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import tproper as tp
from tproper._core import deprecated, renamed_argument

ROOT = Path(__file__).parents[2]
API = runpy.run_path(str(ROOT / "tools" / "api.py"))
CHANGELOG = runpy.run_path(str(ROOT / "tools" / "changelog.py"))


def test_a_public_name_changes_with_a_word_in_the_changelog_alone():
    before = API["FILE"].read_text().splitlines()
    texts = [p.read_text() for p in (ROOT / "changelog").glob("*.md")]
    assert API["untold"](API["changes"](before, API["public"]()), texts) == {}, "python tools/api.py"


def test_a_changed_signature_that_nobody_told_is_found():
    before = ["a(x)", "b(x, y)", "C.go(z)"]
    changed = API["changes"](before, ["a(x)", "b(x, *, y)", "new()"])
    assert changed == {"b": "now b(x, *, y)", "C.go": "gone"}
    assert API["untold"](changed, ["`b` takes y by name alone."]) == {"C.go": "gone"}


def test_a_deprecated_name_works_and_warns_at_the_line_of_its_caller():
    @deprecated("0.2", "tp.new(...)")
    def old(x):
        return x + 1

    @deprecated("0.2", "tp.New(...)")
    class Old:
        def __init__(self, x):
            self.x = x

    for call in (lambda: old(1), lambda: Old(2).x):
        with pytest.warns(FutureWarning, match=r"goes in 0\.4; write tp\.[nN]ew") as caught:
            assert call() == 2
        assert caught[0].filename == __file__


def test_a_renamed_argument_works_and_warns_at_the_line_of_its_caller():
    @renamed_argument("0.2", "seed", "random_state")
    def draw(*, random_state=None):
        return random_state

    with pytest.warns(FutureWarning, match="write random_state=") as caught:
        assert draw(seed=3) == 3
    assert caught[0].filename == __file__
    with pytest.raises(TypeError, match="its former name"):
        draw(seed=3, random_state=4)


def test_fragments_become_a_section_above_the_others():
    new = CHANGELOG["section"]("0.2.0", "2027-01-01", ["- First.\nMore.\n", "Second.\n"])
    text = CHANGELOG["folded"]("# Changelog\n\n## 0.1.0 (2026-01-01)\n\n- Old.\n", new)
    assert text.index("0.2.0") < text.index("- First.\n  More.") < text.index("- Second.") < text.index("## 0.1.0")
    assert text.count("## 0.1.0") == 1


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", ".github/workflows/*.yml"),
        ("dependabot", ".github/dependabot.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/[bf]*.yml"),
        ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("citation-file-format", "CITATION.cff"),
    ],
)
def test_files_for_the_host_have_the_form_that_it_reads(schema, files):
    found = [str(path) for path in sorted(ROOT.glob(files))]
    assert found
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *found]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_addresses_and_the_version_are_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lab = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text())["project"]
    assert project["version"] == lab["version"] == tp.__version__
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", citation, flags=re.M)[1] == tp.__version__
    source = project["urls"]["Source"]
    assert f"repository-code: {source}\n" in citation
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "*.yml", "*.toml", "*.cff"], cwd=ROOT, capture_output=True, text=True
    )
    for name in listed.stdout.split():
        text = (ROOT / name).read_text()
        assert set(re.findall(r"https://github\.com/tproper/\w+", text)) <= {source}, name


def test_verbose_speaks_through_the_loggers_of_the_package(caplog, capsys):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    fit = lambda verbose: tp.WeakLabelClassifier(tp.symmetric_noise(2, 0.1), calibrate=None, verbose=verbose).fit(X, y)  # noqa: E731
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record)
    logger = logging.getLogger("tproper")
    logger.addHandler(handler)
    try:
        fit(0)
        assert not said
        fit(1)
    finally:
        logger.removeHandler(handler)
    assert any("objective" in r.getMessage() and r.name.startswith("tproper.solvers") for r in said)
    out = capsys.readouterr()
    assert out.out == ""
