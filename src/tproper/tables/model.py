"""A model of a table: trained, asked, scored, described, saved and loaded, with its columns known by name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from .._core import FloatArray, TakenError, atomic_folder, sweep, warn, write_file
from ..errors import InputError, printable
from ..evaluation import Evaluation, draw, plain_scores
from ..learn import DESCRIPTION, load, not_replaceable, write_model
from ..plots import can_draw, html_page
from .cards import model_card, summary
from .evaluating import evaluate_file
from .frames import read_table
from .options import LabelOptions, Names, Settings, TableOptions
from .schema import Schema
from .streaming import Trained, predict_file
from .table_fit import fit_table
from .terms import told
from .training import Fitted

CARD = "model_card.md"
PAGE = "model_card.html"
PICTURE = "reliability.png"


class TableModel(Trained):
    """A classifier of the rows of a table, trained on weak labels in one of its columns (or in several).

    `fit` does what the command ``tproper train`` does, with the same numbers, and `save` writes the same folder.

    Attributes
    ----------
    estimator : WeakLabelClassifier
        The classifier, which takes rows as they stand in the table (`inputs_`).
    schema
        The table's columns, classes and transition.
    facts : dict
        What was counted and found in training, ready for JSON (empty after `load`).

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> x = np.linspace(-1, 1, 200)
    >>> table = {"x": x, "verdict": np.where(x > 0, "good", "bad")}
    >>> model = tp.TableModel.fit(table, "symmetric:0.1", label="verdict")
    >>> model.predict_proba({"x": [-0.9, 0.9]}).argmax(axis=1).tolist()
    [0, 1]
    """

    def __init__(
        self, fitted: Fitted, checkpoint: Path | None = None, card: str | None = None, picture: bytes | None = None
    ) -> None:
        super().__init__(fitted.estimator, fitted.schema)
        self.quality, self.facts = fitted.quality, fitted.facts
        self._checkpoint, self._card, self._picture = checkpoint, card, picture

    @classmethod
    @told
    def fit(
        cls,
        data: Any,
        transition: Any,
        *,
        label: str | list[str],
        true_label: str | None = None,
        item: str | None = None,
        annotator: str | None = None,
        features_from: Any = None,
        source_column: str | None = None,
        group: str | None = None,
        features: Names = None,
        ignore: Names = None,
        classes: Names = None,
        missing: str = "drop",
        stream: bool = False,
        text: Names = None,
        category: Names = None,
        numeric: Names = None,
        checkpoint: str | Path | None = None,
        **settings: Any,
    ) -> TableModel:
        """Train on a table with weak labels, and measure the model on rows that it has not seen.

        Parameters
        ----------
        data : path or frame
            See `tproper.read_table`.
        transition : text, Transition, matrix, or a list or dict of them
            How labels were weakened: "complementary", "symmetric:0.2", a file of T, a `Transition`; "estimate" for T
            from the table itself; by name for each annotator, or for each source with `source_column`.
        label : str or list of str
            The column with the weak labels, or one for each annotator.
        true_label, item, annotator, features_from, source_column, group : optional
            The columns of the class where it is known, of the item and who answered where every answer has a row of its
            own, a second table with the features of every item, the column that says where a label comes from, and the
            one whose rows belong together.
        features, ignore : list of str, optional
            The columns that are features, or all but these.
        classes : list of str, optional
            The classes in the order of the transition.
        missing : str
            "drop" rows without a label, or keep them as "uninformative".
        text, category, numeric : list of str, optional
            Columns of free text, of names and of numbers, where they should not be taken for what they look like.
        stream, checkpoint
            Parquet larger than memory: minibatches from disk, resumed from the checkpoint if interrupted.
        **settings
            `loss`, `model`, `squeeze`, `l2`, `epochs`, `seed`, `tune`, `standardize`, `holdout`, `folds`, `calibrate`:
            as the options of ``tproper train``.
        """
        unknown = set(settings) - set(Settings.__dataclass_fields__)
        if unknown:
            raise TypeError(f"TableModel.fit() got an unexpected keyword argument {min(unknown)!r}")
        options = TableOptions(
            label=label, transition=transition, true_label=true_label, item=item, annotator=annotator,
            features_from=features_from, source_column=source_column, group=group, features=features, ignore=ignore,
            classes=classes, missing=missing, stream=stream, text=text, category=category, numeric=numeric,
        )  # fmt: skip
        if stream and (settings.get("holdout") or settings.get("folds")):
            raise InputError(
                "--stream: expected it without --holdout and --folds, since no rows are held out of a stream"
            )
        place = None if checkpoint is None or not stream else Path(checkpoint)
        return cls(fit_table(read_table(data), options, Settings(**settings), place), place)

    @property
    def classes_(self) -> NDArray[Any]:
        """The names of the classes, in the order of the columns of `predict_proba`."""
        out: NDArray[Any] = self.estimator.classes_
        return out

    def predict_proba(self, frame: Any) -> FloatArray:
        """Class probabilities (n, K) of the rows of a frame, by the names of its columns, in any order."""
        out: FloatArray = self.estimator.predict_proba(frame)
        return out

    def predict_frame(self, frame: Any) -> Any:
        """`predict_proba` as a pandas frame, with the names of the classes as columns."""
        return self.estimator.predict_frame(frame)

    def predict(self, frame: Any) -> NDArray[Any]:
        """The likeliest class of each row of a frame."""
        out: NDArray[Any] = self.estimator.predict(frame)
        return out

    @told
    def predict_file(
        self, data: Any, out: str | Path | IO[bytes], keep: Names = None, strict: bool = False
    ) -> dict[str, int]:
        """Write the likeliest class and the probabilities of every row of a table, beside the columns `keep`.

        `out` is a .csv, .tsv or .parquet file, or a stream that is given CSV. Returns how often each class won.
        Memory does not grow with the table. A warning says where it is not like the training table: other units, new
        categories, other shares; with `strict` that is refused.
        """
        return predict_file(self, data, keep, Path(out) if isinstance(out, (str, Path)) else out, strict)

    @told
    def evaluate(
        self,
        data: Any,
        *,
        label: str | list[str],
        transition: Any = None,
        plot: str | Path | None = None,
        **columns: Any,
    ) -> Evaluation:
        """Scores on another table, from its weak labels and from true classes where a column has them.

        `label` and `columns` (`true_label`, `item`, `annotator`, `features_from`, `source_column`) say where labels
        stand, `transition` how they were weakened, where not as in training; `plot` is a diagram to draw.
        """
        options = LabelOptions(label=label, **columns)
        return evaluate_file(self, data, options, transition, None if plot is None else Path(plot))

    # What there is to say of it.

    @property
    def _scores(self) -> str | None:
        found = self._evaluation
        return None if found is None or not (found.scores or found.clean) else str(found)

    @property
    def _evaluation(self) -> Evaluation | None:
        return None if self.quality is None else self.quality.evaluation

    def card(self, name: str = "model") -> str:
        """The model card, in Markdown: data, labels, loss, and what is known of the quality."""
        if self._card is not None:
            return self._card
        return model_card(self.facts | {"name": name}, self._scores, str(self.estimator.certificate_))

    def summary(self, path: str | Path = "model") -> str:
        """What training ends with, in words."""
        if not self.facts:
            raise InputError("summary: expected a model that was just trained, got one that was loaded; see card()")
        return summary(self.facts, self._scores, self.estimator.certificate_, Path(path))

    def to_dict(self) -> dict[str, Any]:
        """All that was counted and found, for JSON."""
        found = self._evaluation
        weak, clean = (None, None) if found is None else (found.scores, found.clean)
        scores = {} if self.quality is None else {"scores": weak, "clean_scores": clean}
        plain = {name: plain_scores(s) if s else None for name, s in scores.items()}
        trusted = None if found is None else found.trust()
        return self.facts | {"certificate": self.estimator.certificate_.to_dict()} | plain | {"trust": trusted}

    @told
    def save(self, path: str | Path, replace: bool = False, looked: bool = False) -> Path:
        """Write the folder of the model with its card; with `replace` in place of another model.

        `tproper predict`, `TableModel.load` and `tproper.load` read it. `looked` says that `model_folder` has looked at
        the place before the training: what came there since stays, and the model is kept beside it.
        """
        out = Path(path) if looked else model_folder(Path(path), replace)
        try:
            with atomic_folder(out, replaceable=not_replaceable if replace else None) as folder:
                write_model(self.estimator, folder, self.schema.extra())
                written = (folder / DESCRIPTION).stat()
        except TakenError as error:  # the model is whole and kept beside its place
            self._described(error.kept, written)
            self._forget()
            raise
        self._described(out, written)
        self._forget()
        return out

    def _described(self, folder: Path, written: os.stat_result) -> None:
        """The card beside the model, which is in its place already: a card that fails takes no model with it."""
        failed: list[str] = []
        with tempfile.TemporaryDirectory() as drafts:
            draft, names = Path(drafts), list[str]()
            for make in (self._draw, self._write_card, self._write_page):
                try:
                    names += make(draft, folder.name, names)
                except Exception as error:  # a name that no font has, a page that is not ours, a fault of ours
                    failed.append(f"{type(error).__name__}: {error}")
            try:
                if names and not os.path.samestat(written, (folder / DESCRIPTION).stat()):
                    raise FileExistsError("another model took its place")
                for name in names:
                    write_file(folder / name, (draft / name).read_bytes(), overwrite=True)
            except OSError as error:
                failed.append(str(error))
        for reason in failed:
            warn(f"the model is in {folder}, but not all of its card: {reason}", UserWarning)

    def _draw(self, folder: Path, name: str, made: Sequence[str]) -> list[str]:
        found = self._evaluation
        if self._picture is not None:
            (folder / PICTURE).write_bytes(self._picture)
        elif found is not None and self._scores is not None and can_draw():
            calibrator = self.estimator.calibrator_
            before = getattr(calibrator, "reliability", {}).get("before")
            changed = calibrator is not None and not calibrator.is_identity
            draw(found.scores, found.clean, folder / PICTURE, before=before if changed else None)
            self.facts["picture"] = PICTURE
        else:
            return []
        return [PICTURE]

    def _write_card(self, folder: Path, name: str, made: Sequence[str]) -> list[str]:
        (folder / CARD).write_text(self.card(name), encoding="utf-8")
        return [CARD]

    def _write_page(self, folder: Path, name: str, made: Sequence[str]) -> list[str]:
        page = html_page(self.card(name), f"Model card: {printable(name, '')}", folder, made)
        (folder / PAGE).write_text(page, encoding="utf-8")
        return [PAGE]

    def _forget(self) -> None:
        """The checkpoint of a stream, once the model is written."""
        if self._checkpoint is not None:
            self._checkpoint.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path) -> TableModel:
        """The model that `save`, or ``tproper train``, wrote to a folder."""
        estimator = load(path)
        card, drawn = Path(path) / CARD, Path(path) / PICTURE
        text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else None
        picture = drawn.read_bytes() if drawn.is_file() else None
        return cls(Fitted(estimator, Schema.of(estimator, Path(path)), {}, None), card=text, picture=picture)


def model_folder(path: Path, replace: bool) -> Path:
    """Where a model will be: refuses to overwrite, unless it is a model and `replace` says so."""
    sweep(path.parent, path.name)  # a model that a killed run had moved aside counts, too
    if path.exists() or path.is_symlink():
        if path.is_dir():
            sweep(path)  # and cards that a killed run had begun
        if not replace:
            raise InputError(f"--out: expected a new folder, got {path}, which exists; --force replaces a model")
        reason = not_replaceable(path)
        if reason is not None:
            raise InputError(f"--out: --force replaces only a model that tproper made, got {path}, {reason}")
    return path
