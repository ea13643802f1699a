"""Every measured number in prose comes from a record: nobody types one in.

A page that a benchmark writes is what its record gives. In all other prose, and in the sentences of the scripts that
write such pages, a number that may be measured (with a decimal point, a percent sign or a unit, of two digits and
more, or in words like "half a minute") stands in a generated mark or table (``docs/generate.py``), in code, in a
formula, or is declared here with the reason why it is none.
"""

import ast
import inspect
import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

import tproper as tp

ROOT = Path(__file__).resolve().parent.parent
GENERATE = runpy.run_path(str(ROOT / "docs" / "generate.py"))
WHOLE = GENERATE["WHOLE"]
UNIT = r"%|per ?cent|±|(?:points?|times|m?s|us|seconds?|min|minutes?|hours?|days?|[kMG]i?B)\b"
MEASURED = rf"\d*\.\d+(?:e[-+]?\d+)?|\d+(?=\s?(?:{UNIT}))"
WORDS = (
    r"(?:half|less than) an? (?:second|minute|hour)|twice as|"
    r"(?:(?:two|three|four|five|ten|hundred) times|a (?:third|quarter|fifth|tenth)) (?:as|less|more|faster|slower)"
)
COUNTS = r"\d\d+(?:,\d+)*|\d+,\d\d\d|\d+e[-+]?\d+"  # in docstrings these are settings of the code
NUMBER = {
    "prose": re.compile(rf"(?<![\w.^_-])[-+]?(?:{MEASURED}|{COUNTS})(?![\w-])|\b(?:{WORDS})\b"),
    "docstring": re.compile(rf"(?<![\w.^_-])[-+]?(?:{MEASURED})(?![\w-])"),
}

#: What is no measurement, and why. A pattern takes the words that make it so with it.
DECLARED = {
    r"(?:Theorem|Corollary|Proposition|Section|Figure|Table) \d+(?:\.\d+)?": "the paper's numbering",
    r"^\d+\. ": "a list's numbering",
    r"ICML\s2021": "the year of the paper",
    r"the paper's, 16 trials": "the paper's own number, tproper_lab.paper.TRIALS",
    r"noisy 20%|5% the class itself, told 0%|20% outliers|0\.1 \(positive\) and 0\.3": "a setting",
    r"\b(?:[kKapr]|alpha) ?(?:=|<|>=|->|<=) ?\.?\d[\d.]*": "a setting",
    r"\b(?:noise|symmetric|pair|partial|told|prior|probability|range at|classes,) \.?\d[\d.]*(?:, \.\d)?": "a setting",
    r"\b95% interval|\(95%\)|`, 95%\)|cover(?:s more than)? 95%": "the level of intervals",
    r"paired test is below \.05|at \.05|fewer than 5%|missing to 100|2\.5% is nominal": "the level of tests",
    r"between 93 and 97%|not 93 to 97": "what coverage is asked to be",
    r"80% (?:means right 8 times of 10|confidence mean right 8 times in 10)": "what a probability means",
    r"Python 3\.\d+|^## \d+\.\d+\.\d+": "a version",
    r"450 lines per file, 60 per function": "limits, held by tests/core/test_layout.py",
    r"ambiguity degree 0\.5": "held by tests/test_readme.py",
    r"64 pixels|15 bins of 597 test rows": "the size of the data, of a score",
    r"15 digits and more|64 bits": "what a float holds",
    r"off\s+(?:in calibration )?by (?:up to )?\.05(?: and by \.1)?": "what check and sensitivity assume",
    r"weights of one to 1e-5": "held by tests/scale/test_distributed.py",
    r"^\| (?:130|75|143) \|": "exit codes",
    r"\(1\.(?:5|2|05)\)": "alpha, beside its bound",
    r"right in 80%|factor of 1\.6|20% of the answers missing|300 clean rows|1000 fresh rows": "a setting",
    r"more than \.001 above": "what counts as worse",
    r"A million answers, 10,000 annotators, 10 classes|10 answers an item|\(8192, K\)": "the size of a problem",
    r"positive but for at most 5%": "what estimate_pu assumes",
}
#: In docstrings of the API.
DECLARED_IN_CODE = {
    r"Section 2\.2": "the paper's numbering",
    r"\b95% interval": "the level of intervals",
    r"p (?:<|>=) 0?\.0[15]": "the level of tests",
    r"tsallis:1\.5|an accuracy\s+of 1\.02": "a setting; an example",
    r"at\s+most 5%": "what estimate_pu assumes",
    r"is below\s+1%": "the level of the monitor's alarm, held by tests/metrics/test_monitor.py",
}

CODE = re.compile(
    r"^ *(```+).*?^ *\1|``[^`]+``|`(?:[^`\n]|\n(?!\n))*`|\$\$?[^$]+\$\$?|"
    r"<!-- begin: .*?<!-- end[^>]*-->|<!-- = .*?<!-- / -->|"
    r"\]\([^)]*\)|^\[\w+\]:[^\n]*|^:\w+:[^\n]*|^:::+\{[^\n]*",
    re.S | re.M,
)


def prose(text: str) -> str:
    """A page without its code, formulas, generated numbers and targets of links; lines stay where they are."""
    return CODE.sub(lambda found: "`" + "\n" * found[0].count("\n"), text)


def strays(text: str, kind: str = "prose") -> list[str]:
    """The numbers of a text that nothing accounts for, each with the line it stands in and its words."""
    for pattern in DECLARED if kind == "prose" else DECLARED_IN_CODE:
        text = re.sub(pattern, lambda found: "#" + "\n" * found[0].count("\n"), text, flags=re.M)
    out = []
    for found in NUMBER[kind].finditer(text):
        around = text[max(0, found.start() - 40) : found.end() + 20]
        out.append(f"line {text.count(chr(10), 0, found.start()) + 1}: {' '.join(around.split())}")
    return out


def sentences(script: Path) -> str:
    """The texts of a script that are not docstrings; what f-strings fill in is left out."""
    tree = ast.parse(script.read_text())
    nodes = list(ast.walk(tree))
    bodies = [n.body for n in nodes if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef))]
    docs = {id(body[0].value) for body in bodies if isinstance(body[0], ast.Expr)}
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docs]
    return "\n".join(prose(text) for text in texts if " " in text.strip())


def comments(script: Path) -> str:
    """The text that sphinx-gallery shows of an example: its docstring and its comments."""
    text = script.read_text()
    lines = [line for line in text.splitlines() if line.startswith("# ")]
    return prose("\n".join([ast.get_docstring(ast.parse(text)) or "", *lines]))


def api() -> dict[str, str]:
    """The docstrings that the API's pages show."""
    texts = {room: import_module(f"tproper.{room}").__doc__ or "" for room in set(tp._LAZY.values())}
    for name in tp._LAZY:
        value = getattr(tp, name)
        texts[name] = inspect.getdoc(value) or ""
        members = vars(value) if isinstance(value, type) else {}
        texts |= {f"{name}.{n}": inspect.getdoc(m) or "" for n, m in members.items() if not n.startswith(("_", "set_"))}
    return texts


TYPED = [p for p in GENERATE["pages"]() if p not in WHOLE and p != "docs/leaderboard.md"]  # tests/lab/test_bench.py


@pytest.mark.parametrize("page", GENERATE["pages"]())
def test_a_page_is_what_the_records_say(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert GENERATE["generated"](text, page) == text, f"run `python docs/generate.py {page}`"


@pytest.mark.parametrize("page", [*TYPED, "CHANGELOG.md"])
def test_no_number_of_a_page_is_typed(page):
    assert strays(prose((ROOT / page).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("script", sorted({*WHOLE.values(), "coverage_elsewhere", "coverage_page"}))
def test_no_number_of_a_script_that_writes_a_page_is_typed(script):
    assert strays(sentences(ROOT / "benchmarks" / f"{script}.py")) == []


def test_no_number_of_gallery_and_playbook_is_typed():
    scripts = [p for folder in ("gallery", "playbook") for p in sorted((ROOT / "docs" / folder).glob("plot_*.py"))]
    assert len(scripts) >= 18
    assert {p.name: found for p in scripts if (found := strays(comments(p)))} == {}


def test_no_number_of_the_api_is_measured():
    assert {n: found for n, text in api().items() if (found := strays(prose(text), "docstring"))} == {}


@pytest.mark.parametrize("page", [p for p in TYPED if p.endswith(("README.md", "theory.md", "noisy.md"))])
@pytest.mark.parametrize(
    "typed",
    ["It is right in 91.2 % of rows.", "It is right in 91% of rows.", "It takes 3 s.", "A mean of 16 seeds.",
     "An error of .04.", "Four points: 4 points.", "It is twice as fast.", "| forward | 0.93 |", "From 1,300 rows."],
)  # fmt: skip
def test_a_number_that_someone_types_is_found(page, typed):
    """The law is not empty: a measured number fails it wherever it is put."""
    text = (ROOT / page).read_text(encoding="utf-8")
    paragraphs = text.split("\n\n")
    at = max(i for i, p in enumerate(paragraphs) if not p.startswith((" ", "`", "|", "<")))
    damaged = "\n\n".join([*paragraphs[:at], typed, *paragraphs[at:]])
    assert len(strays(prose(damaged))) == 1 + len(strays(prose(text)))


def test_a_generated_number_that_someone_changes_is_found():
    """One digit of any generated number or table, and the page is not what the records say."""
    for page in ("docs/theory.md", "README.md", "docs/choose-a-loss.md", "docs/learning_rates.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        spans = [*GENERATE["SPAN"].finditer(text), *re.finditer(r"(\| [^|\n]*\| )()(\d+\.\d+)", text)]
        assert spans, page
        for span in (spans[0], spans[-1]):
            start, end = span.span(3)
            damaged = text[:start] + "7" + text[start:end] + text[end:]
            assert GENERATE["generated"](damaged, page) == text != damaged, page


@pytest.mark.parametrize(
    ("text", "message"),
    [("<!-- = 1 -->1<!-- / -->", "begins with one"), ("x <!-- = 1 -->1", "a number without"),
     ("x <!-- = trials('mlp', 'bc', k=0) : d --><!-- / -->", "expected at least one such trial"),],
)  # fmt: skip
def test_wrong_marks_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        GENERATE["generated"](text, "docs/index.md")
