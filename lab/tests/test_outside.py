"""Methods, data sets and models of another package, as CONTRIBUTING shows them, by entry points."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import tproper as tp
from tproper import InputError
from tproper.cli.main import app
from tproper_lab import Method, dataset_names, find_method, load, methods_for, model_names, outside
from tproper_lab.stacking import stacked
from tproper_lab.store import read_store

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
SECTION = PAGE.split("\n## A method, a data set and a model for the lab\n")[1].split("\n## ")[0]


def installed(site, code, entries, monkeypatch):
    (site / "mine_lab.py").write_text(code)
    info = site / "mine_lab-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine-lab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(str(site))
    outside.points.cache_clear()
    outside.loaded.cache_clear()


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The blocks of the page as an installed package."""
    toml = re.search(r"```toml\n(.*?)```", SECTION, re.S)[1]
    entries = re.sub(r'\[project\.entry-points\."(.*?)"\]', r"[\1]", toml).replace('"', "")
    installed(tmp_path, re.search(r"```python\n(.*?)```", SECTION, re.S)[1], entries, monkeypatch)
    yield
    sys.modules.pop("mine_lab", None)
    outside.points.cache_clear()
    outside.loaded.cache_clear()


@pytest.mark.usefixtures("mine")
def test_the_command_of_the_page_runs_them(tmp_path):
    line = re.search(r"`tproper (bench .*?)`", SECTION)[1].split()
    short = ["--trials", "1", "--epochs", "2", "--lr", "0.1", "--threads", "1", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*line, *short])
    assert done.exit_code == 0, done.output
    rows = read_store(tmp_path / "run")
    assert {(r["dataset"], r["model"]) for r in rows} == {("rings", "wide")}
    assert {r["loss"] for r in rows} == {"spherical", "bc"}
    page = (tmp_path / "run" / "report" / "leaderboard.md").read_text()
    assert "rings, wide" in page
    assert "| spherical |" in page
    assert json.loads(json.dumps(rows))  # what is stored is plain data


@pytest.mark.usefixtures("mine")
def test_a_method_made_of_t_is_the_loss_it_makes():
    T = tp.pair_noise(3, 0.2)
    assert "spherical" in {m.name for m in methods_for(T)}
    method = find_method("spherical")
    assert (method.name, method.title) == ("spherical", "spherical")
    scores, labels = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([[0, 1, 2, 0]] * 2)
    expected = torch.stack([tp.ForwardLoss(T, score="spherical")(v, y) for v, y in zip(scores, labels, strict=True)])
    torch.testing.assert_close(method.build(T)(scores, labels, None), expected)
    card = method.card(T)
    assert (card.proper, card.bounded, card.evidence) == (True, True, "exact")


def test_a_method_made_of_t_may_be_a_plain_function():
    def make(T):
        inverse = torch.linalg.inv(torch.as_tensor(T.matrix()))

        def each(scores, labels):
            return -(inverse.to(scores)[:, labels].movedim(0, -1) * torch.log_softmax(scores, -1)).sum(-1)

        return each

    method, T = Method(make=make).named("mine"), tp.complementary(3)
    scores, labels = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([[0, 1, 2, 0]])
    torch.testing.assert_close(method.build(T)(scores, labels, None), tp.BackwardLoss(T)(scores[0], labels[0])[None])
    assert method.card(T).proper is True
    assert method.card(T).bounded is False


@pytest.mark.usefixtures("mine")
def test_data_sets_and_models_are_known_by_their_names():
    assert dataset_names()[-1] == "rings"
    assert model_names()[-1] == "wide"
    data = load("rings")
    assert (data.name, data.num_classes, data.shape) == ("rings", 3, (1, 2, 1))
    model = stacked("wide", data.shape, 3, torch.device("cpu"))
    weights, buffers = model.initial(0)
    x = torch.zeros(1, 5, 1, 2, 1)
    assert model.scores({n: w[None] for n, w in weights.items()}, buffers, x, train=False).shape == (1, 5, 3)


def test_what_cannot_be_imported_is_named(tmp_path, monkeypatch):
    entries = "[tproper.methods]\nbroken = no_such_module:x\n[tproper.datasets]\nempty = mine_lab:empty\n"
    installed(tmp_path, "def empty(folder):\n    return 3\n", entries, monkeypatch)
    with pytest.raises(InputError, match="fix or uninstall mine-lab") as error:
        find_method("broken")
    assert error.value.argument == "tproper.methods"
    with pytest.raises(InputError) as error:
        load("empty")
    assert error.value.argument == "dataset empty"
    sys.modules.pop("mine_lab", None)
    outside.points.cache_clear()
    outside.loaded.cache_clear()


@pytest.mark.parametrize("make", [None, 3])
def test_a_method_without_a_function_is_refused(make):
    with pytest.raises(InputError) as error:
        Method(make=make)
    assert error.value.argument == "make"
