"""Every public name has a docstring that says what goes in and what comes out, with an example that runs."""

import doctest
import inspect
import re
import warnings

import pytest

import tproper as tp

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
NAMES = {name: getattr(tp, name) for name in tp.__all__}
EXTRAS = {"export_onnx": "onnxruntime", "export_trees": "lightgbm"}  # what an example needs beside what tests need


def doc_of(value: object) -> str:
    """The docstring that stands at the name itself: not that of a base class."""
    return inspect.cleandoc((vars(value).get("__doc__") if isinstance(value, type) else value.__doc__) or "")


def parts(doc: str) -> dict[str, str]:
    """What stands under each underlined heading of a docstring."""
    pieces = re.split(r"^([A-Z][a-z]+)\n-{4,}$", doc, flags=re.M)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def missing(value: object) -> set[str]:
    """What the docstring of a public name should say and does not."""
    doc = parts(doc_of(value))
    out = {"Examples"} if ">>>" not in doc.get("Examples", "") else set()
    if isinstance(value, type) and issubclass(value, BaseException):
        return out
    arguments, listed = list(inspect.signature(value).parameters.values()), doc.get("Parameters", "")
    if isinstance(value, type):
        if arguments and not {"Parameters", "Attributes"} & set(doc):
            out.add("Parameters or Attributes")  # what a user makes, or is given
        if not listed:
            return out
    elif not doc.get("Returns", "").strip():
        out.add("Returns")
    single = [a.name for a in arguments if a.kind not in (a.VAR_POSITIONAL, a.VAR_KEYWORD)]
    return out | {name for name in single if not re.search(rf"^(\w.*, )?{name}\b", listed, re.M)}


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_says_what_goes_in_and_what_comes_out(name):
    assert missing(NAMES[name]) == set()


def test_what_a_docstring_leaves_out_is_found():
    def half(labels, prior):
        """Half of it.

        Parameters
        ----------
        labels : list
        """

    assert missing(half) == {"Examples", "Returns", "prior"}


def run(name: str, doc: str) -> str:
    """What an example said that it should not have said."""
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest(doc, {}, name, None, 0)
    assert test.examples
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=said.append)
    return "".join(said)


@pytest.mark.parametrize("name", NAMES)
def test_its_example_runs(name, tmp_path, monkeypatch):
    pytest.importorskip(EXTRAS.get(name, "tproper"))
    monkeypatch.chdir(tmp_path)  # for what an example writes
    assert run(name, doc_of(NAMES[name])) == ""


def test_an_example_that_is_wrong_is_found():
    assert "Expected" in run("wrong", ">>> 1 + 1\n3\n")
