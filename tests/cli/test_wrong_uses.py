"""Wrong uses: one clear sentence, a non-zero exit code, no traceback, nothing half-written."""

from __future__ import annotations

import errno
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

CLASSES = ("ant", "bee", "cat")
HEADER = "x,y,weak_label"
Case = tuple[str, Callable[[Path], list[object]], str]


def train(folder: Path, data: object = "weak.csv", **changes: object) -> list[object]:
    """A valid call of train, changed in one place; None drops an option, True is a flag."""
    options: dict[str, object] = {"label": "weak_label", "transition": "complementary", "out": folder / "new"}
    return ["train", folder / str(data), *_options(options | changes)]


def simulate(folder: Path, data: object = "clean.csv", **changes: object) -> list[object]:
    options: dict[str, object] = {"label": "kind", "transition": "complementary", "out": folder / "new.csv"}
    return ["simulate", folder / str(data), *_options(options | changes)]


def evaluate(folder: Path, data: object = "weak.csv", **changes: object) -> list[object]:
    return ["evaluate", folder / "model", folder / str(data), *_options({"label": "weak_label"} | changes)]


def predict(folder: Path, data: object = "weak.csv", **changes: object) -> list[object]:
    return ["predict", folder / "model", folder / str(data), *_options({"out": folder / "new.csv"} | changes)]


def _options(options: dict[str, object]) -> list[object]:
    out: list[object] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            out.append(option)
        elif value is not None:
            out += [option, value]
    return out


def table(folder: Path, text: str | bytes, name: str = "bad.csv") -> str:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def rows(header: str, *lines: str) -> str:
    """Thirty good rows of x, y, weak_label, and then those given."""
    good = [f"{i % 7},{i % 5},{CLASSES[i % 3]}" for i in range(30)]
    return "\n".join([header, *good, *lines]) + "\n"


def matrix(folder: Path, values: object, name: str = "T.csv") -> Path:
    if isinstance(values, str):
        (folder / name).write_text(values)
    else:
        np.savetxt(folder / name, np.asarray(values), delimiter=",")
    return folder / name


def break_model(folder: Path, name: str, change: Callable[[bytes], bytes]) -> list[object]:
    found = sorted((folder / "model").rglob(name))
    assert found, f"no {name} in the model"
    found[0].write_bytes(change(found[0].read_bytes()))
    return predict(folder)


def cut_parquet(folder: Path) -> str:
    pq.write_table(pa.table({"x": np.arange(1000.0), "y": np.arange(1000.0)}), folder / "cut.parquet")
    whole = (folder / "cut.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    return "cut.parquet"


def doubled_parquet(folder: Path) -> str:
    columns = [pa.array([1.0, 2.0])] * 2
    pq.write_table(pa.Table.from_arrays(columns, names=["x", "x"]), folder / "twice.parquet")
    return "twice.parquet"


def other_columns(folder: Path) -> str:
    return table(folder, "a,b,weak_label\n1,2,ant\n3,4,bee\n")


T3 = (np.ones((3, 3)) - np.eye(3)) / 2
PAIR = 0.8 * np.eye(3) + 0.2 * np.roll(np.eye(3), 1, axis=0)
WITHOUT_BEE = (
    '{"matrix": [[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1]], "weak_labels": ["ant", "bee", "cat", "none of them"]}'
)

CASES: list[Case] = [
    # the table
    ("no file", lambda f: train(f, "nowhere.csv"), "nowhere.csv: expected a file to read"),
    ("a folder for a file", lambda f: train(f, (f / "sub.csv").mkdir() or "sub.csv"), "got a directory"),
    ("a folder without tables", lambda f: train(f, (f / "sub").mkdir() or "sub"), "Parquet files, got none"),
    ("unknown ending", lambda f: train(f, table(f, "x\n1\n", "a.xlsx")), "ends in .csv, .tsv or .parquet"),
    ("empty file", lambda f: train(f, table(f, "")), "got an empty file"),
    ("blank file", lambda f: train(f, table(f, "\n\n\n")), "got an empty file"),
    ("header only", lambda f: train(f, table(f, HEADER + "\n")), "expected rows below the header, got none"),
    ("one row", lambda f: train(f, table(f, HEADER + "\n1,2,ant\n"), classes="ant,bee,cat"), "at least two rows"),
    (
        "ragged CSV",
        lambda f: train(f, table(f, rows(HEADER, "1,2"))),
        "expected 3 values in every row.* got 2 in line 32",
    ),
    (
        "semicolons and decimal commas",
        lambda f: train(f, table(f, "x;y;weak_label\n1,5;2,5;ant\n2,5;3,5;bee\n")),
        "got 3 in line 2; the file seems to have semicolons and decimal commas: save it with commas and",
    ),
    ("same column twice", lambda f: train(f, table(f, rows("x,x,weak_label"))), "'x' more than once"),
    ("same column twice in Parquet", lambda f: predict(f, doubled_parquet(f)), "expected every column name once"),
    ("binary junk", lambda f: train(f, table(f, bytes(range(256)) * 50)), "bad.csv: expected"),
    ("not UTF-8", lambda f: train(f, table(f, rows(HEADER, "1,2,b\xe9e").encode("latin-1"))), "save the file as UTF-8"),
    ("semicolons", lambda f: train(f, table(f, rows(HEADER).replace(",", ";"))), "another separator"),
    ("truncated Parquet", lambda f: predict(f, cut_parquet(f)), "cut.parquet: cannot be read"),
    ("CSV called Parquet", lambda f: predict(f, table(f, rows(HEADER), "a.parquet")), "a.parquet: cannot be read"),
    ("a file as a folder", lambda f: train(f, "weak.csv/weak.csv"), "expected a file to read"),
    # features
    (
        "text feature",
        lambda f: train(f, table(f, "x,town,weak_label\n1,Oslo,ant\n2,Rome,bee\n3,Bonn,cat\n"), numeric="town"),
        "'town'.*'Oslo' at row 1.*--ignore",
    ),
    ("late text feature", lambda f: train(f, table(f, rows(HEADER, "1,oops,ant"))), "'y'.*'oops' at row 31"),
    (
        "feature without a value",
        lambda f: train(f, table(f, "x,y,weak_label\n1,,ant\n2,,bee\n3,NA,cat\n"), numeric="y"),
        "'y'.*expected a number in some row",
    ),
    ("infinite feature", lambda f: train(f, table(f, rows(HEADER, "1,inf,ant"))), "'y'.*1 infinite values"),
    ("huge feature", lambda f: train(f, table(f, rows(HEADER, "1e300,1,ant"))), "'x': .*standard deviation"),
    (
        "huge feature as it is",
        lambda f: train(f, table(f, rows(HEADER, "1e300,1,ant")), no_standardize=True),
        "DATA: expected features of finite variance",
    ),
    (  # a trained model takes all its columns: no --ignore
        "missing feature, predict",
        lambda f: predict(f, table(f, rows(HEADER, ",1,ant")), strict=True),
        "--strict: .*x has no value in 1 of 31 rows, which training never saw: the median there, .*, stands in",
    ),
    (
        "text feature, predict",
        lambda f: predict(f, table(f, rows(HEADER, "oops,1,ant"))),
        "'oops' at row 31; the model was trained with numbers there: correct the rows$",
    ),
    ("empty matrix", lambda f: train(f, transition=matrix(f, "\n")), "transition matrix, got .*T.csv'.*empty file$"),
    ("no feature", lambda f: train(f, table(f, "weak_label\nant\nbee\ncat\n")), "at least one feature column"),
    ("unknown feature", lambda f: train(f, features="x,z"), "--features: expected a column.*got 'z'"),
    ("unknown ignored", lambda f: train(f, ignore="nome"), "--ignore: expected a column.*got 'nome'"),
    ("features and ignore", lambda f: train(f, features="x", ignore="y"), "either --features or --ignore"),
    ("label as a feature", lambda f: train(f, features="x,weak_label"), "other than the label's"),
    ("repeated feature", lambda f: train(f, features="x,x"), "--features: expected different names"),
    # labels and classes
    ("unknown label column", lambda f: train(f, label="weak_labl"), "did you mean 'weak_label'"),
    (
        "label not in the set",
        lambda f: train(f, table(f, rows(HEADER, "1,2,bea")), classes="ant,bee,cat"),
        "'bea' at row 31; did you mean 'bee'\\?",
    ),
    ("one label only", lambda f: train(f, table(f, HEADER + "\n1,2,ant\n3,4,ant\n")), "two or more classes, got ant"),
    (
        "one label only, classes known",
        lambda f: train(f, table(f, HEADER + "\n1,2,ant\n3,4,ant\n"), classes="ant,bee"),
        "at least two different labels.*only 'ant'",
    ),
    ("no label at all", lambda f: train(f, table(f, HEADER + "\n1,2,\n3,4,NA\n")), "expected labels in the column"),
    ("classes twice", lambda f: train(f, classes="ant,ant"), "--classes: expected different names"),
    ("one class", lambda f: train(f, classes="ant"), "--classes: expected two or more"),
    ("too few classes", lambda f: train(f, classes="ant,bee"), "'cat'"),
    (
        "sets for a transition without",
        lambda f: train(f, "sets.csv", classes="ant,bee,cat"),
        "expected one of ant, bee, cat",
    ),
    (
        "unknown candidate",
        lambda f: train(f, table(f, rows(HEADER, "1,2,ant|dog")), transition="partial:0.3", classes="ant,bee,cat"),
        r"'ant\|dog'",
    ),
    (
        "a set that cannot occur",
        lambda f: train(f, "sets.csv", transition="multi_complementary:1"),
        "expected a label that occurs under multi_complementary",
    ),
    (
        "a label that cannot occur",
        lambda f: evaluate(f, transition=matrix(f, WITHOUT_BEE, "T.json")),
        "expected a label that occurs under matrix T.json, got 'bee'",
    ),
    ("unknown class to weaken", lambda f: simulate(f, classes="ant,bee,cow"), "'cat'"),
    ("missing class to weaken", lambda f: simulate(f, table(f, "x,kind\n1,ant\n2,\n3,bee\n")), "got none at row 2"),
    ("order of classes untold", lambda f: train(f, transition=matrix(f, PAIR)), "--classes: expected the classes"),
    (
        "pu without its positive class",
        lambda f: train(f, table(f, HEADER + "\n1,2,0\n3,4,1\n"), transition="pu:0.5"),
        "POSITIVE,NEGATIVE",
    ),
    # transitions
    ("misspelt family", lambda f: train(f, transition="complementery"), "transition: expected one of"),
    ("missing parameter", lambda f: train(f, transition="symmetric"), "symmetric:K,p"),
    (
        "parameter out of range",
        lambda f: train(f, transition="symmetric:1.5"),
        r"--transition: expected a finite number in \[0, 1\] for p of 'symmetric', got 1.5",
    ),
    ("parameter no number", lambda f: train(f, transition="symmetric:x"), "expected a number for p"),
    ("T for another number of classes", lambda f: train(f, transition="complementary:4"), "4 classes.*labels name 3"),
    ("T not there", lambda f: train(f, transition=f / "T.csv"), "expected a file that can be read"),
    (
        "T of another size",
        lambda f: train(f, transition=matrix(f, np.eye(4)), classes="ant,bee,cat"),
        "3 classes, got 4",
    ),
    ("T transposed", lambda f: train(f, transition=matrix(f, [[0.7, 0.2, 0.1], [0, 1, 0], [0, 0, 1]])), "transpose"),
    ("T with NaN", lambda f: train(f, transition=matrix(f, "nan,0\n1,1\n")), "expected finite entries"),
    ("T ragged", lambda f: train(f, transition=matrix(f, "1,0\n0\n")), "expected a transition matrix, got"),
    ("T negative", lambda f: train(f, transition=matrix(f, [[1.5, 0], [-0.5, 1]])), "expected probabilities"),
    (
        "T not invertible, backward",
        lambda f: train(f, transition="symmetric:0.6666666666666666", loss="backward"),
        "cannot be told apart|left inverse",
    ),
    ("a source without its column", lambda f: train(f, transition="ann=complementary"), "--source-column"),
    ("a column without sources", lambda f: train(f, source_column="x"), "NAME=SPEC"),
    (
        "unknown source",
        lambda f: train(
            f,
            table(f, "w,x,weak_label\nann,1,ant\nbob,2,bee\nann,3,cat\n"),
            transition="ann=complementary",
            source_column="w",
        ),
        "--source-column: expected one of ann, got 'bob' at row 2",
    ),
    ("no such option of a transition", lambda f: simulate(f, transition="complementary:nose=0.1"), "unknown parameter"),
    # settings
    ("unknown loss", lambda f: train(f, loss="cross_entropy"), "--loss: expected one of forward, backward, gls, ga"),
    ("unknown model", lambda f: train(f, model="forest"), "--model: expected one of linear, mlp"),
    ("negative k", lambda f: train(f, loss="gls", squeeze="-1,2"), "--squeeze: expected a coefficient k > 0"),
    ("alpha below one", lambda f: train(f, loss="gls", squeeze="1,0.5"), "--squeeze: expected an exponent alpha >= 1"),
    ("half a pair", lambda f: train(f, loss="gls", squeeze="1"), "--squeeze: expected K,ALPHA"),
    ("squeeze without its loss", lambda f: train(f, squeeze="1,2"), "--squeeze: expected it with --loss gls"),
    ("no epochs", lambda f: train(f, epochs=0), "--epochs: expected a number >= 1"),
    ("negative l2", lambda f: train(f, l2=-1), "--l2: expected a number >= 0"),
    ("negative seed", lambda f: train(f, seed=-1), "--seed: expected a number >= 0"),
    ("everything held out", lambda f: train(f, holdout=1), "--holdout: expected a share"),
    ("unknown treatment of missing labels", lambda f: train(f, missing="guess"), "--missing: expected one of drop"),
    ("text for a number", lambda f: train(f, epochs="many"), "--epochs"),
    ("no label option", lambda f: train(f, label=None), "--label"),
    ("no such option", lambda f: [*train(f), "--nonsense"], "--nonsense"),
    ("held out of a stream", lambda f: train(f, stream=True, holdout=0.3), "--stream: expected it without --holdout"),
    ("a source of a model of one", lambda f: evaluate(f, source_column="x"), "--source-column: .* got a model of one"),
    # outputs
    ("model exists", lambda f: train(f, out=f / "model"), "which exists; --force"),
    ("line break in a list", lambda f: train(f, ignore="x\ny"), "--ignore: expected different names separated by"),
    ("force on something else", lambda f: train(f, out=f / "clean.csv", force=True), "--force replaces only a model"),
    ("model below a file", lambda f: train(f, out=f / "clean.csv" / "model"), "clean.csv"),
    ("table below a file", lambda f: simulate(f, out=f / "clean.csv" / "new.csv"), "clean.csv"),
    ("table is a folder", lambda f: simulate(f, out=f / "model"), "got the directory"),
    (
        "table over itself",
        lambda f: [*simulate(f, out=f / "clean.csv"), "--force"],
        "another file than the table itself",
    ),
    ("output of unknown kind", lambda f: predict(f, out=f / "new.xlsx"), "ends in .csv, .tsv or .parquet"),
    ("full disk", lambda f: predict(f, out="/dev/full"), "/dev/full: No space left"),
    ("weak column exists", lambda f: simulate(f, column="x"), "--column: expected the name of a new column"),
    ("picture of unknown kind", lambda f: evaluate(f, plot=f / "new.doc"), "--plot: expected a name"),
    # models
    ("no model", lambda f: ["predict", f / "modle", f / "weak.csv"], "expected the folder of a saved model"),
    (
        "a file for a model",
        lambda f: ["predict", f / "weak.csv", f / "weak.csv"],
        "expected the folder of a saved model",
    ),
    ("a folder that is no model", lambda f: ["predict", f, f / "weak.csv"], "expected a file model.json"),
    ("model of other columns", lambda f: predict(f, other_columns(f)), "trained on, got none called x, y"),
    ("kept column not there", lambda f: predict(f, keep="nome"), "--keep: expected a column"),
    (
        "description edited",
        lambda f: break_model(f, "model.json", lambda b: b.replace(b'"x"', b'"y"', 1)),
        "edited after it was saved",
    ),
    ("description cut", lambda f: break_model(f, "model.json", lambda b: b[: len(b) // 2]), "was it cut"),
    ("weights cut", lambda f: break_model(f, "*.safetensors", lambda b: b[:-8]), "cut or changed"),
    (
        "weights edited",
        lambda f: break_model(f, "*.safetensors", lambda b: b[:-1] + bytes([b[-1] ^ 1])),
        "cut or changed",
    ),
    ("evaluate without the label", lambda f: evaluate(f, label="nome"), "--label: expected a column"),
    ("evaluate without the truth", lambda f: evaluate(f, true_label="nome"), "--true-label: expected a column"),
    ("truth of another kind", lambda f: evaluate(f, true_label="x"), "column 'x': expected one of ant, bee, cat"),
    ("evaluate with T of another size", lambda f: evaluate(f, transition="complementary:4"), "3 classes, got 4"),
]


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else b"" for p in folder.rglob("*")}


@pytest.mark.parametrize(("make", "sentence"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_wrong_use(
    make: Callable[[Path], list[object]], sentence: str, workshop: Path, tmp_path: Path, run: Callable[..., Any]
) -> None:
    folder = tmp_path / "here"
    shutil.copytree(workshop, folder)
    arguments = make(folder)
    before = listing(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # numpy's, with lines of our source
        result = run(*arguments)
    assert result.exit_code in (1, 2), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    said = " ".join(re.sub("[│╭╮╰╯─]", " ", result.stderr).split())
    assert re.search(sentence, said), said
    if not said.startswith("Usage"):  # what the option parser says itself has a line of usage above
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1, "one sentence"
    assert result.stdout == ""
    assert listing(folder) == before, "nothing may be left behind"


@pytest.mark.parametrize(
    "twice",
    [["--ignore", "kind", "--ignore", "id"], ["--features=x", "--features=y"]],
    ids=["ignore", "features"],
)
def test_a_list_given_twice_is_refused(
    twice: list[object], workshop: Path, tmp_path: Path, run: Callable[..., Any]
) -> None:
    """The last alone would count: `--ignore z --ignore id` would train on z, the true class."""
    text = (workshop / "weak.csv").read_text().splitlines()
    table(tmp_path, "\n".join(["kind,id," + text[0], *(f"{i % 3},{i},{line}" for i, line in enumerate(text[1:]))]))
    result = run(*train(tmp_path, "bad.csv"), *twice)
    assert result.exit_code == 2, result.output
    assert "given 2 times; give it once" in " ".join(result.stderr.replace("│", " ").split())
    assert not (tmp_path / "new").exists()


def test_of_a_single_value_the_last_counts(workshop: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    result = run("inspect", "complementary:3", "--json", "--json")
    assert result.exit_code == 0, result.output
    name = ["--label", "kind", "--transition", "complementary", "--out"]
    for out, seeds in (("once", [2]), ("twice", [1, "--seed", 2])):
        made = run("simulate", workshop / "clean.csv", *name, tmp_path / f"{out}.csv", "--seed", *seeds)
        assert made.exit_code == 0, made.output
    assert (tmp_path / "once.csv").read_bytes() == (tmp_path / "twice.csv").read_bytes()
    two = ["--transition", "a=symmetric:0.2", "--transition", "a=symmetric:0.3"]
    result = run(*train(tmp_path, transition=None), *two)
    assert "given 2 times" not in result.stderr


def test_there_are_fifty() -> None:
    assert len({name for name, _, _ in CASES}) == len(CASES) >= 50


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("what", ["train", "simulate"])
def test_a_disk_that_fails_at_the_last_moment(
    what: str, problem: int, workshop: Path, tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is written, and then renaming fails."""
    import os

    folder = tmp_path / "here"
    shutil.copytree(workshop, folder)
    before = listing(folder)

    def refuse(source: object, target: object) -> None:
        raise OSError(problem, os.strerror(problem), str(target))

    monkeypatch.setattr(os, "rename", refuse)
    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(os, "link", refuse)
    result = run(*(train(folder, folds=2, calibrate="none") if what == "train" else simulate(folder)))
    monkeypatch.undo()
    assert result.exit_code in (1, 2)
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("error: ")
    assert os.strerror(problem) in result.stderr
    assert listing(folder) == before


@pytest.mark.parametrize("what", ["train", "evaluate"])
def test_what_cannot_be_written_is_found_before_the_work(
    what: str, workshop: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tproper.tables import evaluating as _evaluating
    from tproper.tables import table_fit as _table_fit

    monkeypatch.setattr(_table_fit, "read", lambda *rest: pytest.fail("read"))
    monkeypatch.setattr(_evaluating, "evaluate", lambda *rest: pytest.fail("read"))
    place = Path("/proc/nothing/new.png")
    result = run(*(train(workshop, out=place) if what == "train" else evaluate(workshop, plot=place)))
    assert result.exit_code in (1, 2)
    assert result.stderr.startswith(f"error: {place}: ")
