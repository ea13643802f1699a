"""`tproper export`: a model as an ONNX file, or its trees as LightGBM's text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..learn import export_onnx, export_trees, load
from .errors import check_new, say
from .options import Force, Json, Model, echo_json


def export(
    model: Model,
    out: Annotated[Path, typer.Option(help=".onnx file to write; .txt of boosted trees")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a model as ONNX, for programs without Python: the same columns in, the same probabilities out.

    Boosted trees are written in LightGBM's own format, which gives raw scores of encoded features.
    """
    check_new(out, "--out", force)
    estimator = load(model)
    if estimator.model == "boosting":
        export_trees(estimator, out)
        width = estimator.module_.booster.num_feature()  # type: ignore[union-attr, operator]
        if as_json:
            echo_json({"out": str(out), "features": width, "rounds": estimator.n_iter_})
        else:
            say(f"written to {out}: LightGBM's text, {width} encoded features to raw scores, before the calibration")
        return
    export_onnx(estimator, out)
    inputs = getattr(estimator, "inputs_", None)
    columns = ["features"] if inputs is None else inputs.names
    if as_json:
        echo_json({"out": str(out), "inputs": columns, "classes": [str(c) for c in estimator.classes_]})
    else:
        say(f"written to {out}: {len(columns)} inputs, outputs probabilities and class")
