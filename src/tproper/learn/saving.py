"""Saved models: a folder with ``model.safetensors`` (the weights) and ``model.json`` (everything else).

Boosted trees have a third file, ``model.lightgbm.txt``, in LightGBM's own format, which its other programs read too.
Nothing is executed on load: no pickles, no class names to import. The JSON holds the SHA-256 of the others and of
itself, so a file that was cut, edited, or swapped for another is refused with the reason. A folder is written beside
its place and renamed into it, so there is never half a model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from .. import __version__
from .._core import FloatArray, as_read, atomic_folder, checks, json_hash, json_text, read_json
from ..errors import InputError
from ..inputs import Inputs
from ..losses import loss_from_dict, loss_to_dict
from ..potentials import Squeezed
from ..solvers import boosting
from ..transitions import transition_from_dict, transition_to_dict
from .calibrator import Calibrator
from .classifier import WeakLabelClassifier
from .modules import mlp_module

FORMAT = "tproper model"
FORMAT_VERSION = 1
OF_TREES = 4  # of boosted trees, which have a third file
LOOKS = 100  # at a model that is replaced all the time
OF_COLUMNS = 3  # of models that take columns of text, or numbers with gaps
OF_TABLES = 2  # the version of models that take columns of a table, whose scale older versions would pass over
TENSORS, DESCRIPTION, TREES = "model.safetensors", "model.json", "model.lightgbm.txt"
#: All that a model's folder may hold (`tproper train` adds three files); one with other files is not replaced.
FILES = {TENSORS, DESCRIPTION, TREES, "model_card.md", "model_card.html", "reliability.png"}


class ModelFileError(InputError):
    """The folder is not a model this version can load; the message says why.

    Examples
    --------
    >>> import tproper as tp
    >>> try:
    ...     tp.load("no such folder")
    ... except tp.ModelFileError:
    ...     print("no model")
    no model
    """


def save(estimator: WeakLabelClassifier, path: str | Path, extra: Mapping[str, Any] | None = None) -> Path:
    """Write a fitted classifier to a folder. An existing model there is replaced, anything else is not.

    A model given as a callable is code, which no file holds: save its ``module_.state_dict()`` with torch instead.

    Parameters
    ----------
    estimator : WeakLabelClassifier
        Fitted.
    path : str or Path
        The folder.
    extra : dict, optional
        Kept under the key "extra", for notes such as a model card; ready for JSON.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ModelFileError
        `path` holds something other than a model.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> X, y = np.arange(20.0)[:, None], np.arange(20) // 10
    >>> folder = tp.save(tp.WeakLabelClassifier("symmetric:0.1").fit(X, y), "saved")
    >>> folder.is_dir()
    True
    """
    if isinstance(estimator, Pipeline):
        raise InputError(
            "estimator: expected a WeakLabelClassifier, got a Pipeline, whose other steps are code that no file here "
            "holds; save its last step, pipeline[-1], and the steps before it, pipeline[:-1], with skops or joblib"
        )
    if not isinstance(estimator, WeakLabelClassifier):
        hint = "; save its best_estimator_" if hasattr(estimator, "best_estimator_") else ""
        raise InputError(f"estimator: expected a WeakLabelClassifier, got {type(estimator).__name__}{hint}")
    check_is_fitted(estimator, "module_")
    if callable(estimator.model):
        raise InputError(
            "model: expected 'linear', 'mlp' or 'boosting', got a callable, which is code and cannot be saved; "
            "save module_.state_dict() with torch instead"
        )
    path = Path(path)
    reason = not_replaceable(path)
    if reason is not None:
        raise ModelFileError(f"path: expected a new folder or an older model, got {str(path)!r}, {reason}")
    with atomic_folder(path, replaceable=not_replaceable) as folder:
        write_model(estimator, folder, extra)
    return path


def write_model(estimator: WeakLabelClassifier, folder: Path, extra: Mapping[str, Any] | None = None) -> None:
    """A fitted classifier's files, into a folder that is being made."""
    tensors = {k: v.detach().cpu().contiguous() for k, v in estimator.module_.state_dict().items()}
    blob = tensors_to_bytes(tensors)
    trees = b""
    if isinstance(estimator.module_, boosting.Trees):
        trees = estimator.module_.text.encode()
        (folder / TREES).write_bytes(trees)
    description = _describe(estimator, blob, trees, dict(extra or {}))
    (folder / TENSORS).write_bytes(blob)
    (folder / DESCRIPTION).write_text(json_text(description, indent=2) + "\n", encoding="utf-8")


def not_replaceable(path: Path) -> str | None:
    """Why a model may not be written at `path`; None if there is nothing, an empty folder, or a model and no more."""
    if not path.exists() and not path.is_symlink():
        return None
    if not path.is_dir():
        return "which is not a folder"
    entries = {entry.name for entry in path.iterdir()}
    if not entries:
        return None
    try:
        description = read_json(path / DESCRIPTION)
    except (OSError, ValueError, RecursionError):
        description = None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        return "which is neither"
    foreign = sorted(entries - FILES)
    return f"which also holds {foreign[0]!r}: move it away first" if foreign else None


def load(path: str | Path) -> WeakLabelClassifier:
    """The classifier saved in a folder: the same probabilities, bit for bit.

    Parameters
    ----------
    path : str or Path
        The folder that `save` wrote.

    Returns
    -------
    WeakLabelClassifier
        Fitted.

    Raises
    ------
    ModelFileError
        The folder holds no model, a damaged or edited one, or one of another version.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> X, y = np.arange(20.0)[:, None], np.arange(20) // 10
    >>> clf = tp.WeakLabelClassifier("symmetric:0.1").fit(X, y)
    >>> again = tp.load(tp.save(clf, "saved"))
    >>> bool((again.predict_proba(X) == clf.predict_proba(X)).all())
    True
    """
    description, blob, trees = read(path)
    try:
        return _rebuild(description, blob, trees)
    except ModelFileError:
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError, SafetensorError) as error:
        raise ModelFileError(f"{str(path)!r}: the model's description is not consistent: {error}") from error


def read(path: str | Path) -> tuple[dict[str, Any], bytes, bytes]:
    """The checked description and the bytes of the tensors and of the trees, without building a model."""
    path = Path(path)
    for _ in range(LOOKS):
        before = _which(path)
        try:
            text, blob, trees = _files(path)
        except ModelFileError:
            if _which(path) != before:
                continue
            raise
        if _which(path) == before:
            break  # else it was replaced between the files, which are of two models
    try:
        description = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{str(path / DESCRIPTION)!r}: not valid JSON (was it cut?): {error}") from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ModelFileError(f"{str(path / DESCRIPTION)!r}: not the description of a tproper model")
    version = description.get("format_version")
    if version not in (FORMAT_VERSION, OF_TABLES, OF_COLUMNS, OF_TREES):
        raise ModelFileError(
            f"{str(path)!r}: format version {version!r}, this version of tproper reads {FORMAT_VERSION} to "
            f"{OF_TREES}; load it with the version that wrote it"
        )
    if description.get("sha256") != _own_hash(description):
        raise ModelFileError(f"{str(path / DESCRIPTION)!r}: edited after it was saved (its checksum does not match)")
    parts = [("tensors", TENSORS, blob)] + ([("trees", TREES, trees)] if version == OF_TREES else [])
    for kind, name, content in parts:
        if description.get(f"{kind}_sha256") != hashlib.sha256(content).hexdigest():
            raise ModelFileError(
                f"{str(path / name)!r}: cut or changed after it was saved: {len(content)} bytes, "
                f"expected {description.get(f'{kind}_bytes')} with another checksum"
            )
    return description, blob, trees


def _which(path: Path) -> tuple[int, int] | None:
    """Which folder has this name now; None while there is none."""
    try:
        now = path.stat()
    except OSError:
        return None
    return now.st_dev, now.st_ino


def _files(path: Path) -> tuple[bytes, bytes, bytes]:
    """The bytes of a model's files; none of trees where it has none."""
    if not path.is_dir():
        kind = "a file" if path.exists() else "nothing"
        raise ModelFileError(f"path: expected the folder of a saved model, got {kind} at {str(path)!r}")
    for name in (DESCRIPTION, TENSORS):
        if not (path / name).is_file():
            raise ModelFileError(f"{str(path)!r}: expected a file {name} in the folder of a saved model, got none")
    try:
        trees = (path / TREES).read_bytes() if (path / TREES).is_file() else b""
        return (path / DESCRIPTION).read_bytes(), (path / TENSORS).read_bytes(), trees
    except OSError as error:
        raise ModelFileError(f"{str(path)!r}: cannot be read: {error.strerror or error}") from None


def _describe(estimator: WeakLabelClassifier, blob: bytes, trees: bytes, extra: dict[str, Any]) -> dict[str, Any]:
    names = getattr(estimator, "feature_names_in_", None)
    inputs: Inputs | None = getattr(estimator, "inputs_", None)
    risks = getattr(estimator, "history_", [])
    description: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION if inputs is None else OF_TABLES if inputs.simple else OF_COLUMNS,
        "tproper": __version__,
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "classes": _names_to_plain(estimator.classes_),
        "transition": transition_to_dict(estimator.transition_),
        "loss": loss_to_dict(estimator.loss_),
        "architecture": {
            "model": estimator.model,
            "n_features": int(estimator.n_features_in_) if inputs is None else inputs.width,
            "hidden": _widths(estimator) if estimator.model == "mlp" else [],
        },
        "feature_names": None if names is None else [str(n) for n in names],
        "inputs": None if inputs is None else inputs.to_dict(),
        "settings": _plain_settings(estimator),
        "training": {
            "n_iter": int(estimator.n_iter_),
            "class_prior": _listed(getattr(estimator, "class_prior_", None)),
            "last": {k: float(v) for k, v in risks[-1].items()} if risks else {},
            "best_params": _plain_items(estimator.best_params_) if hasattr(estimator, "best_params_") else None,
        },
        "calibrator": None if estimator.calibrator_ is None else estimator.calibrator_.to_dict(),
        "extra": extra,
        "tensors_bytes": len(blob),
        "tensors_sha256": hashlib.sha256(blob).hexdigest(),
    }
    if trees:
        of_trees = {"trees_bytes": len(trees), "trees_sha256": hashlib.sha256(trees).hexdigest()}
        description |= of_trees | {"format_version": OF_TREES}
    description = as_read(description)  # a tuple is hashed as the list it comes back as
    return description | {"sha256": _own_hash(description)}


def _listed(shares: FloatArray | None) -> list[float] | None:
    return None if shares is None else shares.tolist()


def _own_hash(description: Mapping[str, Any]) -> str:
    content = {k: v for k, v in description.items() if k != "sha256"}
    return json_hash(content)


def _rebuild(description: Mapping[str, Any], blob: bytes, trees: bytes) -> WeakLabelClassifier:
    architecture = description["architecture"]
    settings: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) and k in ("hidden", "squeeze") else v
        for k, v in description["settings"].items()
    }
    names = _names_from_plain(description["classes"])
    expected = description["transition"].get("num_classes", len(names))
    if expected != len(names):  # before a T of that size is made
        raise ModelFileError(f"classes: expected {expected}, as the transition has, got {len(names)}")
    transition = transition_from_dict(description["transition"])
    own = transition.labels.class_names
    if transition.classes is None and len(names) == len(own) and names.tolist() != own:
        transition = transition.named(names)  # models of older versions keep the names here alone
    estimator = WeakLabelClassifier(**settings)
    estimator.set_params(transition=transition)
    loss = loss_from_dict(description["loss"], transition)
    fitted: dict[str, Any] = {"transition": transition, "classes": names, "loss": loss}
    if "loss" not in settings:
        estimator.set_params(loss=loss)
    else:  # what was given as an object is the fitted loss's own
        for name in ("potential", "reconstruction"):
            if name not in settings and hasattr(loss, name):
                setting = getattr(loss, name)
                apart = name == "potential" and settings.get("squeeze") is not None  # squeezed again by the next fit
                estimator.set_params(**{name: setting.base if apart and isinstance(setting, Squeezed) else setting})
    fitted["n_features_in"] = int(architecture["n_features"])
    if description["feature_names"] is not None:
        fitted["feature_names_in"] = np.asarray(description["feature_names"], dtype=object)
    K = transition.num_classes
    if len(names) != K:
        raise ModelFileError(f"classes: expected {K}, as the transition has, got {len(names)}")
    if architecture["model"] == "boosting":
        fitted["module"] = _trees(architecture, K, trees)
    else:
        fitted["module"] = _module(architecture, K, tensors_from_bytes(blob))
    kept = description.get("calibrator")  # models of older versions have none
    fitted["calibrator"] = calibrator = None if kept is None else Calibrator.from_dict(kept)
    if calibrator is not None and calibrator.num_classes != K:
        raise ModelFileError(f"calibrator: expected {K} classes, as the transition has, got another number")
    n_iter = fitted["n_iter"] = int(description["training"]["n_iter"])
    fitted["history"] = [{"call": n_iter, **description["training"]["last"]}]
    shares = description["training"].get("class_prior")  # models of older versions have none
    fitted["class_prior"] = None if shares is None else checks.probability_vector(shares, "class_prior", K)
    if description["training"]["best_params"] is not None:
        fitted["best_params"] = description["training"]["best_params"]
    if not isinstance(description["extra"], dict):
        raise ModelFileError(f"extra: expected an object, got {type(description['extra']).__name__}")
    extra = fitted["extra"] = description["extra"]
    estimator._take(**fitted)
    inputs = _inputs(description)
    if inputs is not None:
        if inputs.width != architecture["n_features"]:
            raise ModelFileError(f"inputs: expected {architecture['n_features']} features, got {inputs.width}")
        estimator.take_columns(inputs)
        if isinstance(extra.get("table"), dict):  # ``(x - centre) / scale``, as older cards told, is x now
            extra["table"] |= {"centre": [0.0] * inputs.width, "scale": [1.0] * inputs.width}
    return estimator


def _inputs(description: Mapping[str, Any]) -> Inputs | None:
    """How the model's features come from a table; older models of the command kept their scale beside it."""
    kept = description.get("inputs")
    if kept is not None:
        return Inputs.from_dict(kept)
    table = description["extra"].get("table")
    if not isinstance(table, dict) or not {"features", "centre", "scale"} <= set(table):
        return None
    return Inputs.from_dict({"columns": table["features"], "centre": table["centre"], "scale": table["scale"]})


def _trees(architecture: Mapping[str, Any], K: int, text: bytes) -> boosting.Trees:
    """The boosted trees, which must be of these features and classes."""
    module = boosting.Trees(text.decode(), K)
    wanted, held = int(architecture["n_features"]), module.booster.num_feature()
    if wanted != held:
        raise ModelFileError(f"architecture: expected the {held} features of the trees in {TREES}, got {wanted}")
    return module


def _module(architecture: Mapping[str, Any], K: int, tensors: dict[str, Tensor]) -> torch.nn.Module:
    """The network with its weights; nothing is allocated before its sizes are those of the file's tensors."""
    widths = list(architecture["hidden"]) if architecture["model"] == "mlp" else []
    sizes = [checks.integer(n, "architecture", 1) for n in (architecture["n_features"], *widths, K)]
    wanted: dict[str, Any] = {}
    for i, (a, b) in enumerate(pairwise(sizes)):
        prefix, dtype = (f"{2 * i}.", torch.float32) if architecture["model"] == "mlp" else ("", torch.float64)
        wanted |= {f"{prefix}weight": (b, a, dtype), f"{prefix}bias": (b, dtype)}
    held = {n: (*t.shape, t.dtype) for n, t in tensors.items()}
    if wanted != held:
        name = min(n for n in {*wanted, *held} if wanted.get(n) != held.get(n))
        raise ModelFileError(
            f"architecture: size mismatch: expected that of the tensors in {TENSORS}, {held.get(name)} for {name!r}, "
            f"got {wanted.get(name)}"
        )
    module: torch.nn.Module = torch.nn.Linear(sizes[0], K, dtype=torch.float64, device="meta")
    if architecture["model"] == "mlp":
        module = mlp_module(sizes[0], K, widths)
    module.load_state_dict(tensors, strict=True, assign=True)
    return module


def _widths(estimator: WeakLabelClassifier) -> list[int]:
    layers = [m for m in estimator.module_.modules() if isinstance(m, torch.nn.Linear)]
    return [int(layer.out_features) for layer in layers[:-1]]


def _plain_settings(estimator: WeakLabelClassifier) -> dict[str, Any]:
    """The settings that are plain data; transition, classes and fitted loss are stored by themselves."""
    skipped = ("transition", "classes", "tune", "random_state")  # a tuned model comes back with the settings chosen
    given = estimator.get_params(deep=False) | getattr(estimator, "best_params_", {})
    out = _plain_items({name: value for name, value in given.items() if name not in skipped})
    if isinstance(given["random_state"], (int, np.integer)):
        out["random_state"] = int(given["random_state"])
    if "loss" not in out:  # an object: it comes back whole, and has no use for these
        for name in ("potential", "squeeze", "reconstruction"):
            out.pop(name, None)
    return out


def _plain_items(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those settings that JSON has terms for."""
    return {name: _plain(value) for name, value in settings.items() if value is None or _plain(value) is not None}


def _plain(value: Any) -> Any:
    """The value in JSON's terms, None where it has none."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return None


def _names_to_plain(classes: Any) -> dict[str, Any]:
    kind = classes.dtype.kind
    values = classes.tolist()
    if kind not in "biufUO" or not all(isinstance(v, (bool, int, float, str)) for v in values):
        raise InputError(f"classes: expected names that are text or numbers, got {values!r}")
    return {"dtype": "object" if kind == "O" else classes.dtype.str, "names": values}


def _names_from_plain(data: Mapping[str, Any]) -> Any:
    kind, names = data["dtype"], data["names"]
    if kind != "object" and np.dtype(kind).kind not in "biufU":
        raise ModelFileError(f"classes: expected text or numbers, got dtype {kind!r}")
    if not isinstance(names, list) or not all(isinstance(name, (bool, int, float, str)) for name in names):
        raise ModelFileError(f"classes: expected a list of texts or numbers, got {checks.short(names)}")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ModelFileError(f"classes: expected every name once, got {twice!r} more than once")
    if kind == "object":
        return np.array(names, dtype=object)
    # the width of text is that of the names: a file that says "<U500000000" asks for gigabytes
    return np.array(names, dtype=str if np.dtype(kind).kind == "U" else np.dtype(kind))
