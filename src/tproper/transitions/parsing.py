"""Transitions as text and as plain data.

Text is for people and command lines (``complementary:10``, ``symmetric:0.2``, ``T.csv``); plain data is for files:
`transition_to_dict` and `transition_from_dict` are exact inverses of each other, and nothing in them is code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from .._core import FloatArray, checks, count_text, other_encoding, plugins, read_json
from ..errors import InputError
from . import families
from .annotators import AnnotatorTransition, annotators
from .base import Transition, read_transition
from .catalogue import ALIASES, BY_NAME, Kind, groups, made_by_name, rates
from .dense import DenseTransition, EstimatedTransition
from .estimated_sets import EstimatedPartialLabels, FamilyTest
from .named import NamedTransition
from .noisy_sets import NoisySetTransition
from .questions import QuestionTransition
from .sets import CandidateSetTransition, FixedSizeSets, IndependentSets
from .stacked import StackedTransition
from .uniform import UniformTransition

TransitionLike: TypeAlias = Transition | str | tuple[Any, ...] | Mapping[str, Any] | ArrayLike | Tensor

MOST_CLASSES = 10_000_000  # that a text may ask for
MOST_ENTRIES = 1 << 27  # of a matrix in a file: 1 GiB
MATRIX_FILES = (".csv", ".npy", ".json")


class UnknownSizeError(InputError):
    """The description leaves out the number of classes, and nothing else gives it."""


FAMILIES: dict[str, Kind] = dict(BY_NAME)  # and those of plugins


def register_family(name: str, make: Callable[..., Transition], **parameters: type) -> None:
    """A kind of weak label of your own by its name: ``register_family("seasonal", seasonal, K=int, p=float)``.

    ``make(K=10, p=0.2)`` returns its `Transition`. From then on ``seasonal:10,0.2`` is understood wherever a transition
    is written as text, and the number of classes may be left out where it is known.
    """
    if "K" in parameters and next(iter(parameters)) != "K":
        raise InputError(f"parameters: expected K, the number of classes, first, got {', '.join(parameters)}")
    if name in ALIASES:
        raise InputError(f"name: expected one that is not taken, got {name!r}")
    plugins.add(FAMILIES, name, Kind(name, make, tuple(parameters.items()), "", (), "", ""))


def parse_transition(spec: str, num_classes: int | None = None) -> Transition:
    """The transition that a text names, as the command line and ``transition=`` take it.

    ``identity:3``, ``symmetric:10,0.2``, ``pair:10,0.2``, ``binary:0.1,0.2``, ``complementary:10`` (and
    ``complementary:10,noise=0.05``), ``multi_complementary:10,3``, ``partial:5,0.1``, ``pu:0.5``, ``coarse:0+1|2+3``
    (groups of class indices), or the path of a matrix: ``.csv`` (numbers only), ``.npy``, or ``.json`` with the keys
    "matrix" and, optionally, "weak_labels".

    Parameters
    ----------
    spec : str
        The text.
    num_classes : int, optional
        The number of classes, which may then be left out of the text: ``complementary``, ``symmetric:0.2``.

    Returns
    -------
    Transition
        What the text names.

    Raises
    ------
    UnknownSizeError
        Neither the text nor `num_classes` says how many classes there are.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.parse_transition("symmetric:0.25", num_classes=2).matrix()
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    if not isinstance(spec, str) or not spec.strip():
        raise InputError(f"transition: expected a text such as 'complementary:10' or 'T.csv', got {checks.short(spec)}")
    text = spec.strip()
    name, colon, rest = text.partition(":")
    name = ALIASES.get(name.strip().lower(), name.strip().lower())
    if Path(text).suffix.lower() in MATRIX_FILES:
        transition = read_matrix(text)
    elif (family := plugins.find(FAMILIES, name)) is not None:
        transition = _family(family, name, rest, bool(colon), num_classes)
    else:
        known = ", ".join(sorted(FAMILIES))
        raise InputError(
            f"transition: expected one of {known}, or the path of a .csv, .npy or .json matrix, got {spec!r}"
        )
    return _of_size(transition, num_classes)


def _of_size(transition: Transition, num_classes: int | None) -> Transition:
    if num_classes is not None and transition.num_classes != num_classes:
        raise InputError(
            f"transition: expected one for {num_classes} classes, got {transition.num_classes} from {transition.name}"
        )
    return transition


def _family(family: Kind, name: str, rest: str, colon: bool, num_classes: int | None) -> Transition:
    parts = [p.strip() for p in rest.split(",")] if rest.strip() else []
    if colon and not parts:
        raise InputError(f"transition: expected {family.usage(name)!r}, got nothing after the colon of {name!r}")
    positional = [p for p in parts if "=" not in p]
    texts = {key.strip(): text.strip() for key, _, text in (p.partition("=") for p in parts if "=" in p)}
    needed = [key for key, _ in family.parameters]
    given = name + (":" + rest if colon else "")
    if len(positional) + len(texts) < len(parts):
        raise InputError(f"transition: expected {family.usage(name)!r} with every parameter once, got {given!r}")
    if family.takes_classes and len(positional) + sum(key in needed for key in texts) < len(needed):
        if num_classes is None:
            raise UnknownSizeError(
                f"transition: expected {family.usage(name)!r} with K the number of classes, got {given!r}"
            )
        texts.setdefault("K", str(num_classes))
    needed = [key for key in needed if key not in texts]
    if len(positional) != len(needed):
        raise InputError(f"transition: expected {family.usage(name)!r}, got {given!r}")
    texts |= dict(zip(needed, positional, strict=True))
    kinds = dict(family.parameters + family.options)
    for key in texts:
        if key not in kinds:
            raise InputError(f"transition: expected {family.usage(name)!r}, got the unknown parameter {key!r}")
    values = {key: _number(text, kinds[key], key, name) for key, text in texts.items()}
    _check_size(values.get("K"))
    try:
        return family.make(**values)
    except InputError as error:  # of a parameter, which stands in the text
        if error.argument not in values:
            raise
        advice = "" if error.advice is None else f"; {error.advice}"
        raise InputError(
            f"transition: expected {error.expected} for {error.argument} of {name!r}, got {error.got}{advice}"
        ) from None


def _check_size(classes: Any) -> None:
    """Refuse too many classes before anything of that size is allocated."""
    if isinstance(classes, int) and classes > MOST_CLASSES:
        count = f"{classes:,}" if classes < 10**15 else count_text(classes)
        size = f"{classes * 8 / 2**30:,.1f} GiB" if classes < 10**15 else "more than any machine has"
        raise InputError(
            f"transition: expected at most {MOST_CLASSES:,} classes, got {count}: one number for each of them takes "
            f"{size}"
        )


def _number(text: str, kind: Callable[[str], Any], key: str, name: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        if kind is groups:
            raise InputError(
                f"transition: expected groups of class indices such as '{name}:0+1|2+3', got '{name}:{text}'"
            ) from None
        what = "an integer" if kind is int else "numbers such as 0.5+0.1" if kind is rates else "a number"
        raise InputError(f"transition: expected {what} for {key} of {name!r}, got {text!r}") from None


def read_matrix(path: str | Path) -> Transition:
    """A transition from a .csv, .npy or .json file, named after the file."""
    path = Path(path)
    kind = path.suffix.lower()
    names = classes = None
    try:
        if kind != ".npy" and path.is_file():  # a pipe can be read once
            with path.open("rb") as file:
                head = file.read(4)
            if not head.strip():
                raise InputError("expected numbers, got an empty file")
            encoding = other_encoding(head)
            if encoding is not None:
                raise InputError(f"expected text in UTF-8, got {encoding}; save the file as UTF-8")
        if kind == ".npy":
            matrix = _read_npy(path)
        elif kind == ".csv":
            matrix = np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")
        else:
            content = read_json(path)
            if isinstance(content, list):
                content = {"matrix": content}
            if isinstance(content, Mapping) and "family" in content:  # as `tproper estimate` writes it
                return _of_table(transition_from_dict(content))
            if not isinstance(content, Mapping) or "matrix" not in content:
                raise InputError('expected a list of rows, or an object with the key "matrix"')
            matrix, names = content["matrix"], _labels_from_plain(content.get("weak_labels"))
            classes = _labels_from_plain(content.get("classes"))
        transition = Transition(matrix, weak_labels=names).named(classes)
    except OSError as error:
        raise InputError(
            f"transition: expected a file that can be read, got {str(path)!r}: {error.strerror or error}"
        ) from None
    except (ValueError, TypeError, OverflowError, RecursionError) as error:  # JSON's and numpy's complaints, too
        raise InputError(f"transition: expected a transition matrix, got {str(path)!r}: {error}") from None
    transition.name = f"matrix {path.name}"
    return transition


def _of_table(transition: Transition) -> Transition:
    """Class names of a table that are whole numbers in text are numbers there."""
    names = transition.classes
    if names is None or not all(isinstance(n, str) and n.lstrip("-").isdecimal() for n in names):
        return transition
    numbers = [int(n) for n in names]
    return transition.named(numbers) if [str(n) for n in numbers] == names else transition


def _read_npy(path: Path) -> Any:
    """The array, whose size is compared with the file's and the limit before anything is allocated."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (SyntaxError, TokenError, EOFError, OverflowError) as error:  # what numpy raises for an invalid header
        raise InputError(f"its header cannot be read: {' '.join(str(error).split())}") from None
    if array.size > MOST_ENTRIES:
        raise InputError(
            f"expected at most {MOST_ENTRIES:,} entries, got shape {array.shape}: that takes "
            f"{array.size * 8 / 2**30:,.1f} GiB"
        )
    return np.array(array)


def make_transition(value: TransitionLike, num_classes: int | None = None) -> Transition:
    """A `Transition` from whatever a user may write: an object, a text, (name, parameters), a dict, or a matrix.

    ``("symmetric", {"p": 0.2})`` and ``("symmetric", 0.2)`` and ``{"name": "symmetric", "p": 0.2}`` are the same;
    a dict made by `transition_to_dict` (it has the key "family") is accepted too.
    """
    if isinstance(value, Transition):
        return _of_size(value, num_classes)
    if isinstance(value, str):
        return parse_transition(value, num_classes)
    if isinstance(value, Mapping):
        if "family" in value:
            return _of_size(transition_from_dict(value), num_classes)
        if "name" not in value:
            keys = sorted(map(str, value))
            raise InputError(f"transition: expected a dict with the key 'name' or 'family', got keys {keys}")
        return _from_name(value["name"], {k: v for k, v in value.items() if k != "name"}, num_classes)
    if isinstance(value, tuple) and len(value) >= 1 and isinstance(value[0], str):
        name, *rest = value
        if len(rest) == 1 and isinstance(rest[0], Mapping):
            return _from_name(name, dict(rest[0]), num_classes)
        return parse_transition(name + (":" + ",".join(map(str, rest)) if rest else ""), num_classes)
    return _of_size(Transition(value), num_classes)


@read_transition.register(str)
@read_transition.register(Mapping)
def _(value: str | Mapping[str, Any], num_classes: int | None = None) -> Transition:
    return make_transition(value, num_classes)


def _from_name(name: Any, parameters: dict[str, Any], num_classes: int | None) -> Transition:
    key = name.strip().lower() if isinstance(name, str) else ""
    key = ALIASES.get(key, key)
    if (family := plugins.find(FAMILIES, key)) is not None:
        make = family.make
        if family.takes_classes and "K" not in parameters:
            if num_classes is None:
                raise UnknownSizeError(f"transition: expected the parameter K, the number of classes, of {name!r}")
            parameters = {"K": num_classes, **parameters}
    else:
        raise InputError(f"transition: expected one of {', '.join(sorted(FAMILIES))}, got {name!r}")
    try:
        return _of_size(make(**parameters), num_classes)
    except TypeError as error:
        raise InputError(f"transition: wrong parameters for {name!r}: {error}") from None


BY_PARAMETERS = (NamedTransition, NoisySetTransition, QuestionTransition)


def _kind_of(T: NamedTransition | NoisySetTransition | QuestionTransition) -> str:
    """The kind that a T of parameters is."""
    if isinstance(T, NamedTransition):
        return ALIASES.get(T.kind, T.kind)
    return "noisy_partial" if isinstance(T, NoisySetTransition) else "yes_no"


# Plain data. A subclass is written as itself or not at all: as its parent it would come back as another T.
WRITTEN = (
    DenseTransition, EstimatedTransition, UniformTransition, CandidateSetTransition, IndependentSets, FixedSizeSets,
    EstimatedPartialLabels, StackedTransition, AnnotatorTransition, families.BagTransition, *BY_PARAMETERS,
)  # fmt: skip


def transition_to_dict(transition: Transition) -> dict[str, Any]:
    """JSON-ready, exact: `transition_from_dict` gives the same T back, bit for bit."""
    T, K = transition, transition.num_classes
    if type(T) not in WRITTEN:
        raise InputError(
            f"transition: expected one of tproper's own, got a {type(T).__name__}, which is code that no file holds; "
            "save tp.Transition(T.matrix()), or register_family and save the text that makes it"
        )
    out: dict[str, Any] = {"name": T.name, "label_kind": T.label_kind}
    if T.classes is not None:
        out["classes"] = [_label_to_plain(name) for name in T.classes]
    if T.prior is not None and not isinstance(T, families.BagTransition):
        out["population"] = T.prior.tolist()
    if isinstance(T, BY_PARAMETERS):
        return out | {"family": "kind", "kind": _kind_of(T), "parameters": dict(T.parameters)}
    if isinstance(T, UniformTransition):
        return out | {"family": "uniform", "num_classes": K, "diagonal": float(T.diagonal)}
    if isinstance(T, EstimatedPartialLabels):
        out |= {"family": "estimated_partial", "num_classes": K, "a": T.a, "b": T.b, "notes": list(T.notes)}
        return out | {"flip_rates": _listed(T.flip_rates), "tests": [[t.name, t.p_value] for t in T.tests]}
    if isinstance(T, IndependentSets):
        return out | {"family": "partial", "num_classes": K, "p": float(T.p)}
    if isinstance(T, FixedSizeSets):
        return out | {"family": "multi_complementary", "num_classes": K, "m": int(K - T.set_sizes()[0])}
    if isinstance(T, CandidateSetTransition):  # -inf is not JSON: null is log 0
        weights = [float(w) if np.isfinite(w) else None for w in T.log_weight]
        return out | {"family": "candidate_sets", "log_weight": weights, "num_weak_labels": int(T.num_weak_labels)}
    if isinstance(T, StackedTransition):
        sources = [transition_to_dict(t) for t in T.sources]
        return out | {"family": "multi_source", "sources": sources, "weights": _listed(T.weights)}
    if isinstance(T, AnnotatorTransition):
        parts = [transition_to_dict(t) for t in T.transitions]
        known = {"rho": T.rho, "unidentified": T.unidentified, "silence": T.silence.tolist()}
        return out | {"family": "annotators", "annotators": parts} | known
    out |= {"family": "matrix", "matrix": T.matrix().tolist()}
    if isinstance(T, families.BagTransition):
        return out | {"family": "unlabeled_sets", "pooled": _listed(T.pooled), "prior": _listed(T.prior)}
    out["weak_labels"] = None if T._weak_labels is None else [_label_to_plain(n) for n in T._weak_labels]
    if isinstance(T, EstimatedTransition):
        out |= {"family": "estimated", "notes": list(T.notes)}
        out |= {name: _listed(getattr(T, name)) for name in ("concentration", "draws", "counts")}
    return out


def _listed(array: FloatArray | None) -> Any:
    return None if array is None else array.tolist()


def transition_from_dict(data: Mapping[str, Any]) -> Transition:
    """The inverse of `transition_to_dict`."""
    family = data.get("family") if isinstance(data, Mapping) else None
    try:
        transition = _from_dict(str(family), data)
        if data.get("population") is not None:
            transition = transition.with_prior(data["population"])
        transition.name = str(data["name"])
        if data.get("classes") is not None:
            transition = transition.named(_labels_from_plain(data["classes"]))
        if data.get("label_kind", transition.label_kind) != transition.label_kind:
            transition.label_kind = data["label_kind"]
    except KeyError as error:
        raise InputError(f"transition: expected the key {error} for the family {family!r}, got none") from None
    except (TypeError, OverflowError, AttributeError, IndexError) as error:
        raise InputError(f"transition: malformed description of the family {family!r}: {error}") from None
    return transition


def _silence(given: Any, T: AnnotatorTransition) -> list[int] | None:
    """The answers that silence stands for, checked."""
    if given is None:
        return None
    if len(given) != len(T.sizes) or any(not -1 <= row < size for row, size in zip(given, T.sizes, strict=True)):
        raise InputError(f"silence: expected an answer of each of {len(T.sizes)} annotators, or -1, got {given!r}")
    return [checks.integer(row, "silence", -1) for row in given]


def _from_dict(family: str, data: Mapping[str, Any]) -> Transition:
    _check_size(data.get("num_classes"))
    if family == "uniform":
        K, d = checks.integer(data["num_classes"], "K", 2), checks.real(data["diagonal"], "diagonal", 0, 1)
        return UniformTransition(K, d, str(data["name"]))
    if family == "kind":
        return made_by_name(str(data["kind"]), data["parameters"])
    if family == "partial":
        return families.partial_labels(data["num_classes"], data["p"])
    if family == "estimated_partial":
        rates = None if data["flip_rates"] is None else np.array(data["flip_rates"])
        tests = [FamilyTest(name, p) for name, p in data["tests"]]
        a, b, notes = data["a"], data["b"], data["notes"]
        return EstimatedPartialLabels(data["num_classes"], a, b, notes=notes, flip_rates=rates, tests=tests)
    if family == "multi_complementary":
        return families.multi_complementary(data["num_classes"], data["m"])
    if family == "candidate_sets":
        weights = np.array([-np.inf if w is None else float(w) for w in data["log_weight"]])
        return CandidateSetTransition(weights, str(data["name"]), int(data["num_weak_labels"]))
    if family == "multi_source":
        return families.multi_source([transition_from_dict(s) for s in data["sources"]], data["weights"])
    if family == "annotators":
        T = annotators([transition_from_dict(t) for t in data["annotators"]], data.get("rho", 0.0))
        silence = _silence(data.get("silence"), T)
        return AnnotatorTransition(T.transitions, T.rho, str(data.get("unidentified", "")), silence)
    if family == "unlabeled_sets":
        return families.BagTransition(data["matrix"], data["pooled"], data["prior"])
    if family == "matrix":
        return Transition(data["matrix"], _labels_from_plain(data["weak_labels"]))
    if family == "estimated":
        names = _labels_from_plain(data["weak_labels"])
        given = {k: data[k] for k in ("draws", "concentration", "notes")} | {"counts": data.get("counts")}
        return EstimatedTransition(data["matrix"], weak_labels=names, **given)
    raise InputError(f"transition: expected a known family, got {family!r}")


def _labels_from_plain(names: Sequence[Any] | None) -> list[Any] | None:
    return None if names is None else [_label_from_plain(n) for n in names]


def _label_to_plain(label: Any) -> Any:
    """Names of weak labels: strings and numbers as they are, sets and tuples tagged."""
    if isinstance(label, (set, frozenset)):
        return {"set": sorted(_label_to_plain(z) for z in label)}
    if isinstance(label, tuple):
        return {"tuple": [_label_to_plain(z) for z in label]}
    if isinstance(label, np.generic):
        label = label.item()
    if label is None or isinstance(label, (str, int, float, bool)):
        return label
    raise InputError(f"weak_labels: expected names that are text, numbers, sets or tuples, got {label!r}")


def _label_from_plain(plain: Any) -> Any:
    if isinstance(plain, Mapping):
        if set(plain) == {"set"}:
            return frozenset(_label_from_plain(z) for z in plain["set"])
        if set(plain) == {"tuple"}:
            return tuple(_label_from_plain(z) for z in plain["tuple"])
        raise InputError(f"weak_labels: expected 'set' or 'tuple', got the keys {sorted(plain)}")
    return frozenset(plain) if isinstance(plain, list) else plain
