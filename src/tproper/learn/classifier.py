"""The scikit-learn front: fit a classifier to weak labels, get class probabilities out.

WeakLabelClassifier("complementary").fit(X, y).predict_proba(X_new)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor, nn

from .._core import Before, FloatArray, Labels, NotReconstructibleError, checks, finite_rows, group_codes, thin, warn
from ..certificates import Certificate
from ..errors import InputError
from ..inputs import Inputs
from ..losses import WeakLabelLoss, make_loss
from ..metrics import weights_of
from ..potentials import Potential
from ..solvers import linear, row_risks
from ..transitions import (
    LabelSpace,
    Reconstruction,
    Transition,
    TransitionLike,
    UnknownSizeError,
    as_given,
    is_soft,
    make_transition,
    names_array,
    settle_sorted,
    soft_silent,
)
from . import fitting
from . import search as _search
from .calibrator import Calibrator, method_of
from .estimating import asks_for_estimate, with_estimate
from .fitting import flag
from .truth import read_both, weak_part, weights_of_labelled, with_known_classes

Names: TypeAlias = Sequence[Any] | NDArray[Any] | None
Weights: TypeAlias = ArrayLike | None
MODELS = ("linear", "mlp", "boosting")
REMEMBERED = 1024  # entries of `history_` after any number of calls of partial_fit


def _trained_in_parts(clf: Any) -> bool:
    """Trees are not: every round needs all rows."""
    if isinstance(clf.model, str) and clf.model == "boosting":
        raise AttributeError("model: expected 'linear', 'mlp' or a callable for partial_fit, got 'boosting'; use fit")
    return True


class WeakLabelClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that learns class probabilities from weak labels.

    It minimises ``mean_i loss(v_i, y_i) + l2/2 ||W||^2`` over the scores ``v = model(x)``, where y is a *weak* label
    and the loss knows how weak labels arise (`transition`). Biases and intercepts are not penalised, except for the
    intercepts of linear models of weak labels: a normal prior keeps classes from being given up, or from following the
    labels' noise (`tproper.learn.defaults`). Probabilities are calibrated by the weak labels themselves (`calibrate`).
    With `transition=None` labels are clean, and the linear model is multinomial logistic regression.

    Parameters
    ----------
    transition : Transition, str, tuple, dict, matrix or None
        How a class becomes a weak label: an object (``tp.complementary(10)``), a text (``"symmetric:0.2"``, see
        `tproper.parse_transition`; without the number of classes where labels tell it), a name with parameters
        (``("symmetric", {"p": 0.2})``), or T itself (weak labels x classes). None: clean labels. "estimate", or
        ``("estimate", {...})``: T from the data of the fit, by `tproper.estimate_annotators` for answers (n, m), else
        by `tproper.estimate_transition`, with its settings; ``{"kind": "pu"}`` (or "clean", "partial", ...) says what
        labels cannot tell.
    loss : str, loss object or callable
        "forward": ``-log (T p)_y``, proper for every T and bounded. "backward":
        ``F(v) - <R e_y, v>`` with `potential`, `squeeze` and `reconstruction`. "gls": the same, squeezed (k = 1,
        alpha = 2 unless `squeeze` says otherwise), bounded. "ga" and "nonnegative": bounded heuristics on batches.
        Or a loss module called as ``loss(scores, encoded_labels)``, or a callable that makes one from the transition.
    model : "linear", "mlp", "boosting" or callable
        "boosting": gradient-boosted trees (LightGBM; ``pip install 'tproper[boosting]'``), with as many rounds as lower
        the weak risk of rows that were held out.
        A callable gets ``(n_features, n_classes)`` and returns an ``nn.Module`` from features to scores.
    potential : str or Potential
        F of a backward loss: "logsumexp", "brier", "sparsemax", "tsallis:1.5", "spherical:simplex".
    squeeze : (k, alpha), optional
        Generalised logit squeezing of F.
    reconstruction : str, Reconstruction or matrix
        R of a backward loss; "auto", "inverse", "pinv", "min_variance", "tightest".
    classes : list, optional
        Class names in the order of T's columns. Default: the sorted distinct labels where weak labels carry the names
        of classes (clean, noisy, complementary), else 0 .. K-1.
    l2 : float or "auto"
        Penalty on the weights. "auto", for linear models: in proportion to the features' variance and to 1/n, for
        weaker labels less of it for forward losses and more for others (`tproper.learn.defaults`); 3e-4 for networks.
        `tune` finds what suits the data. Trees: what is added to the sum of curvatures, in rows, of a leaf; 1.
    max_iter : int
        Iterations of the linear solver (L-BFGS, float64); rounds of boosting, at most.
    tol : float
        Linear solver: the largest entry of the objective's gradient at the end, with respect to intercepts and the
        coefficients of standardised features. Minibatches: the least fall of the held-out risk that counts.
    epochs, batch_size, learning_rate, hidden
        Minibatch training (Adam, cosine schedule) of "mlp", callables, and linear models with a loss of whole batches
        or with ``early_stopping=True``. ``batch_size="auto"``: a tenth of the rows, between 8 and 128.
        ``learning_rate="auto"``: 3e-3, and more for the forward loss of weaker labels (`tproper.learn.defaults`).
        `hidden`: widths of the MLP's layers.
        Trees: the share of each step that is taken, .1, and more for the forward loss of weaker labels.
    max_leaves : int or "auto"
        Leaves of a tree, at most; 15. Each has twenty rows at least, and more where labels are weaker.
    early_stopping, validation_fraction, patience
        Minibatches: hold out `validation_fraction` of the rows. After `patience` epochs without a lower *weak* risk on
        them (at the best temperature), lower the learning rate to zero in as many epochs and stop; keep the last epoch
        not clearly worse than the best. "auto": networks, from 500 rows, if held-out labels are worth 5 clean ones.
        Trees: all rows are held out in turn, in folds (`early_stopping=False`: `max_iter` rounds); growing ends where
        `patience` rounds together lower the risk by less than 1/500 of what all have, and not before three times as
        many.
    device : str
        "auto" (CUDA where there is one), "cpu", "cuda", ... The linear solver always runs on the CPU.
    random_state : int, RandomState or None
        Initialisation, order of rows, held-out rows.
    warm_start : bool
        `fit` starts from the last solution; a different model or number of features or classes is refused.
    tune : bool, dict, list of dicts or None
        True: choose loss, squeeze, l2 and learning rate by cross-validated weak risk, then fit on everything. A grid
        (as for ``GridSearchCV``) is searched instead. The risk is the mean of ``-log (T p)_y`` over held-out weak
        labels y in five folds, which is T-proper for every T, so that in expectation nothing beats the true posterior;
        it is taken after one temperature, unless ``calibrate=False``. What was tried is kept in `cv_results_`.
    calibrate : "auto", False or a method
        How probabilities are calibrated (`tproper.calibrate`): by cross-fitted scores of linear models (ten more fits,
        three for many rows) and of trees, by the rows that early stopping holds out for networks. "auto" changes
        little where labels say little. False: the loss's own link as it is.
    verbose : int or callable
        From 1 on the work is logged as it goes on, with an estimate of the time left. A callable is told the share of
        `fit` that is done, from 0 to 1.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.
    inputs_ : Inputs or None
        How rows of a table become features, for a model of `tproper.TableModel` or the command `tproper train`: it
        predicts from frames, by the names of their columns. None for a model that was given features.
    transition_ : Transition
    loss_ : nn.Module
    calibrator_ : Calibrator or None
        How scores become probabilities, what that gained, and what is known of the calibration before and after.
    class_prior_ : array (K,) or None
        The class shares of the training rows by the model's probabilities; None where it was trained by `partial_fit`.
    l2_, learning_rate_ : float
        The penalty used, and for minibatches the learning rate.
    minima_ : list of float
        Linear model: the objectives of the different minima that its starts met, best first (the others to three
        digits).
    module_ : nn.Module
        From features to scores; an ``nn.Linear`` in float64 for the linear model. Of boosted trees,
        ``module_.booster`` is LightGBM's own object, with its importances.
    cv_results_ : dict
        With `tune`, one entry per setting: ``params``, ``mean_weak_risk``, ``stderr_weak_risk``,
        ``stderr_of_difference_to_best`` (paired), ``mean_raw_risk`` and ``mean_weak_brier`` (as trained),
        ``temperature``, ``rank``, and each fold's risk; ``criterion`` is "calibrated", "log" with ``calibrate=False``,
        or "brier" where some risk is infinite.
    best_params_, best_index_
        With `tune`, the winner.
    certificate_ : Certificate
        What is known about `loss_`: properness, bounds, witness. Computed when asked for.
    history_ : list of dicts
        One entry per iteration or epoch. After `partial_fit` one per call, with its number ("call"); older entries of a
        long stream are thinned out, so that there are never more than 1024.
    n_iter_ : int
    optimizer_, random_stream_
        What `partial_fit` carries from call to call: Adam (None after `fit`), and the ``RandomState`` that orders rows.

    Notes
    -----
    Forward losses are convex in the scores for clean labels only, backward losses for every F. Where the loss is not
    convex the linear solver starts from random points, always the same ones (several where that is cheap, until one
    agrees with those before it), and keeps the best end: see `minima_`. Fits in threads give the same results as alone;
    models that a callable makes take turns, because they draw from torch's own random numbers.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> z = (X[:, 0] > 0).astype(int)
    >>> weak = tp.symmetric_noise(2, 0.3).sample(z, seed=1)
    >>> clf = tp.WeakLabelClassifier("symmetric:0.3").fit(X, weak)
    >>> bool((clf.predict(X) == z).mean() > 0.95), clf.predict_proba(X).shape
    (True, (500, 2))
    """

    classes_: NDArray[Any]
    module_: nn.Module
    loss_: nn.Module
    calibrator_: Calibrator | None
    class_prior_: FloatArray | None
    history_: list[dict[str, Any]]
    optimizer_: torch.optim.Optimizer | None
    random_stream_: np.random.RandomState

    def __init__(
        self,
        transition: TransitionLike | None = None,
        loss: str | nn.Module | Callable[[Transition], nn.Module] = "forward",
        model: str | Callable[[int, int], nn.Module] = "linear",
        *,
        potential: str | Potential = "logsumexp",
        squeeze: tuple[float, float] | None = None,
        reconstruction: str | Reconstruction | ArrayLike = "auto",
        classes: Names = None,
        l2: float | str = "auto",
        max_iter: int = 1000,
        tol: float = 1e-5,
        epochs: int = 100,
        batch_size: int | str = "auto",
        learning_rate: float | str = "auto",
        hidden: tuple[int, ...] = (128,),
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        patience: int = 10,
        max_leaves: int | str = "auto",
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        tune: bool | _search.Grid | None = False,
        calibrate: bool | str = "auto",
        verbose: int | Callable[[float], None] = 0,
    ) -> None:
        self.transition = transition
        self.loss = loss
        self.model = model
        self.potential = potential
        self.squeeze = squeeze
        self.reconstruction = reconstruction
        self.classes = classes
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.hidden = hidden
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.max_leaves = max_leaves
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.tune = tune
        self.calibrate = calibrate
        self.verbose = verbose

    # Fitting.

    def fit(
        self, X: Any, y: Labels, sample_weight: Weights = None, *, true: Labels = None, groups: ArrayLike | None = None
    ) -> WeakLabelClassifier:
        """Fit to features X (n, d) and weak labels y.

        y holds class names where weak labels carry them; candidate sets as boolean masks (n, K), True = still possible,
        or as lists or sets of class names; answers (n, m) of several annotators, -1, None or NaN where there is none;
        (source, label) pairs for several sources; elsewhere the names or indices of weak labels.

        `true` holds the classes of the rows where they are known; -1, None or NaN elsewhere. Such rows train the model
        by their class (`tproper.learn.truth`), and an estimate of T uses them; their weak labels may be missing.
        `groups` holds a name for each row: folds and held-out rows never split a group.

        A fit that raises leaves the classifier as it was.
        """
        before = Before(self)
        try:
            return self._fit(X, y, sample_weight, true, groups)
        except BaseException:  # an interrupt, too
            before.restore()
            raise

    def _fit(self, X: Any, y: Labels, sample_weight: Weights, true: Labels, groups: Any) -> WeakLabelClassifier:
        check_settings(self)
        if asks_for_estimate(self.transition):
            estimated = with_estimate(self, X, y, true, groups)
            return self._adopt(estimated.fit(X, y, sample_weight, true=true, groups=groups))
        if self.tune is not None and flag(self.tune) is not False:
            return self._fit_tuned(X, y, sample_weight, true, groups)
        before = None
        if flag(self.warm_start) and hasattr(self, "module_"):
            before = self.module_, self.n_features_in_, len(self.classes_)
        X = self._features(X, reset=True)
        space = self._settle(weak_part(y, true), self.classes, true)
        self.loss_ = self._make_loss(self.transition_)
        labels, known, some = read_both(y, true, space)
        check_consistent_length(X, labels)
        codes = group_codes(groups, len(labels))
        data = fitting.Training(X, labels, self.transition_, self.loss_, groups=codes)
        if some is not None:  # rows without a label
            data, known = data.part(some), None if known is None else known[some]
            weights = weights_of(sample_weight, len(labels))
            sample_weight = None if weights is None else weights[some]
        data, used = fitting.weighted(data, sample_weight)
        self._certificate = self.optimizer_ = None
        rng = check_random_state(self.random_state)
        start = None if before is None else fitting.check_warm(self, *before)
        data = with_known_classes(data, None if known is None else known[used], self.loss, self._make_loss)
        if isinstance(self.model, str) and self.model == "boosting":
            fitted = fitting.fit_boosting(self, data)
        elif self._uses_lbfgs():
            fitted = fitting.fit_lbfgs(self, data, start)
        else:
            fitted = fitting.fit_minibatches(self, data, rng, start)
        self._take(**{k: v for k, v in vars(fitted).items() if v is not None or k == "calibrator"})
        self.class_prior_ = fitting.training_shares(self, data)
        return self

    @available_if(_trained_in_parts)
    def partial_fit(
        self, X: Any, y: Labels, classes: Names = None, sample_weight: Weights = None
    ) -> WeakLabelClassifier:
        """One pass of minibatch steps over the rows given, from wherever the model is now.

        The first call needs `classes` (here or as a parameter) unless the transition says how many there are. The
        optimiser's state is kept between calls; the learning rate stays constant. A call that diverges is undone.
        """
        check_settings(self)
        if asks_for_estimate(self.transition):
            raise InputError("transition: expected one that is known for partial_fit, got 'estimate'; use fit")
        before = Before(self)
        first = not hasattr(self, "module_")
        X = self._features(X, reset=first)
        if first:
            names, self.optimizer_ = self.classes if classes is None else classes, None
            if names is None and not self._size_known():
                raise InputError(
                    "classes: expected all class names on the first call of partial_fit, got none; "
                    "pass classes=, or a transition that says how many there are"
                )
            self._settle(y, names)
            self.loss_ = self._make_loss(self.transition_)
            self.history_, self.n_iter_ = [], 0
        elif classes is not None and set(classes) != set(self.classes_.tolist()):
            got = f"{self.classes_.tolist()}, got {list(classes)}"
            raise InputError(f"classes: expected those of the first call, {got}")
        labels, missing = self.transition_.labels.read(y)
        check_consistent_length(X, labels)
        data = fitting.Training(X, labels, self.transition_, self.loss_)
        if missing.any():
            data = data.part(np.flatnonzero(~missing))
            weights = weights_of(sample_weight, len(labels))
            sample_weight = None if weights is None else weights[~missing]
        data, _ = fitting.weighted(data, sample_weight)
        if getattr(self, "optimizer_", None) is None:  # the first call, or the first since `fit`
            self.random_stream_ = check_random_state(self.random_state)
        before.add(self.random_stream_)
        module, optimizer = None if first else self.module_, getattr(self, "optimizer_", None)
        end, value = fitting.one_pass(self, data, self.random_stream_, module, optimizer, before)
        # what was fitted to an older state of the model goes
        self._take(**vars(end), class_prior=None, calibrator=None, n_iter=self.n_iter_ + 1)
        self.history_.append({"loss": value, "call": self.n_iter_})
        thin(self.history_, lambda entry: int(entry["call"]), REMEMBERED)
        return self

    def _fit_tuned(self, X: Any, y: Any, sample_weight: Any, true: Any, groups: Any) -> WeakLabelClassifier:
        grid: Any = None if flag(self.tune) is True else self.tune
        result = _search.search(self, X, y, sample_weight, grid, true=true, groups=groups)
        best = _search.with_params(self, result.best_params, result.transition)
        self._adopt(best.fit(X, y, sample_weight, true=true, groups=groups))
        self.cv_results_, self.best_params_, self.best_index_ = result.results, result.best_params, result.best_index
        return self

    def _take(self, **fitted: Any) -> WeakLabelClassifier:
        """What was fitted, or loaded, becomes attributes: each under its name and an underscore."""
        for name, value in fitted.items():
            setattr(self, f"{name}_", value)
        return self

    def _adopt(self, other: WeakLabelClassifier) -> WeakLabelClassifier:
        """Take over what another one has fitted; the settings stay the user's."""
        self._certificate = None
        return self._take(**{name[:-1]: value for name, value in vars(other).items() if name.endswith("_")})

    # Predicting.

    def decision_function(self, X: Any) -> FloatArray:
        """Centred scores (n, K), calibrated; for two classes the score of the second minus that of the first (n,)."""
        scores = self._calibrated(self._scores(X))
        with np.errstate(over="ignore", invalid="ignore"):  # refused instead
            two = len(self.classes_) == 2
            out = scores[:, 1] - scores[:, 0] if two else scores - scores.mean(axis=1, keepdims=True)
        return finite_rows(out, self.module_)

    def predict_proba(self, X: Any, prior: ArrayLike | None = None) -> FloatArray:
        """Class probabilities (n, K), columns in the order of `classes_`: calibrated, or the loss's own link.

        With `prior` (K,), the class shares of another population, they are that population's, if its classes look as
        they did in training (label shift). By Bayes' rule each probability is multiplied by ``prior_z / pi_z``, pi the
        shares in training (`class_prior_`), and the row divided by its sum. ``tp.weak_prevalence(labels, T).value``
        finds the shares by weak labels of the new population. Default: the prior of the transition (bags of unlabeled
        data,
        ``T.with_prior(prior)``), or the population of the training rows.
        """
        p = fitting.own_probabilities(self, self._scores(X))
        return fitting.of_population(self, p, prior)

    def predict_frame(self, X: Any) -> Any:
        """`predict_proba` as a pandas frame: a column for each class, by name, and the index of X if it has one."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("predict_frame needs pandas: pip install pandas") from error
        rows = X.index if hasattr(X, "iloc") else None
        return pandas.DataFrame(self.predict_proba(X), index=rows, columns=self.classes_)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Their logarithm, finite where probabilities are too small for a number; -inf where a link says zero."""
        scores = self._scores(X)
        if self.transition_.prior is None and (self._changes() is not None or fitting.is_softmax(self.loss_, scores)):
            return torch.log_softmax(torch.as_tensor(self._calibrated(scores)), -1).numpy()
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row: every link keeps the order of the scores."""
        index = self._class_index(X)
        return self.classes_[index]

    def _class_index(self, X: Any) -> NDArray[np.int64]:
        check_is_fitted(self, "module_")
        scores = self.predict_proba(X) if self.transition_.prior is not None else self._calibrated(self._scores(X))
        return scores.argmax(axis=1)

    def _changes(self) -> Calibrator | None:
        """The calibrator, where there is one that changes anything."""
        calibrator: Calibrator | None = getattr(self, "calibrator_", None)
        return calibrator if calibrator is not None and not calibrator.is_identity else None

    def _calibrated(self, scores: FloatArray) -> FloatArray:
        calibrator = self._changes()
        return scores if calibrator is None else calibrator.map(scores)

    def score(self, X: Any, y: Labels, sample_weight: Weights = None) -> float:
        """Accuracy as estimated from the *weak* labels y: the mean of ``(R e_y)`` at the predicted class.

        It estimates the accuracy on clean labels when y arises as `transition_` says, and is plain accuracy when labels
        are clean. The unbiased estimate may leave [0, 1] on few rows: what is returned is the nearest possible value,
        and a warning says where it is out by more than chance can explain. Averages over folds want the unbiased one:
        ``scoring=tproper.weak_scorer("accuracy", T)``. Labels that cannot tell some classes apart (coarse ones) allow
        no such estimate: use `weak_log_likelihood` or `tproper.calibrated_scorer`. Bags are scored as they are pooled,
        whatever `prior` says. To score against clean labels use
        ``sklearn.metrics.accuracy_score(y_true, clf.predict(X))``; for standard errors, `tproper.weak_accuracy`.
        """
        predicted = torch.as_tensor(self._class_index(X))
        labels, missing = self.transition_.labels.read(y)
        check_consistent_length(predicted, labels)
        try:
            R = self.transition_.reconstruction()
        except NotReconstructibleError:
            raise NotReconstructibleError(
                f"y: expected labels that tell all classes apart, got those of {self.transition_.name}, from which no "
                "accuracy can be estimated; use weak_log_likelihood(X, y).mean(), or tproper.calibrated_scorer() in a "
                "search"
            ) from None
        credit = R.targets(as_given(labels)).gather(1, predicted[:, None])[:, 0].numpy()
        weights = weights_of(sample_weight, len(credit))
        silent = soft_silent(R, labels) if is_soft(labels) else R.silent(labels)
        quiet = missing if silent is None else missing | silent.cpu().numpy()  # rows in which no annotator answered
        if quiet.any():
            weights = weights_of_labelled(quiet, weights)
        value = float(np.average(credit, weights=weights))
        shown = min(max(value, 0.0), 1.0)
        a = np.full(len(credit), 1.0) if weights is None else weights
        stderr = float(np.sqrt(a**2 @ (credit - value) ** 2) / a.sum())
        if abs(value - shown) > 4 * stderr + 1e-9:
            warn(
                f"the weak labels contradict the transition: they give an accuracy of {value:.3g}, which no model has "
                "(see tproper.check_transition)",
                UserWarning,
            )
        return shown

    def weak_log_likelihood(self, X: Any, y: Labels) -> FloatArray:
        """``log (T p)_y`` of each row: how likely the model finds the weak labels; NaN where one is missing.

        p is `predict_proba`, except for bags with a `prior`: T describes the pooled bags, and p is theirs.
        """
        p = torch.as_tensor(fitting.own_probabilities(self, self._scores(X)))
        labels, missing = self.transition_.labels.read(y)
        # scores of log p give p back exactly under softmax, zeros included
        return np.where(missing, np.nan, -row_risks(self.transition_, labels, p.log().numpy()))

    @property
    def certificate_(self) -> Certificate:
        """Properness and bounds of the loss, with evidence; computed at the first use."""
        check_is_fitted(self, "module_")
        certificate: Certificate | None = getattr(self, "_certificate", None)
        if certificate is None:
            if not isinstance(self.loss_, WeakLabelLoss):
                raise AttributeError(f"certificate_: only tproper's losses certify themselves, not {type(self.loss_)}")
            certificate = self._certificate = self.loss_.certify()
        return certificate

    @property
    def coef_(self) -> FloatArray:
        """Weights (K, d) of the linear model."""
        return self._linear().weight.detach().cpu().double().numpy()

    @property
    def intercept_(self) -> FloatArray:
        """Intercepts (K,) of the linear model."""
        return self._linear().bias.detach().cpu().double().numpy()

    def _linear(self) -> nn.Linear:
        check_is_fitted(self, "module_")
        if not isinstance(self.module_, nn.Linear):
            raise AttributeError(f"coef_ and intercept_ exist for model='linear' only, not for {self.model!r}")
        return self.module_

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self, "module_")
        return fitting.scores_of(self, self._features(X, reset=False))

    def take_columns(self, inputs: Inputs) -> WeakLabelClassifier:
        """From now on predict from rows of a table, which `inputs` turn into the features of the fit.

        A frame's columns are taken by name; an array without names holds the same columns, in order and as they stand
        in the table. What this sets is saved with the model, and ended by the next fit.
        """
        check_is_fitted(self, "module_")
        self.inputs_: Inputs | None = inputs
        self.n_features_in_ = len(inputs.names)
        self.feature_names_in_ = np.asarray(inputs.names, dtype=object)
        return self

    # Settings.

    def _transition_or_loss(self) -> Any:
        """The transition; that of the loss where only the loss has one."""
        if self.transition is None and isinstance(self.loss, WeakLabelLoss):
            return self.loss.transition
        return self.transition

    def _settle(self, y: Any, classes: Names, true: Any = None) -> LabelSpace:
        """T in the sorted order of its classes, and their names."""
        given = self._transition_or_loss()
        if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
            column_or_1d(y, warn=True)
        space = settle_sorted(y, given, classes, true=true)
        if isinstance(self.loss, WeakLabelLoss) and not self.loss.transition.same_as(space.transition):
            raise InputError(
                f"loss: expected one whose T has the classes in sorted order, {space.class_names}, got a loss of T "
                "in another order; pass its name, or a callable that makes it from T"
            )
        self.transition_, self.classes_ = space.transition, names_array(space.class_names)
        return space

    def _size_known(self) -> bool:
        value = self._transition_or_loss()
        try:
            return value is not None and make_transition(value) is not None
        except UnknownSizeError:
            return False

    def _make_loss(self, transition: Transition) -> nn.Module:
        return make_loss(self.loss, transition, self.potential, self.squeeze, self.reconstruction)

    def _uses_lbfgs(self) -> bool:
        return self.model == "linear" and linear.has_pointwise(self.loss_) and flag(self.early_stopping) is not True

    def _features(self, X: Any, reset: bool) -> Any:
        kind = np.float64 if self.model in ("linear", "boosting") else np.float32
        inputs: Inputs | None = None if reset else getattr(self, "inputs_", None)
        if reset:
            self.inputs_ = None
        elif inputs is not None:  # columns of a table, by name, at the scale of training
            return inputs.encode(X, kind).astype(kind, copy=False)
        return validate_data(self, untracked(X), reset=reset, accept_sparse="csr", dtype=kind)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def check_settings(clf: Any) -> None:
    """Refuse what no data could make right."""
    if not _is_auto(clf.l2):
        checks.real(clf.l2, "l2", 0)
    checks.real(clf.tol, "tol", 0)
    if not _is_auto(clf.learning_rate):
        checks.real(clf.learning_rate, "learning_rate", 0, low_open=True)
    checks.real(clf.validation_fraction, "validation_fraction", 0, 0.9, low_open=True)
    for name in ("max_iter", "epochs", "patience"):
        checks.integer(getattr(clf, name), name, 1)
    if not _is_auto(clf.batch_size):
        checks.integer(clf.batch_size, "batch_size", 1)
    if not _is_auto(clf.max_leaves):
        checks.integer(clf.max_leaves, "max_leaves", 2)
    if flag(clf.early_stopping) not in (True, False, "auto"):
        raise InputError(f"early_stopping: expected True, False or 'auto', got {clf.early_stopping!r}")
    if flag(clf.warm_start) not in (True, False):
        raise InputError(f"warm_start: expected True or False, got {clf.warm_start!r}")
    if flag(clf.warm_start) is True and clf.model == "boosting":
        raise InputError("warm_start: expected False with model='boosting', whose trees are grown afresh, got True")
    check_verbose(clf.verbose)
    method_of(clf.calibrate)
    if not callable(clf.model) and not (isinstance(clf.model, str) and clf.model in MODELS):
        raise InputError(f"model: expected 'linear', 'mlp', 'boosting' or a callable, got {checks.short(clf.model)}")


def check_verbose(value: Any) -> None:
    """A number of how much to log, True and False counting as 1 and 0; or what is told the share that is done."""
    if callable(value):
        return
    checks.integer(int(value) if isinstance(value, (bool, np.bool_)) else value, "verbose", 0)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def untracked(X: Any) -> Any:
    """A tensor without gradients, in memory, of a type that NumPy knows; anything else as it is, but without a mask."""
    if not isinstance(X, Tensor):
        return checks.unmasked(X, "X")
    return X.detach().cpu().float() if X.dtype == torch.bfloat16 else X.detach().cpu()
