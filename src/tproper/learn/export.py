"""Fitted classifiers as ONNX: one graph from the columns of a table, or from features, to class probabilities.

The graph does what `predict_proba` does, calibration and encoding of columns included, without Python: any runtime of
ONNX runs it. What the library refuses (a gap in a column whose median nobody kept) a graph cannot; there it gives NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn

from .._core import atomic_file, write_file
from ..errors import InputError
from ..inputs import Inputs
from ..solvers import boosting
from . import fitting
from .classifier import WeakLabelClassifier

OPSET, ML_OPSET = 17, 3
INPUT, PROBABILITIES, CLASS = "features", "probabilities", "class"


def export_onnx(estimator: WeakLabelClassifier, path: str | Path) -> Path:
    """Write a fitted linear model or network as an ONNX file, with its calibration, and its columns where it has some.

    A model of features has the input ``features`` (n, d); a model of a table one input (n, 1) for each column, by its
    name: numbers (NaN is a gap), and texts for categories ("" is a gap). Outputs are ``probabilities`` (n, K), in the
    order of `classes_`, and ``class`` (n,). Probabilities are those of `predict_proba` to 1e-5. Needs the extra
    ``tproper[export]``.

    Parameters
    ----------
    estimator : WeakLabelClassifier
        Fitted: "linear" or "mlp".
    path : str or Path
        The file.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        For models that are code (a callable), for columns of free text and dates, and where probabilities are not a
        softmax of scores (a loss with another link, ``calibrate=False``).

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    >>> path = tp.export_onnx(tp.WeakLabelClassifier().fit(X, y), "model.onnx")
    >>> path.is_file()
    True
    """
    if not isinstance(estimator, WeakLabelClassifier):
        raise InputError(f"estimator: expected a WeakLabelClassifier, got {type(estimator).__name__}")
    check_is_fitted(estimator, "module_")
    if isinstance(estimator.module_, boosting.Trees):
        raise InputError(
            "estimator: expected model 'linear' or 'mlp', got 'boosting', whose trees are exported in LightGBM's own "
            "format (tproper export model --out trees.txt), as they stand in the folder of a saved model"
        )
    if estimator.model not in ("linear", "mlp"):
        raise InputError(f"estimator: expected model 'linear' or 'mlp', got {estimator.model!r}, which no graph holds")
    if estimator.transition_.trained_shares is not None:
        raise InputError("estimator: expected a model of single rows, got one of bags with a population of their own")
    K = len(estimator.classes_)
    probe = np.linspace(-1.0, 1.0, 4 * K).reshape(4, K)
    if estimator._changes() is None and not fitting.is_softmax(estimator.loss_, probe):
        raise InputError(
            "estimator: expected probabilities that are a softmax of scores, got a loss with another link; fit it with "
            "calibrate='auto', which replaces the link"
        )
    helper, dtype = _onnx().helper, np.float64 if estimator.model == "linear" else np.float32
    graph = _Graph(dtype)
    inputs: Inputs | None = getattr(estimator, "inputs_", None)
    X = graph.features(int(estimator.n_features_in_)) if inputs is None else graph.columns(inputs)
    scores = _scores(graph, estimator.module_, X)
    p = graph.node("Softmax", [_calibrated(graph, estimator, scores)], axis=1, name=PROBABILITIES)
    graph.outputs.append((p, graph.kind, ["n", K]))
    best = graph.node("ArgMax", [p], axis=1, keepdims=0)
    _names(graph, best, estimator.classes_)
    made = helper.make_graph(
        graph.nodes,
        "tproper",
        [helper.make_tensor_value_info(*entry) for entry in graph.inputs],
        [helper.make_tensor_value_info(*entry) for entry in graph.outputs],
        graph.constants,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    model = helper.make_model(made, producer_name="tproper", opset_imports=opsets, ir_version=8)
    _onnx().checker.check_model(model)
    out = Path(path)
    with atomic_file(out) as temporary:
        temporary.write_bytes(model.SerializeToString())
    return out


def export_trees(estimator: WeakLabelClassifier, path: str | Path) -> Path:
    """Write boosted trees as LightGBM's text: encoded features to raw scores, before the calibration.

    Parameters
    ----------
    estimator : WeakLabelClassifier
        Fitted, with ``model="boosting"``.
    path : str or Path
        The file.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> X, y = np.arange(60.0)[:, None], np.arange(60) // 30
    >>> trees = tp.WeakLabelClassifier(model="boosting", max_iter=2, early_stopping=False).fit(X, y)
    >>> path = tp.export_trees(trees, "model.txt")
    >>> path.is_file()
    True
    """
    check_is_fitted(estimator, "module_")
    if not isinstance(estimator.module_, boosting.Trees):
        raise InputError(f"estimator: expected model 'boosting', got {estimator.model!r}; see export_onnx")
    write_file(path, estimator.module_.text.encode())
    return Path(path)


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise ModuleNotFoundError("models are exported with onnx: pip install 'tproper[export]'") from error
    return onnx


class _Graph:
    """Nodes, constants, inputs and outputs of a graph that is being made."""

    def __init__(self, dtype: Any) -> None:
        onnx = _onnx()
        self.dtype = dtype
        self.kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.double, self.text = onnx.TensorProto.DOUBLE, onnx.TensorProto.STRING
        self.whole = onnx.TensorProto.INT64
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[tuple[str, int, list[Any]]] = []
        self.outputs: list[tuple[str, int, list[Any]]] = []

    def node(self, kind: str, given: Sequence[str], name: str = "", domain: str = "", **settings: Any) -> str:
        """Add one; the name of its output."""
        out = name or f"_{kind.lower()}{len(self.nodes)}"
        self.nodes.append(_onnx().helper.make_node(kind, list(given), [out], domain=domain, **settings))
        return out

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Numbers that the graph holds."""
        name = f"_constant{len(self.constants)}"
        array = np.asarray(values, dtype=self.dtype if dtype is None else dtype)
        self.constants.append(_onnx().numpy_helper.from_array(array, name))
        return name

    def features(self, d: int) -> str:
        """The features as they are."""
        self.inputs.append((INPUT, self.double, ["n", d]))
        return self.cast(INPUT)

    def cast(self, name: str) -> str:
        """Numbers of the model's kind."""
        return self.node("Cast", [name], to=self.kind)

    def columns(self, inputs: Inputs) -> str:
        """A table's columns, encoded."""
        strange = [name for name, kind in inputs.kinds.items() if kind in ("text", "date")]
        if strange:
            raise InputError(
                f"estimator: expected columns of numbers and categories, got {strange[0]!r}, a "
                f"column of {inputs.kinds[strange[0]]}s; use tproper.load, or train without that column (--ignore)"
            )
        numbers, parts = inputs.numbers, []
        for name in numbers.names:
            self.inputs.append((name, self.double, ["n", 1]))
        if numbers.names:
            X = self.node("Concat", numbers.names, axis=1)
            gappy = numbers.gappy
            if not np.isnan(numbers.stand_in).all():
                missing = self.node("IsNaN", [X])
                X = self.node("Where", [missing, self.constant(numbers.stand_in, np.float64), X])
            centre, scale = (self.constant(v, np.float64) for v in (numbers.centre, numbers.scale))
            parts.append(self.cast(self.node("Div", [self.node("Sub", [X, centre]), scale])))
            if gappy.any():
                places = self.constant(np.flatnonzero(gappy), np.int64)
                parts.append(self.cast(self.node("Gather", [missing, places], axis=1)))
        for part in inputs.parts:
            parts.append(self.category(part))
        return self.node("Concat", parts, axis=1)

    def category(self, part: Any) -> str:
        """One column for each level; zeros for a value that has none."""
        self.inputs.append((part.name, self.text, ["n", 1]))
        levels, width = list(part.levels), part.width
        other = width - 1 if part.rare else width  # one beyond: no column
        keys = [*levels, ""]
        places = [*range(len(levels)), len(levels) if part.gaps else other]
        row = self.node(
            "LabelEncoder",
            [part.name],
            domain="ai.onnx.ml",
            keys_strings=keys,
            values_int64s=places,
            default_int64=other,
        )
        flat = self.node("Reshape", [row, self.constant([-1], np.int64)])
        hot = self.node(
            "OneHot", [flat, self.constant([width + 1], np.int64), self.constant([0.0, 1.0], np.float32)], axis=1
        )
        return self.cast(self.node("Slice", [hot, *(self.constant([i], np.int64) for i in (0, width, 1))]))


def _scores(graph: _Graph, module: nn.Module, X: str) -> str:
    """Scores of the features."""
    layers = [module] if isinstance(module, nn.Linear) else list(module)  # type: ignore[call-overload]
    for layer in layers:
        if isinstance(layer, nn.Linear):
            weight, bias = (t.detach().cpu().numpy() for t in (layer.weight, layer.bias))
            X = graph.node("Add", [graph.node("MatMul", [X, graph.constant(weight.T)]), graph.constant(bias)])
        else:
            assert isinstance(layer, nn.ReLU)
            X = graph.node("Relu", [X])
    return X


def _calibrated(graph: _Graph, estimator: WeakLabelClassifier, scores: str) -> str:
    """What the softmax is taken of."""
    calibrator = estimator._changes()
    if calibrator is None:
        return scores
    mean = graph.node("ReduceMean", [scores], axes=[1], keepdims=1)
    centred = graph.node("Sub", [scores, mean])
    if calibrator.scale.ndim == 2:
        scaled = graph.node("MatMul", [centred, graph.constant(calibrator.scale.T)])
    else:
        scaled = graph.node("Mul", [centred, graph.constant(calibrator.scale)])
    return graph.node("Add", [scaled, graph.constant(calibrator.bias)])


def _names(graph: _Graph, best: str, classes: NDArray[Any]) -> None:
    """The likeliest class by its name: numbers as whole numbers, all else as text."""
    if classes.dtype.kind in "iu":
        table = graph.constant([int(c) for c in classes], np.int64)
        graph.outputs.append((graph.node("Gather", [table, best], CLASS), graph.whole, ["n"]))
        return
    places, names = list(range(len(classes))), [str(c) for c in classes]
    named = {"keys_int64s": places, "values_strings": names, "default_string": ""}
    graph.outputs.append((graph.node("LabelEncoder", [best], CLASS, "ai.onnx.ml", **named), graph.text, ["n"]))
