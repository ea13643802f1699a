"""A user's own loss: its file is run as Python would, and its mistakes are one sentence before anything is trained."""

import pytest
import torch
from test_commands import run_here

import tproper as tp
from tproper_lab import find_method, register_own, rehearse

BODY = """
import torch
def good(scores, labels): return -torch.log_softmax(scores, -1).gather(2, labels[..., None])[..., 0]
def risk(scores, labels): return good(scores, labels).mean(1)
def double(scores, labels): return good(scores.double(), labels)
def half(scores, labels): return good(scores.half(), labels)
def nothing(scores, labels): return None
def whole(scores, labels): return good(scores, labels).long()
def constant(scores, labels): return torch.zeros(scores.shape[:2])
def scalar(scores, labels): return good(scores, labels).mean()
def key(scores, labels): return {}["x"]
def lines(scores, labels): raise RuntimeError("first\\nsecond")
def in_place(scores, labels):
    scores -= 1
    return good(scores, labels)
def wrong_index(scores, labels): return scores.gather(2, labels)
def not_a_number(scores, labels): return float("nan") * good(scores, labels)
def steep(scores, labels): return (good(scores, labels) * 0).sqrt()
def single(scores, labels): return -(scores.softmax(-1) @ torch.eye(4)).log().gather(2, labels[..., None])[..., 0]
import tproper as tp
from tproper_lab import Method
def of_T(T): return tp.ForwardLoss(T, score="brier")
def own_of_T(T):
    matrix = torch.as_tensor(T.matrix())
    def loss(scores, labels):
        q = scores.softmax(-1) @ matrix.to(scores).T
        return -q.gather(-1, labels[..., None])[..., 0].log()
    return loss
a_method = Method(make=lambda T: tp.ForwardLoss(T, score="spherical"))
"""


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "my löss.py"
    path.write_text(BODY)
    return lambda name: f"{path}:{name}"


@pytest.mark.parametrize("name", ["good", "risk", "double", "half"])
def test_losses_of_any_precision_have_the_scores_precision(name, place):
    method, _ = register_own(place(name))
    rehearse(method, tp.complementary(4))
    scores = torch.randn(2, 5, 4, requires_grad=True)
    risk = find_method(name).build(tp.complementary(4))(scores, torch.zeros(2, 5, dtype=torch.int64), None)
    assert risk.dtype == scores.dtype
    plain = torch.nn.functional.cross_entropy(scores.flatten(0, 1), torch.zeros(10, dtype=torch.int64))
    torch.testing.assert_close(risk.mean(), plain, rtol=2e-3 if name == "half" else 1e-6, atol=0)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nothing", "method: expected a tensor of real numbers, the losses, got NoneType"),
        ("whole", "method: expected a tensor of real numbers, the losses, got torch.int64"),
        ("constant", "method: expected losses with a gradient by the scores, got constant or detached ones"),
        ("scalar", r"method: expected risks of shape \(2,\) or losses of shape \(2, 3\)"),
        ("key", r"method: key fails on scores \(2, 3, 4\) and labels \(2, 3\): KeyError: 'x' \(my löss.py, line 11\)"),
        ("lines", r"method: lines fails .*: RuntimeError: first \(my löss.py, line 12\)"),
        ("in_place", "method: in_place fails .*: RuntimeError: a leaf Variable"),
        ("wrong_index", "method: wrong_index fails .*: RuntimeError: Index tensor"),
        ("not_a_number", "method: expected finite losses of not_a_number at ordinary scores, got nan"),
        (
            "single",
            r"method: single fails .* in float64, in which it is certified .*RuntimeError: .* line \d+\); "
            r"make its constants with dtype=scores\.dtype and device=scores\.device",
        ),
        ("steep", "method: expected finite gradients of steep at ordinary scores, got"),
    ],
)
def test_mistakes_are_named_before_training(name, sentence, place):
    method, _ = register_own(place(name))
    with pytest.raises(ValueError, match=sentence):
        rehearse(method, tp.complementary(4))


@pytest.mark.parametrize("name", ["of_T", "own_of_T", "a_method"])
def test_a_method_may_be_made_of_t(name, place):
    T = tp.symmetric_noise(4, 0.2)
    method, _ = register_own(place(name))
    rehearse(method, T)
    assert find_method(name).name == name
    assert method.card(T).proper
    scores, labels = torch.randn(1, 5, 4), torch.zeros(1, 5, dtype=torch.int64)
    loss = tp.ForwardLoss(T, score={"of_T": "brier", "own_of_T": "log", "a_method": "spherical"}[name])
    torch.testing.assert_close(method.build(T)(scores, labels, None), loss(scores[0], labels[0])[None])


@pytest.mark.parametrize(
    "transition",
    [tp.partial_labels(4, 0.3), tp.annotators([tp.symmetric_noise(4, 0.2)] * 3), tp.positive_unlabeled(0.5)],
)
def test_every_kind_of_label_can_be_rehearsed(transition, tmp_path):
    shape = (2, 3, *transition.label_shape)
    (tmp_path / "any.py").write_text(
        f"def any_labels(scores, labels):\n    assert labels.shape == {shape}\n    return scores.square().sum(-1)\n"
    )
    rehearse(register_own(f"{tmp_path / 'any.py'}:any_labels")[0], transition)


def test_nothing_is_made_where_the_loss_is_wrong(place, tmp_path):
    args = ["complementary", "--data", "digits", "--methods", "forward", "--out", tmp_path / "run"]
    done = run_here("bench", *args, "--method-file", place("key"))
    assert done.exit_code == 2
    assert "error: method: key fails" in done.output
    assert not (tmp_path / "run").exists()


def test_a_file_is_run_as_python_would(tmp_path):
    (tmp_path / "shared_part.py").write_text("SCALE = 2\n")
    (tmp_path / "mine.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom shared_part import SCALE\n"
        "@dataclass\nclass Settings:\n    scale: int = SCALE\n"
        "def mine(scores, labels):\n    return Settings().scale * scores.square().sum(-1)\n"
    )
    rehearse(register_own(f"{tmp_path / 'mine.py'}:mine")[0], tp.complementary(4))


def test_files_that_are_no_module(tmp_path):
    (tmp_path / "mine.txt").write_text(BODY)
    with pytest.raises(ValueError, match=r"method: expected file.py:function, got '.*mine.txt:good'$"):
        register_own(f"{tmp_path / 'mine.txt'}:good")
    with pytest.raises(ValueError, match=r"got '.*none.py:good', no such file"):
        register_own(f"{tmp_path / 'none.py'}:good")
    (tmp_path / "ends.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(ValueError, match=r"ends.py cannot be run: SystemExit: 3"):
        register_own(f"{tmp_path / 'ends.py'}:good")
