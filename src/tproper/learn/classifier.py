"""The scikit-learn front: fit a classifier to weak labels, get class probabilities out.

WeakLabelClassifier("complementary").fit(X, y).predict_proba(X_new)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from .._core import Before, FloatArray, checks, finite_rows
from ..losses import WeakLabelLoss, make_loss
from ..transitions import BagTransition, UnknownSizeError, make_transition
from . import labels as _labels
from . import linear, minibatch
from . import search as _search
from .modules import flag, linear_module, mlp_module, on_device, row_weights, same_form, seeded

AUTO_EARLY_STOPPING = 500  # rows from which early_stopping="auto" holds some out
AUTO_BATCH = (8, 128)  # batch_size="auto" is a tenth of the rows within these


class WeakLabelClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that learns class probabilities from weak labels.

    It minimises ``mean_i loss(v_i, y_i) + l2/2 ||W||^2`` over the scores ``v = model(x)``, where y is a *weak* label
    and the loss knows how weak labels come about (`transition`). Biases and intercepts are not penalised. Probabilities
    are the loss's own link of the scores. With `transition=None` labels are clean, and the linear model is multinomial
    logistic regression.

    Parameters
    ----------
    transition : Transition, str, tuple, dict, matrix or None
        How a class becomes a weak label: an object (``tp.complementary(10)``), a text (``"symmetric:0.2"``, see
        `tproper.specs.parse_transition`; the number of classes may be left out where labels tell it), a name with
        parameters (``("symmetric", {"p": 0.2})``), or T itself (weak labels x classes). None: clean labels.
    loss : str, loss object or callable
        "forward": ``-log (T p)_y``, proper for every T, bounded, and the most accurate in practice. "backward":
        ``F(v) - <R e_y, v>`` with `potential`, `squeeze` and `reconstruction`. "gls": the same, squeezed (k = 1,
        alpha = 2 unless `squeeze` says otherwise), bounded. "ga" and "nonnegative": bounded heuristics on batches.
        Or a loss module called as ``loss(scores, encoded_labels)``, or a callable that makes one from the transition.
    model : "linear", "mlp" or callable
        A callable gets ``(n_features, n_classes)`` and returns an ``nn.Module`` from features to scores.
    potential : str or Potential
        F of a backward loss: "logsumexp", "brier", "sparsemax", "tsallis:1.5", "spherical:simplex".
    squeeze : (k, alpha), optional
        Generalised logit squeezing of F.
    reconstruction : str, Reconstruction or matrix
        R of a backward loss; "auto", "inverse", "pinv", "min_variance", "tightest".
    classes : list, optional
        Class names in the order of T's columns. Default: the sorted distinct labels where weak labels are called like
        classes (clean, noisy, complementary), else 0 .. K-1.
    l2 : float
        Penalty on the weights. The default is small: forward losses gain from confident scores, and a strong penalty
        makes them give up classes (complementary labels suffer first). `tune` finds what the data bear.
    max_iter : int
        Iterations of the linear solver (L-BFGS, float64).
    tol : float
        Linear solver: the largest entry of the objective's gradient at the end, with respect to intercepts and the
        coefficients of standardised features. Minibatches: the least fall of the held-out risk that counts.
    epochs, batch_size, learning_rate, hidden
        Minibatch training (Adam, cosine schedule) of "mlp", callables, and linear models with a loss of whole batches
        or with ``early_stopping=True``. ``batch_size="auto"``: a tenth of the rows, between 8 and 128. `hidden`: widths
        of the MLP's layers.
    early_stopping : bool or "auto"
        Minibatches: hold out `validation_fraction` of the rows, stop after `patience` epochs without improvement of
        their *weak* risk, keep the best epoch. "auto": for models other than linear ones on 500 rows or more.
    validation_fraction, patience
        See `early_stopping`.
    device : str
        "auto" (CUDA where there is one), "cpu", "cuda", ... The linear solver always runs on the CPU.
    random_state : int, RandomState or None
        Initialisation, order of rows, held-out rows.
    warm_start : bool
        `fit` starts from the last solution, and refuses another number of features or classes, or another model.
    tune : bool, dict, list of dicts or None
        True: choose loss, squeeze, l2 and learning rate by cross-validated weak risk, then fit on everything. A grid
        (as for ``GridSearchCV``) is searched instead. What was tried is kept in `cv_results_`, `best_params_`.
    verbose : int

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.
    transition_ : Transition
    loss_ : nn.Module
    module_ : nn.Module
        From features to scores; an ``nn.Linear`` in float64 for the linear model.
    certificate_ : Certificate
        What is known about `loss_`: properness, bounds, witness. Computed when asked for.
    history_ : list of dicts
        One entry per iteration or epoch.
    n_iter_ : int

    Notes
    -----
    Forward losses are convex in the scores for clean labels only; backward losses are convex for every F. Elsewhere the
    linear solver finds a stationary point from zero scores, deterministically.
    """

    module_: nn.Module
    loss_: nn.Module
    _optimizer: torch.optim.Optimizer | None

    def __init__(
        self,
        transition: Any = None,
        loss: Any = "forward",
        model: str | Callable[[int, int], nn.Module] = "linear",
        *,
        potential: Any = "logsumexp",
        squeeze: tuple[float, float] | None = None,
        reconstruction: Any = "auto",
        classes: Any = None,
        l2: float = 3e-4,
        max_iter: int = 1000,
        tol: float = 1e-5,
        epochs: int = 100,
        batch_size: int | str = "auto",
        learning_rate: float = 3e-3,
        hidden: tuple[int, ...] = (128,),
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        patience: int = 10,
        device: str = "auto",
        random_state: Any = None,
        warm_start: bool = False,
        tune: Any = False,
        verbose: int = 0,
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
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.tune = tune
        self.verbose = verbose

    # Fitting.

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> WeakLabelClassifier:
        """Fit to features X (n, d) and weak labels y.

        y holds class names where weak labels are called like classes; candidate sets as boolean masks (n, K), True =
        still possible, or as lists or sets of class names; (source, label) pairs for several sources; elsewhere the
        names or indices of weak labels.
        """
        self._check_settings()
        if self.tune is not None and flag(self.tune) is not False:
            return self._fit_tuned(X, y, sample_weight)
        previous = self._warm_module() if self.warm_start else None
        X = self._features(X, reset=True)
        self.transition_, self.classes_ = _labels.resolve(y, self._transition_or_loss(), self.classes)
        self.loss_ = self._make_loss()
        labels = _labels.encode(y, self.transition_, self.classes_)
        check_consistent_length(X, labels)
        X, labels, weights = self._weighted(X, labels, sample_weight)
        self._certificate = None
        self._optimizer = None
        rng = check_random_state(self.random_state)
        if previous is not None:
            self._check_warm(*previous)
        if self._uses_lbfgs():
            self._fit_linear(X, labels, weights, None if previous is None else previous[0])
        else:
            self._fit_minibatch(X, labels, weights, rng, None if previous is None else previous[0])
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> WeakLabelClassifier:
        """One pass of minibatch steps over the rows given, from wherever the model is now.

        The first call needs `classes` (here or as a parameter) unless the transition says how many there are. The
        optimiser's state is kept between calls; the learning rate stays constant. A call that diverges is undone.
        """
        self._check_settings()
        before = Before(self)
        first = not hasattr(self, "module_")
        X = self._features(X, reset=first)
        if first:
            names = classes if classes is not None else self.classes
            self._optimizer = None
            if names is None and not self._size_known():
                raise ValueError(
                    "classes: expected all class names on the first call of partial_fit, got none; "
                    "pass classes=, or a transition that says how many there are"
                )
            self.transition_, self.classes_ = _labels.resolve(y, self._transition_or_loss(), names)
            self.loss_ = self._make_loss()
            self.history_, self.n_iter_ = [], 0
        elif classes is not None and not np.array_equal(np.asarray(classes), self.classes_):
            raise ValueError(
                f"classes: expected those of the first call, {self.classes_.tolist()}, got {list(classes)}"
            )
        labels = _labels.encode(y, self.transition_, self.classes_)
        check_consistent_length(X, labels)
        X, labels, weights = self._weighted(X, labels, sample_weight)
        rng = check_random_state(self.random_state)
        self._stream: Any = rng if first else getattr(self, "_stream", rng)  # later calls go on in the same stream
        device = self._device()
        before.add(rng := self._stream)
        with seeded(rng, device) as generator:
            if first:
                self.module_ = self._make_module(device)
            self.module_.to(device)
            known: torch.optim.Optimizer | None = getattr(self, "_optimizer", None)
            optimizer = known or minibatch.make_optimizer(self.module_, self.learning_rate, self.l2)
            self._optimizer = optimizer
            steps = self._steps(len(labels), generator, device)
            steps.optimizer = optimizer
            before.add(self.module_, optimizer)
            rows = minibatch.Rows(X, self._dtype(), device)
            value = minibatch.train_epoch(
                self.module_, self.loss_.to(device), rows, labels.to(device), on_device(weights, device), steps
            )
        before.check(value)
        self.history_.append({"loss": value})
        self.n_iter_ += 1
        return self

    def _fit_linear(self, X: Any, labels: Tensor, weights: FloatArray | None, start: nn.Module | None) -> None:
        if self.device not in ("auto", "cpu"):
            raise ValueError(
                f"device: expected 'auto' or 'cpu' for the linear solver, got {self.device!r}; "
                "early_stopping=True trains linear models in minibatches on any device"
            )
        assert isinstance(self.loss_, WeakLabelLoss)
        at = None
        if start is not None:
            assert isinstance(start, nn.Linear)
            at = (start.weight.detach().cpu().double().numpy(), start.bias.detach().cpu().double().numpy())
        found = linear.fit_linear(X, labels, self.loss_, weights, self.l2, self.tol, self.max_iter, at, self.verbose)
        self.module_ = linear_module(found.coef, found.intercept)
        self.history_, self.n_iter_ = found.history, max(1, found.iterations)
        self.objective_ = found.objective

    def _fit_minibatch(
        self, X: Any, labels: Tensor, weights: FloatArray | None, rng: Any, start: nn.Module | None
    ) -> None:
        device = self._device()
        n = len(labels)
        order = rng.permutation(n)
        hold = flag(self.early_stopping) is True or (
            self.early_stopping == "auto" and self.model != "linear" and n >= AUTO_EARLY_STOPPING
        )
        kept = n - math.ceil(self.validation_fraction * n) if hold else n
        if kept < 1:
            raise ValueError(f"validation_fraction: expected to leave rows to train on, got none of {n}")
        train, held = np.sort(order[:kept]), np.sort(order[kept:])
        with seeded(rng, device) as generator:
            self.module_ = (self._make_module(device) if start is None else start).to(device)
            self.loss_.to(device)

            def part(rows: NDArray[np.int64]) -> tuple[minibatch.Rows, Tensor, Tensor | None]:
                index = torch.as_tensor(rows)
                w = None if weights is None else weights[rows]
                return minibatch.Rows(X[rows], self._dtype(), device), labels[index].to(device), on_device(w, device)

            steps = self._steps(kept, generator, device)
            self.n_iter_ = minibatch.fit_minibatch(
                self.module_,
                self.loss_,
                *part(train),
                steps,
                epochs=self.epochs,
                held_out=part(held) if hold else None,
                patience=self.patience,
                tol=self.tol,
                verbose=self.verbose,
            )
        self.history_ = steps.history

    def _fit_tuned(self, X: Any, y: Any, sample_weight: Any) -> WeakLabelClassifier:
        found = _search.search(self, X, y, sample_weight, grid=None if flag(self.tune) is True else self.tune)
        best = _search.with_params(self, found.best_params, found.names)
        best.fit(X, y, sample_weight)
        for name, value in vars(best).items():  # fitted attributes only: the settings stay as the user made them
            if name.endswith("_") or name.startswith("_"):
                setattr(self, name, value)
        self.cv_results_, self.best_params_, self.best_index_ = found.results, found.best_params, found.best_index
        return self

    # Predicting.

    def decision_function(self, X: Any) -> FloatArray:
        """Centred scores (n, K); for two classes the score of the second minus that of the first (n,)."""
        scores = self._scores(X)
        with np.errstate(over="ignore", invalid="ignore"):  # refused instead
            two = len(self.classes_) == 2
            out = scores[:, 1] - scores[:, 0] if two else scores - scores.mean(axis=1, keepdims=True)
        return finite_rows(out, self.module_)

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities (n, K): the loss's own link of the scores, columns in the order of `classes_`."""
        scores = torch.as_tensor(self._scores(X))
        link = getattr(self.loss_, "probabilities", None)
        with torch.no_grad():
            out = torch.softmax(scores, -1) if link is None else link(scores).cpu()
        p = finite_rows(out.numpy(), self.module_)
        return self.transition_.population(p) if isinstance(self.transition_, BagTransition) else p

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row: every link keeps the order of the scores."""
        of_population = isinstance(self.transition_, BagTransition) and self.transition_.prior is not None
        scores = self.predict_proba(X) if of_population else self._scores(X)
        if len(self.classes_) == 2:
            return self.classes_[(scores[:, 1] > scores[:, 0]).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy as estimated from the *weak* labels y: the mean of ``(R e_y)`` at the predicted class.

        Unbiased for the accuracy on clean labels when y comes about as `transition_` says, plain accuracy when labels
        are clean. It may leave [0, 1] on few rows. To score against clean labels use
        ``sklearn.metrics.accuracy_score(y_true, clf.predict(X))``; for standard errors, `tproper.weak_accuracy`.
        """
        check_is_fitted(self, "module_")
        predicted = torch.as_tensor(self._scores(X).argmax(axis=1))
        labels = _labels.encode(y, self.transition_, self.classes_)
        check_consistent_length(predicted, labels)
        R = self.transition_.reconstruction()
        credit = R.targets(labels).gather(1, predicted[:, None])[:, 0].numpy()
        weights = None if sample_weight is None else row_weights(sample_weight, credit)
        silent = R.silent(labels)
        if silent is not None:  # rows in which no annotator answered
            weights = np.where(silent.numpy(), 0.0, 1.0 if weights is None else weights)
        return float(np.average(credit, weights=weights))

    def weak_log_likelihood(self, X: Any, y: Any) -> FloatArray:
        """``log (T p)_y`` of each row, p = predict_proba: how likely the model finds the weak labels it is shown."""
        p = torch.as_tensor(self.predict_proba(X))
        labels = _labels.encode(y, self.transition_, self.classes_)
        tables = {k: torch.as_tensor(np.array(a)) for k, a in self.transition_.tables().items()}
        # scores of log p give p back exactly under softmax, zeros included
        return self.transition_.log_probability(p.log(), labels, tables).numpy()

    @property
    def certificate_(self) -> Any:
        """Properness and bounds of the loss, with evidence; computed at the first use."""
        check_is_fitted(self, "module_")
        if getattr(self, "_certificate", None) is None:
            if not isinstance(self.loss_, WeakLabelLoss):
                raise AttributeError(f"certificate_: only tproper's losses certify themselves, not {type(self.loss_)}")
            self._certificate = self.loss_.certify()
        return self._certificate

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
        X = self._features(X, reset=False)
        if self.model == "linear":
            with np.errstate(over="ignore", invalid="ignore"):  # refused instead
                return finite_rows(np.asarray(X @ self.coef_.T) + self.intercept_, self.module_)
        module = self.module_
        if self.model == "mlp":  # in float64 a row's scores do not depend on the rows it is asked for together with
            module = copy.deepcopy(module).cpu().double()
        first, training = next(module.parameters(), torch.empty(0)), module.training
        scores = minibatch.scores_of(module, minibatch.Rows(X, first.dtype, first.device))
        module.train(training)
        return finite_rows(scores.double().cpu().numpy(), self.module_, masks=callable(self.model))

    # Settings.

    def _check_settings(self) -> None:
        checks.real(self.l2, "l2", 0)
        checks.real(self.tol, "tol", 0)
        checks.real(self.learning_rate, "learning_rate", 0, low_open=True)
        checks.real(self.validation_fraction, "validation_fraction", 0, 0.9, low_open=True)
        for name in ("max_iter", "epochs", "patience"):
            checks.integer(getattr(self, name), name, 1)
        if self.batch_size != "auto":
            checks.integer(self.batch_size, "batch_size", 1)
        if flag(self.early_stopping) not in (True, False, "auto"):
            raise ValueError(f"early_stopping: expected True, False or 'auto', got {self.early_stopping!r}")
        if not callable(self.model) and self.model not in ("linear", "mlp"):
            raise ValueError(f"model: expected 'linear', 'mlp' or a callable, got {self.model!r}")

    def _transition_or_loss(self) -> Any:
        """The transition; that of the loss where only the loss has one."""
        if self.transition is None and isinstance(self.loss, WeakLabelLoss):
            return self.loss.transition
        return self.transition

    def _size_known(self) -> bool:
        value = self._transition_or_loss()
        try:
            return value is not None and make_transition(value) is not None
        except UnknownSizeError:
            return False

    def _make_loss(self) -> nn.Module:
        return make_loss(self.loss, self.transition_, self.potential, self.squeeze, self.reconstruction)

    def _uses_lbfgs(self) -> bool:
        return self.model == "linear" and linear.has_pointwise(self.loss_) and flag(self.early_stopping) is not True

    def _features(self, X: Any, reset: bool) -> Any:
        linear = self.model == "linear"
        return validate_data(
            self, X, reset=reset, accept_sparse="csr" if linear else False, dtype=np.float64 if linear else np.float32
        )

    def _dtype(self) -> torch.dtype:
        return torch.float64 if self.model == "linear" else torch.float32

    def _device(self) -> torch.device:
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() and self.model != "linear" else "cpu")
        try:
            device = torch.device(self.device)
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(
                f"device: expected 'auto', 'cpu' or a device of this machine, got {self.device!r}"
            ) from error
        return device

    def _steps(self, n: int, generator: torch.Generator, device: torch.device) -> minibatch.Steps:
        low, high = AUTO_BATCH
        size = min(high, max(low, n // 10)) if self.batch_size == "auto" else int(self.batch_size)
        return minibatch.Steps(self.learning_rate, self.l2, size, generator, device)

    def _make_module(self, device: torch.device) -> nn.Module:
        d, K = self.n_features_in_, len(self.classes_)
        if self.model == "linear":
            return linear_module(np.zeros((K, d)), np.zeros(K))
        if self.model == "mlp":
            return mlp_module(d, K, self.hidden)
        module = self.model(d, K)  # type: ignore[operator]
        if not isinstance(module, nn.Module):
            raise ValueError(f"model: expected the callable to return an nn.Module, got {type(module).__name__}")
        module.to(device).eval()
        with torch.no_grad():
            shape = tuple(module(torch.zeros(2, d, device=device)).shape)
        if shape != (2, K):
            raise ValueError(f"model: expected scores of shape (n, {K}), got {shape} for n = 2")
        return module

    def _warm_module(self) -> tuple[nn.Module, int, int] | None:
        if not hasattr(self, "module_"):
            return None
        return self.module_, self.n_features_in_, len(self.classes_)

    def _check_warm(self, module: nn.Module, features: int, classes: int) -> None:
        if (features, classes) != (self.n_features_in_, len(self.classes_)):
            raise ValueError(
                f"warm_start: expected the {features} features and {classes} classes of the last fit, got "
                f"{self.n_features_in_} and {len(self.classes_)}"
            )
        with torch.random.fork_rng(devices=[]):  # one more module must not change the fit's random numbers
            if not same_form(module, self._make_module(torch.device("cpu"))):
                raise ValueError("warm_start: expected the model of the last fit, got another; fit a new estimator")

    def _weighted(self, X: Any, labels: Tensor, sample_weight: Any) -> tuple[Any, Tensor, FloatArray | None]:
        """Rows of positive weight, and their weights with mean one (None where all are equal)."""
        if sample_weight is None:
            return X, labels, None
        w = row_weights(sample_weight, X)
        used = np.flatnonzero(w > 0)
        if len(used) < len(w):
            X, labels, w = X[used], labels[torch.as_tensor(used)], w[used]
        return X, labels, (None if (w == w[0]).all() else w / w.mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.model == "linear"
        tags.classifier_tags.poor_score = False
        return tags
