"""Every kind of weak label, declared once: its names, its parameters, a line about it, an example, a small matrix.

What the text form of a transition understands is made from this list (`parsing`), and so are the tables of the README
and of the docs' map, and the help of the command; the laws hold each kind to the small matrix that stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from . import families, named, noisy_sets, questions
from .base import Transition


def rates(text: str) -> float | list[float]:
    """One number, or several with + between them."""
    numbers = [float(part) for part in text.split("+")]
    return numbers[0] if len(numbers) == 1 else numbers


def groups(text: str) -> list[list[int]]:
    """``0+1|2``: groups of class indices."""
    return [[int(z) for z in group.split("+")] for group in text.split("|")]


@dataclass(frozen=True)
class Kind:
    """A kind of weak label.

    `make` is called with the parameters by name. `example` is its text form, and `small` the matrix T of that example,
    written by hand from the kind's own definition. `column` shows what a column of a table holds.
    """

    name: str
    make: Callable[..., Transition]
    parameters: tuple[tuple[str, Any], ...]  # in order, the number of classes first where it has one; (name, how read)
    example: str
    small: tuple[tuple[float, ...], ...]
    help: str
    column: str
    aliases: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    estimated_from: str = ""
    guide: str = ""
    settings: tuple[str, ...] = ()  # of the survey by Chiang and Sugiyama (2025)
    call: str = ""  # the Python expression of the example

    @property
    def takes_classes(self) -> bool:
        """Whether the first parameter is the number of classes, which may be left out where it is known."""
        return bool(self.parameters) and self.parameters[0][0] == "K"

    def usage(self, name: str) -> str:
        """How the text is written."""
        return f"{name}:{','.join(p for p, _ in self.parameters)}" + "".join(f"[,{o}=...]" for o, _ in self.options)


KINDS: tuple[Kind, ...] = (
    Kind(
        "identity", families.identity, (("K", int),), "identity:3", ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
        "clean labels: supervised learning", "cat", call="tp.identity(3)", settings=("supervised",), guide="noisy",
    ),
    Kind(
        "symmetric", families.symmetric_noise, (("K", int), ("p", float)), "symmetric:3,0.3",
        ((0.7, 0.15, 0.15), (0.15, 0.7, 0.15), (0.15, 0.15, 0.7)),
        "noisy labels: wrong with probability p, every wrong class alike", "cat", ("symmetric_noise",),
        estimated_from="clean rows, features, several annotators", guide="noisy", call="tp.symmetric_noise(3, 0.3)",
        settings=("noisy labels (mutual contamination)", "noisy labels (class-conditional)"),
    ),
    Kind(
        "pair", families.pair_noise, (("K", int), ("p", float)), "pair:3,0.2",
        ((0.8, 0, 0.2), (0.2, 0.8, 0), (0, 0.2, 0.8)),
        "noisy labels: class z becomes z + 1 with probability p", "cat", ("pair_noise",),
        estimated_from="clean rows, features", guide="noisy", call="tp.pair_noise(3, 0.2)",
    ),
    Kind(
        "binary", families.binary_noise, (("r_pos", float), ("r_neg", float)), "binary:0.1,0.3",
        ((0.9, 0.3), (0.1, 0.7)), "noisy labels of two classes, with a rate for each", "spam", ("binary_noise",),
        estimated_from="clean rows, features", guide="noisy", call="tp.binary_noise(0.1, 0.3)",
    ),
    Kind(
        "ordinal", named.ordinal_noise, (("K", int), ("p", float)), "ordinal:4,0.3,spread=0.5",
        ((0.7, 0.12, 0.3 / 5, 0.3 / 7), (0.3 * 4 / 7, 0.7, 0.12, 0.3 * 2 / 7), (0.3 * 2 / 7, 0.12, 0.7, 0.3 * 4 / 7),
         (0.3 / 7, 0.3 / 5, 0.12, 0.7)),
        "classes in an order: wrong with probability p, near classes rather than far ones", "good", ("ordinal_noise",),
        (("spread", float),), "clean rows, features", "noisy", call="tp.ordinal_noise(4, 0.3, 0.5)",
    ),
    Kind(
        "complementary", families.complementary, (("K", int),), "complementary:3",
        ((0, 0.5, 0.5), (0.5, 0, 0.5), (0.5, 0.5, 0)), '"not this class"', "cat", (), (("noise", float),),
        "by design; clean rows", "not-this", ("complementary",), "tp.complementary(3)",
    ),
    Kind(
        "multi_complementary", families.multi_complementary, (("K", int), ("m", int)), "multi_complementary:3,2",
        ((1, 0, 0), (0, 1, 0), (0, 0, 1)), '"none of these m classes"', "cat", (), (), "by design",
        "not-this", ("multi-complementary",), "tp.multi_complementary(3, 2)",
    ),
    Kind(
        "partial", families.partial_labels, (("K", int), ("p", float)), "partial:2,0.25", ((0.75, 0), (0, 0.75),
        (0.25, 0.25)),
        "candidate sets, which hold the class", "cat|dog", ("partial_labels",), (), "the sets themselves",
        "candidates",
        ("provably consistent partial labels", "proper partial labels"), "tp.partial_labels(2, 0.25)",
    ),
    Kind(
        "noisy_partial", noisy_sets.noisy_partial_labels, (("K", int), ("p", float), ("e", float)),
        "noisy_partial:2,0.5,0.2", ((4 / 9, 1 / 9), (1 / 9, 4 / 9), (4 / 9, 4 / 9)),
        "candidate sets that leave the class out with probability e", "cat|dog", ("noisy_partial_labels",), (),
        "clean rows", "candidates", call="tp.noisy_partial_labels(2, 0.5, 0.2)",
    ),
    Kind(
        "yes_no", questions.yes_no, (("K", int),), "yes_no:2,miss=0.1,false=0.2",
        ((0.45, 0.1), (0.1, 0.45), (0.05, 0.4), (0.4, 0.05)),
        '"is it a cat?": one question a row', "not cat", ("questions",), (("miss", float), ("false", float)),
        "by design; clean rows", "not-this", call="tp.yes_no(2, miss=0.1, false=0.2)",
    ),
    Kind(
        "coarse", families.coarse_labels, (("groups", groups),), "coarse:0+1|2", ((1, 1, 0), (0, 0, 1)),
        "super-classes: the group that holds the class", "cat|dog", ("coarse_labels",), (), "by design",
        "groups",
        call="tp.coarse_labels([[0, 1], [2]])",
    ),
    Kind(
        "hierarchy", named.hierarchical_labels, (("groups", groups), ("coarse", float)), "hierarchy:0+1|2,0.25",
        ((0.75, 0, 0), (0, 0.75, 0), (0, 0, 1), (0.25, 0.25, 0)),
        "some rows have their class, others a group that holds it", "cat|dog", ("hierarchical_labels",), (),
        "the share of coarse labels", "groups", call="tp.hierarchical_labels([[0, 1], [2]], 0.25)",
    ),
    Kind(
        "none_of_these", named.none_of_these, (("K", int), ("listed", int)), "none_of_these:3,2,miss=0.1",
        ((0.9, 0, 0), (0, 0.9, 0), (0.1, 0.1, 1)), 'an open set: classes that are not listed are "none of these"',
        "none of these", ("open_set",), (("miss", float), ("false", float)), "clean rows", "noisy",
        call="tp.none_of_these(3, 2, miss=0.1)",
    ),
    Kind(
        "partly_labeled", named.partly_labeled, (("K", int), ("rates", rates)), "partly_labeled:2,0.5+0.1",
        ((0.5, 0), (0, 0.1), (0.5, 0.9)), 'some rows have their class, others are "unlabeled" (PU + N)', "unlabeled",
        ("pnu",), (), "clean rows", "positives", ("positive, negative and unlabeled",),
        "tp.partly_labeled(2, [0.5, 0.1])",
    ),
    Kind(
        "pu", families.positive_unlabeled, (("r", float),), "pu:0.4", ((0.4, 0), (0.6, 1)),
        "positive and unlabeled rows of one sample", "unlabeled", ("positive_unlabeled",), (),
        "features: `estimate_pu`", "positives", ("positive-unlabeled",), "tp.positive_unlabeled(0.4)",
    ),
    Kind(
        "case_control_pu", named.case_control_pu, (("prior", float), ("labeled", int), ("unlabeled", int)),
        "case_control_pu:0.25,50,100", ((2 / 3, 0), (1 / 3, 1)), "a sample of positives beside one of the population",
        "unlabeled", ("two_sample_pu",), (), 'features: `estimate_pu(sampling="two samples")`', "positives",
        ("positive-unlabeled (case-control)",), "tp.case_control_pu(0.25, 50, 100)",
    ),
)  # fmt: skip

BY_NAME: dict[str, Kind] = {kind.name: kind for kind in KINDS}
ALIASES: dict[str, str] = {alias: kind.name for kind in KINDS for alias in kind.aliases}


def made_by_name(name: str, parameters: Mapping[str, Any]) -> Transition:
    """A transition from its kind and parameters, as a file holds them."""
    kind = BY_NAME.get(ALIASES.get(name, name))
    if kind is None:
        raise InputError(f"transition: expected a known kind, got {name!r}")
    return kind.make(**parameters)
