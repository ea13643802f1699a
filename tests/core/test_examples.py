"""Every public name has a docstring that says what goes in and what comes out, with an example that runs."""

import doctest
import inspect
import re
import warnings

import pytest

import tproper as tp

PARSER = doctest.DocTestParser()
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
NAMES = {name: getattr(tp, name) for name in tp.__all__}


def own_doc(value: object) -> str:
    """The docstring that stands at the name itself: not that of a base class."""
    return inspect.cleandoc(vars(value).get("__doc__") or "" if isinstance(value, type) else value.__doc__ or "")


def sections(doc: str) -> set[str]:
    return set(re.findall(r"^(\w+)\n-{4,}$", doc, re.M))


@pytest.mark.parametrize("name", [n for n in NAMES if ">>>" in own_doc(NAMES[n])])
def test_an_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what an example writes
    test = PARSER.get_doctest(own_doc(NAMES[name]), {}, name, None, 0)
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=said.append)
    assert not said, "".join(said)
