"""`tproper export`: a model as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..learn import export_onnx, load
from .errors import check_new, say
from .options import Force, Json, Model, echo_json


def export(
    model: Model,
    out: Annotated[Path, typer.Option(help=".onnx file to write")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a model as ONNX, for programs without Python: the same columns in, the same probabilities out."""
    check_new(out, "--out", force)
    estimator = load(model)
    export_onnx(estimator, out)
    inputs = getattr(estimator, "inputs_", None)
    columns = ["features"] if inputs is None else inputs.names
    if as_json:
        echo_json({"out": str(out), "inputs": columns, "classes": [str(c) for c in estimator.classes_]})
    else:
        say(f"written to {out}: {len(columns)} inputs, outputs probabilities and class")
