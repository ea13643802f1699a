"""CONTRIBUTING is true: its code blocks, in a package from outside, add what they say in the lines that they say."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused
from typer.testing import CliRunner

import tproper as tp
from tproper._core import plugins
from tproper.cli.main import COMMANDS, app
from tproper.losses import (
    loss_from_dict,
    loss_to_dict,
    make_loss,
    make_potential,
    names,
    register_loss,
    register_potential,
)
from tproper.transitions import make_transition, parse_transition, parsing, register_family

from . import laws

ROOT = Path(__file__).parents[2]
NUMBERS = {"five": 5, "seven": 7, "ten": 10}
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S))
CODE = {
    heading: m.group(1) for heading, body in SECTIONS.items() if (m := re.search(r"```python\n(.*?)```", body, re.S))
}


def block(what: str) -> str:
    (found,) = [code for heading, code in CODE.items() if what in heading]
    return found


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """The code blocks of the page as an installed package, with the entry points of the page."""
    site, patch = tmp_path_factory.mktemp("site"), pytest.MonkeyPatch()
    (site / "mine.py").write_text("\n".join(block(what) for what in ("potential", "weak label", "loss")))
    (site / "mine_commands.py").write_text(block("command"))
    info = site / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    toml = re.search(r"```toml\n(.*?)```", SECTIONS["A package of your own"], re.S).group(1)
    (info / "entry_points.txt").write_text(
        re.sub(r'\[project\.entry-points\."(.*?)"\]', r"[\1]", toml).replace('"', "")
    )
    tables = (names._POTENTIALS, names._OTHERS, parsing.FAMILIES)
    for table in tables:
        for name, entry in table.items():  # put back as it was
            patch.setitem(table, name, entry)
    before = [dict(table) for table in tables]
    patch.syspath_prepend(str(site))
    known = (plugins.load_plugins, importlib.import_module("tproper.cli.main")._others)  # read once a process
    for read in known:
        read.cache_clear()
    yield site
    patch.undo()
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)
    for name in ("mine", "mine_commands"):
        sys.modules.pop(name, None)
    for read in known:
        read.cache_clear()


@pytest.mark.parametrize("heading", [h for h in CODE if " lines" in h])
def test_the_number_of_lines_is_as_claimed(heading):
    claimed = NUMBERS[re.search(r"in (\w+) lines", heading).group(1)]
    assert len([line for line in CODE[heading].splitlines() if line.strip()]) == claimed


def test_the_four_things_are_there():
    assert [h for h in CODE if " lines" in h] == [h for h in SECTIONS if h.startswith("A new ")]
    assert len(CODE) == 6  # and a structure, and what the lab takes: lab/tests/test_outside.py


@pytest.mark.parametrize("heading", [h for h in SECTIONS if h.startswith("A new ")])
def test_the_files_it_lists_exist(heading):
    inside = SECTIONS[heading].split("In this package:")[1]
    paths = re.findall(r"`((?:src|tests)/\S*)`", inside)
    assert len(paths) >= 2
    assert [p for p in paths if not (ROOT / p).exists()] == []


def test_a_potential_from_outside(mine):
    F = make_potential("quartic")
    assert type(F).__name__ == "Quartic"
    for law in (laws.fenchel_young, laws.link_is_the_gradient, laws.inverse_link_inverts, laws.shifts_change_nothing):
        law(F, 4)
    loss = tp.BackwardLoss(tp.complementary(4), F, reduction="none")
    laws.descent_respects_bounds(loss)
    certificate = tp.certify(loss)
    assert (certificate.proper, certificate.lower_bounded, certificate.evidence) == (True, True, "numerical")
    again = loss_from_dict(loss_to_dict(loss), loss.transition)
    assert np.array_equal(again.lower_bounds(), loss.lower_bounds())


def test_a_kind_of_weak_label_from_outside(mine):
    T = parse_transition("shy:4,0.3")
    assert make_transition(("shy", {"p": 0.3}), 4).same_as(T)
    assert make_transition("shy:0.3", 4).same_as(T)
    for method in ("auto", "pinv", "min_variance", "tightest"):
        laws.left_inverse(T, method)
        laws.targets_are_unbiased(T, method)
    laws.samples_follow_the_matrix(T)
    for loss in (tp.BackwardLoss(T, squeeze=(1.0, 2.0), reduction="none"), tp.ForwardLoss(T, reduction="none")):
        laws.minimiser_recovers_the_truth(loss)
    answer = CliRunner().invoke(app, ["inspect", "shy:3,0.2"])
    assert answer.exit_code == 0, answer.output
    assert "rank" in answer.output


def test_a_structure_from_outside_has_everything():
    """Two classes: every loss, score, bound, certificate and CPU kernel is that of the same T as a matrix."""
    room: dict[str, type] = {}
    exec(block("two classes"), room)
    T = room["Shy"](4, 0.3)
    given = tp.Transition(T.matrix())
    R = tp.Reconstruction(T.reconstruction().matrix(), given)
    for law in (laws.left_inverse, laws.targets_are_unbiased, laws.adjointness, laws.targets_agree_with_themselves):
        law(T, "auto")
    laws.rows_agree_with_themselves(T)
    laws.samples_follow_the_matrix(T)
    assert isinstance(T, tp.Transition)
    assert isinstance(T.reconstruction(), tp.Reconstruction)
    y = torch.as_tensor(T.sample(np.arange(40) % 4, 0))
    scores = 3 * torch.randn(40, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    pairs = [(tp.ForwardLoss(T, score=s), tp.ForwardLoss(given, score=s)) for s in ("log", "brier", "tsallis:1.5")]
    for F in (tp.LogSumExp(), tp.Brier(), tp.Sparsemax(), tp.LogSumExp().squeezed(1.0, 2.0)):
        pairs.append((tp.BackwardLoss(T, F), tp.BackwardLoss(given, F, reconstruction=R)))
    w = [1.0, 2.0, 3.0, 4.0]
    pairs.append((tp.BackwardLoss(T, class_weights=w), tp.BackwardLoss(given, reconstruction=R, class_weights=w)))
    pairs.append((tp.GradientAscentLoss(T), tp.GradientAscentLoss(given, reconstruction=R)))
    for ours, theirs in pairs:
        a, b = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        torch.testing.assert_close(ours(a, y), theirs(b, y), rtol=1e-12, atol=1e-12)
        ours(a, y).backward()
        theirs(b, y).backward()
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(torch.as_tensor(ours.lower_bounds()), torch.as_tensor(theirs.lower_bounds()))
        torch.testing.assert_close(ours.bounds().of(y), theirs.bounds().of(y))
        certificates = [loss.certify() for loss in (ours, theirs)]
        assert len({(c.proper, c.strictly_proper, c.lower_bounded, c.evidence) for c in certificates}) == 1
    for loss in (pairs[0][0], pairs[3][0], pairs[6][0]):
        assert loss._work(scores, y) is not None
    q = scores.softmax(-1).numpy()
    for score in (tp.weak_log_loss, tp.weak_brier):
        ours, theirs = (score(y, q, t, reconstruction=r) for t, r in ((T, "auto"), (given, R)))
        assert (ours.value, ours.stderr) == pytest.approx((theirs.value, theirs.stderr), rel=1e-12)
    np.testing.assert_allclose(tp.critical_k(T), tp.critical_k(given, R))
    assert T.diagnose().reconstructible
    assert T.same_as(given)


def test_a_loss_from_outside(mine):
    T = tp.complementary(4)
    loss = make_loss("half", T)
    loss.reduction = "none"
    laws.minimiser_recovers_the_truth(loss)
    laws.descent_respects_bounds(loss)
    assert loss.certify().proper
    assert type(loss_from_dict(loss_to_dict(loss), T)) is type(loss)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), np.arange(60) % 4
    model = tp.WeakLabelClassifier(T, loss="half").fit(X, T.sample(y, 0))
    assert model.predict_proba(X).shape == (60, 4)


def test_a_command_from_outside(mine):
    runner = CliRunner()
    answer = runner.invoke(app, ["rank", "complementary:7"])
    assert (answer.exit_code, answer.output) == (0, "7\n")
    assert "A command of mine." in runner.invoke(app, ["--help"]).output
    assert "Print the rank of a label transition." in runner.invoke(app, ["rank", "--help"]).output
    wrong = runner.invoke(app, ["rank", "complementary:x"])
    assert wrong.exit_code == 2
    assert "expected an integer for K" in wrong.stderr
    assert "Traceback" not in wrong.output
    assert "rank" not in COMMANDS


def test_a_plugin_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tproper.plugins]\nbroken = no_such_module\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.load_plugins.cache_clear()
    message = (
        "tproper.plugins: expected no_such_module to be importable, got ModuleNotFoundError: .*; fix or uninstall "
    )
    with pytest.raises(ValueError, match=message + "broken"):
        parse_transition("nonsense:3")
    assert parse_transition("pair:3,0.1").num_classes == 3  # what is known needs no plugin
    plugins.load_plugins.cache_clear()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: register_family("pair", tp.identity, K=int), "name"),
        (lambda: register_family("coarse", tp.identity, K=int), "name"),
        (lambda: register_family("my noise", tp.identity, K=int), "name"),
        (
            lambda: register_family("mine", tp.identity, p=float, K=int),
            "parameters",
        ),
        (lambda: register_potential("brier", tp.Max), "name"),
        (lambda: register_loss("forward", tp.ForwardLoss), "name"),
    ],
)
def test_names_that_cannot_be_registered(call, message):
    with refused(message):
        call()
