"""The leaderboard: methods side by side on each problem, from the records of `tproper bench`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from scipy.special import stdtrit

from tproper.plots import markdown_text
from tproper.transitions import Transition

from .datasets import NAMES, dataset_names, load
from .methods import Card, find_method, setting_of
from .models import model_names
from .pages import Page, Table, moments
from .paper import usual
from .problems import Problem, text_transition
from .protocol import RULES, SEARCH_SEED, TrialConfig
from .real_labels import estimated_here
from .records import Record, first_revision, kernels_of, least_weak_risk, rate_of_least_risk
from .verdicts import Verdicts, is_proper_and_bounded, short_verdict

PAGE = Page("Leaderboard", "leaderboard.md", "leaderboard.html")
#: The scores of a row: which part of a selection, which number of it, its heading, whether more is better.
ACCURACY = ("raw", "accuracy")
LOG_LOSS = ("by_weak", "log_loss")
SCORES: dict[tuple[str, str], str] = {
    ACCURACY: "accuracy, %",
    ("raw", "log_loss"): "log loss",
    LOG_LOSS: "calibrated",
    ("raw", "brier"): "Brier",
    ("by_weak", "brier"): "calibrated",
    ("raw", "ece"): "calibration error",
    ("by_weak", "ece"): "calibrated",
}
SOFT: dict[tuple[str, str], str] = {
    ("raw", "soft_log_loss"): "against people's",
    ("by_weak", "soft_log_loss"): "calibrated",
}
SOFT_NOTE = "\"Against people's\" is the cross entropy against the shares of people's answers to the test images."
NOTE = (
    "Scores on the test set, mean ± standard error over trials (- where a trial diverged). A method has a line for "
    'each way to choose the epoch: "clean" is the epoch of the best accuracy on clean validation labels; "weak" is '
    "the last epoch whose calibrated risk on held-out weak labels is within one standard error of the least, which "
    "needs no clean label. Learning rates are searched for every method from the same grid with the same budget, and "
    "the one of the least weak risk is taken, unless a block says otherwise: the calibrated forward risk of held-out "
    "weak labels, which uses T, also for methods that do not use T. Probabilities are those of the method's "
    'own link; "calibrated" are those after a map chosen and fitted by held-out weak labels alone '
    "(`tproper.calibrate` as it was at the revisions named below). The certificate says whether the method's loss is "
    "proper and bounded from below for the "
    'T that it is told. "Told" is what a method knows of how labels came about; '
    "`tproper bench` makes the records, `tproper report` this page."
)
#: What a method that is told T knows, by the source of T.
TOLD = {
    "known": "the true T",
    "given": "T from clean labels",
    "estimated": "T estimated from weak labels",
    "wrong": "a wrong T",
}
KIND = "the kind of label"
UNIFORM = ":T=uniform"  # ends the name of a problem in which methods are told that labels are uniform
NO_BETTER = "‡"  # marks an accuracy within a point of the larger class's share


@dataclass(frozen=True)
class Entry:
    """The trials of one method in a block, where no two have the same title."""

    config: TrialConfig
    records: list[Record]
    title: str = ""

    def values(self, rule: str, score: tuple[str, str]) -> list[float]:
        """A score of every trial that has it (one that diverged has none)."""
        part, name = score
        values = [(r["selections"][rule].get(part) or {}).get(name) for r in self.records]
        return [float(v) for v in values if v is not None]

    def mean(self, rule: str, score: tuple[str, str]) -> tuple[float, float]:
        """Mean and standard error; nan where a trial has none."""
        values = self.values(rule, score)
        if len(values) < len(self.records) or not values:
            return math.nan, math.nan
        mean, sd, n = moments(values)
        return mean, sd / math.sqrt(n)

    def maps(self, rule: str) -> str:
        """The maps that calibration by weak labels has chosen."""
        names = [(r["selections"][rule].get("by_weak") or {}).get("method") for r in self.records]
        return ", ".join(sorted({n for n in names if n})) or "-"


@dataclass(frozen=True)
class Block:
    """One problem on one data set with one model."""

    config: TrialConfig  # of any of its trials
    kernels: str
    entries: list[Entry]
    searches: list[Record]

    @property
    def problem(self) -> Problem:
        """Which every trial of a benchmark has."""
        assert self.config.problem is not None
        return self.config.problem

    @property
    def told(self) -> Transition:
        """The T that methods are told."""
        dataset = self.config.dataset
        classes = 10 if dataset in NAMES else load(dataset).num_classes
        classes = len(self.problem.merged.split("|")) if self.problem.merged else classes
        return text_transition(self.problem.told or self.problem.labels, classes)

    @property
    def setting(self) -> tuple[str, str, str, str]:
        """Labels, data set, model, kernels: blocks that differ in nothing but what methods were told share it."""
        return self.problem.name.removesuffix(UNIFORM), self.config.dataset, self.config.model, self.kernels

    def told_to(self, entry: Entry) -> str:
        """What a method knows of how labels came about.

        Methods that do not use T take complementary labels and candidate sets to be uniform. One that is told a
        uniform T there knows no more than they do.
        """
        try:
            uses_t = find_method(entry.config.loss).uses_t
        except ValueError:  # another user's own
            uses_t = True
        uniform = self.problem.name.endswith(UNIFORM)
        if self.problem.source == "known" and setting_of(self.told) in (
            "complementary",
            "multi_complementary",
            "partial",
        ):
            uniform = is_uniform(self.told)
        return TOLD[self.problem.source] if uses_t and not uniform else KIND

    @property
    def larger_share(self) -> float:
        """The share of the larger of two classes where classes are merged from equally frequent ones; else 0."""
        groups = [len(group.split("+")) for group in self.problem.merged.split("|")]
        return max(groups) / sum(groups) if len(groups) == 2 else 0.0

    @property
    def title(self) -> str:
        """Problem, data set, model."""
        model, dataset = self.config.model, self.config.dataset
        own, name = usual(model)
        name = name if dataset == own else f"{dataset}, {model}"
        return f"{self.problem.name}: {name}" + (f", kernels {self.kernels}" if self.kernels else "")

    def note(self) -> str:
        """What T is told, the budget and the search."""
        config, problem = self.config, self.problem
        parts = [f"T {problem.source}" + (f", classes merged as {problem.merged}" if problem.merged else "")]
        if estimated_here(problem.name):
            every = [*self.searches, *(r for e in self.entries for r in e.records)]
            parts[0] += f" at revision {first_revision(every)}"
        parts.append(f"{counted([config.protocol.max_epochs], 'epoch')}, weight decay {config.weight_decay:g}")
        if self.searches:
            by_method = [{r["lr"] for r in searches_of(e.config, self.searches)} for e in self.entries]
            rates = sorted(set.intersection(*filter(None, by_method)))
            epochs = sorted({r["config"]["protocol"]["max_epochs"] for r in self.searches})
            seeds = len({r["seed"] for r in self.searches})
            parts.append(
                f"learning rates {', '.join(f'{rate:g}' for rate in rates)}, and beyond an end that wins, searched "
                f"with {counted([seeds], 'trial')} of {counted(epochs, 'epoch')} each"
            )
            given = [e.title for e, rates in zip(self.entries, by_method, strict=True) if not rates]
            if given:
                parts.append(f"no search, but a given rate, for {', '.join(given)}")
        else:
            parts.append("learning rates given, not searched")
        return "; ".join(parts) + "."


def is_uniform(transition: Transition) -> bool:
    """Whether T treats all classes alike, as methods that know only the kind of label suppose."""
    return not transition.name.startswith("transition") and "weights" not in transition.name


def counted(numbers: Sequence[int], what: str) -> str:
    """``1 trial``, ``8 trials``, ``2, 15 epochs``."""
    return f"{', '.join(map(str, numbers))} {what}{'' if [*numbers] == [1] else 's'}"


# --- from records to blocks -----------------------------------------------------------------------


def blocks(records: Sequence[Record]) -> list[Block]:
    """The blocks of the records that belong to a benchmark, by data set, model and problem."""
    groups: dict[Any, list[tuple[TrialConfig, Record]]] = {}
    for record in records:
        config = TrialConfig.from_dict(record["config"])
        if config.problem is None:
            continue
        where = (config.problem, config.dataset, config.model, kernels_of(record))
        groups.setdefault(where, []).append((config, record))
    out = []
    for (*_, kernels), group in groups.items():
        searches = [r for _, r in group if r["seed"] >= SEARCH_SEED]
        budgets: dict[Any, dict[str, Entry]] = {}
        for config, record in group:
            if record["seed"] < SEARCH_SEED:
                block = budgets.setdefault((config.protocol, config.weight_decay), {})
                block.setdefault(config.key, Entry(config, [])).records.append(record)
        for entries in budgets.values():
            mine = [r for e in entries.values() for r in searches_of(e.config, searches)]
            mine = list({r["id"]: r for r in mine}.values())
            kept = by_the_rule(list(entries.values()), mine)
            titles = distinct_titles([title_of(e.config) for e in kept], [e.config for e in kept], METHODS_APART)
            kept = [replace(e, title=title) for e, title in zip(kept, titles, strict=True)]
            out.append(Block(kept[0].config, kernels, kept, mine))

    def place(block: Block) -> tuple[int, int, str]:
        return dataset_names().index(block.config.dataset), model_names().index(block.config.model), block.title

    return sorted(out, key=place)


def searches_of(config: TrialConfig, searches: Sequence[Record]) -> list[Record]:
    """The search trials of a configuration: all settings as here but the rate and the epochs, the longest of them."""

    def but_for_rate(other: TrialConfig) -> TrialConfig:
        return replace(other, lr=config.lr, protocol=replace(other.protocol, max_epochs=config.protocol.max_epochs))

    mine = [r for r in searches if but_for_rate(TrialConfig.from_dict(r["config"])) == config]
    longest = max((r["config"]["protocol"]["max_epochs"] for r in mine), default=0)
    return [r for r in mine if r["config"]["protocol"]["max_epochs"] == longest]


def by_the_rule(entries: list[Entry], searches: Sequence[Record]) -> list[Entry]:
    """Of a method that was trained at several rates, the one with the rate that its search has chosen by now."""
    out = []
    for entry in entries:
        rates: dict[float, list[float]] = {}
        for record in searches_of(entry.config, searches):
            rates.setdefault(record["lr"], []).append(least_weak_risk(record))
        rivals = [e for e in entries if replace(e.config, lr=entry.config.lr) == entry.config]
        best = rate_of_least_risk(rates) if rates else None
        if best == entry.config.lr or all(e.config.lr != best for e in rivals):
            out.append(entry)
    return out


#: What sets methods, or blocks, of one title apart.
METHODS_APART = (
    lambda c: f"T learned at rate {c.learned_lr:g}",
    lambda c: f"code {c.code[:6]}",
    lambda c: f"rate {c.lr:g}",
)
BLOCKS_APART = (lambda c: f"{c.protocol.max_epochs} epochs", lambda c: c.key[:6])


def distinct_titles(
    titles: Sequence[str], configs: Sequence[TrialConfig], apart: Sequence[Callable[[TrialConfig], str]]
) -> list[str]:
    """The titles; where several are the same, with what sets them apart."""
    pairs = list(zip(titles, configs, strict=True))
    for words in apart:
        rivals = {title: {words(c) for t, c in pairs if t == title} for title, _ in pairs}
        pairs = [(f"{t} ({words(c)})" if len(rivals[t]) > 1 else t, c) for t, c in pairs]
    return [title for title, _ in pairs]


# --- tables ---------------------------------------------------------------------------------------


def number(mean: float, error: float, scale: float = 1.0, digits: int = 3) -> str:
    """Mean ± standard error."""
    if math.isnan(mean):
        return "-"
    text = f"{scale * mean:.{digits}f}"
    return text if math.isnan(error) else f"{text} ± {scale * error:.{digits}f}"


def block_table(
    title: str, block: Block, cards: Mapping[str, Card | None], leading: Sequence[Lead], rules: Sequence[str] = RULES
) -> Table:
    """A line for every method and rule, the best accuracy by the last rule first."""
    soft = any(e.values(rule, score) for e in block.entries for rule in rules for score in SOFT)
    scores = SCORES | (SOFT if soft else {})
    means = {e.config.key: e.mean(rules[-1], ACCURACY)[0] for e in block.entries}
    entries = sorted(block.entries, key=lambda e: (math.isnan(means[e.config.key]), -means[e.config.key]))
    rows = []
    for entry in entries:
        rates = sorted({r["lr"] for r in searches_of(entry.config, block.searches)})
        rate = f"{entry.config.lr:g}" + (" (end of the grid)" if entry.config.lr in (*rates[:1], *rates[-1:]) else "")
        rest = [rate, str(len(entry.records)), short_verdict(cards[entry.config.key])]
        for rule in rules:
            first = rule == rules[0]
            cells = [number(*entry.mean(rule, score), *((100, 2) if score == ACCURACY else ())) for score in scores]
            if abs(entry.mean(rule, ACCURACY)[0] - block.larger_share) < 0.01:
                cells[0] += f" {NO_BETTER}"
            ends = rest if first else [""] * len(rest)
            rows.append(
                [
                    entry.title if first else "",
                    block.told_to(entry) if first else "",
                    rule,
                    *cells,
                    entry.maps(rule),
                    *ends,
                ]
            )
    head = ["", "told", "epoch by", *scores.values(), "map", "learning rate", "trials", "certificate"]
    marked = f"{NO_BETTER}: within a point of what naming the larger class always gives." if block.larger_share else ""
    parts = (block.note(), sentences(leading), SOFT_NOTE if soft else "", marked)
    note = markdown_text(" ".join(filter(None, parts)))
    undecided = [e for e in entries if cards[e.config.key] is None]
    own = [e.title for e in undecided if e.config.code]
    if len(own) < len(undecided):
        note += " `tproper report RUN --certify` decides what is not decided here, in some minutes."
    if own:
        note += (
            f" Records do not hold the code of a user's own loss ({markdown_text(', '.join(own))}), so "
            "`report --certify` cannot decide it; in Python, `tproper_lab.from_function(loss).card(T)` does."
        )
    return Table(title, note, head, rows)


def title_of(config: TrialConfig) -> str:
    """A method's name in print."""
    try:
        return find_method(config.loss).title
    except ValueError:
        return config.loss


#: How a leader is known: score, what it is called, the scale and digits it is written with, which end is best.
CONTESTS = (
    (ACCURACY, "accuracy", (100, 2), 1.0),
    (LOG_LOSS, "calibrated log loss", (1, 3), -1.0),
)


LEVEL = 0.05  # of the tests whether the best loss of a kind is ahead


@dataclass(frozen=True)
class Lead:
    """The best loss of a block that is certified proper and bounded beside the best other, by one score and rule."""

    rule: str
    what: str
    format: tuple[float, int]
    means: Mapping[str, tuple[float, float]]
    proper: Entry | None
    other: Entry | None
    ahead: tuple[float, float]  # by how much the first is better, and the standard error; nan where one is missing
    clear: bool  # whether that is more than trials scatter

    @property
    def best(self) -> Entry:
        """Who leads; a tie goes to the first."""
        best = self.other if self.proper is None or self.ahead[0] < 0 else self.proper
        assert best is not None
        return best

    @property
    def is_proper(self) -> bool:
        """Whether the leader is proper and bounded itself."""
        return self.best is self.proper

    def value(self, entry: Entry) -> str:
        """A method's score."""
        return number(*self.means[entry.config.key], *self.format)

    @property
    def gap(self) -> str:
        """How far the two are apart."""
        return number(abs(self.ahead[0]), self.ahead[1], *self.format)

    @property
    def verdict(self) -> str:
        """Whether the proper bounded loss is ahead of all others."""
        if self.proper is None or self.other is None:
            return "-"
        return "level" if not self.clear else "ahead" if self.is_proper else "behind"


def leads(block: Block, cards: Mapping[str, Card | None], rules: Sequence[str] = RULES) -> list[Lead]:
    """The leaders of a block, whatever methods were told."""
    return contest(block.entries, cards, rules)


def contest(entries: Sequence[Entry], cards: Mapping[str, Card | None], rules: Sequence[str] = RULES) -> list[Lead]:
    """The leaders by every score and rule; none where a method is alone."""
    out = []
    for rule in rules if len(entries) > 1 else ():
        for score, what, written, sign in CONTESTS:
            means = {e.config.key: e.mean(rule, score) for e in entries}
            ranked = [e for e in entries if not math.isnan(means[e.config.key][0])]
            ranked.sort(key=lambda e: -sign * means[e.config.key][0])
            if not ranked:
                continue
            certified = [e for e in ranked if is_proper_and_bounded(cards[e.config.key])]
            others = [e for e in ranked if e not in certified]
            proper, other = (next(iter(kind), None) for kind in (certified, others))
            ahead, clear = (math.nan, math.nan), False
            if proper is not None and other is not None:
                ahead, clear = compared(certified, others, rule, score, sign)
            out.append(Lead(rule, what, written, means, proper, other, ahead, clear))
    return out


def compared(
    ones: Sequence[Entry], others: Sequence[Entry], rule: str, score: tuple[str, str], sign: float
) -> tuple[tuple[float, float], bool]:
    """By how much the best of some methods (the first) is better than the best of others, the standard error, and
    whether that is more than trials scatter.

    A seed fixes the split, the labels that are drawn, the first weights and the batches, so trials are compared seed by
    seed: a paired t test. Of many methods that are equally good one is best by luck: the level is shared among all
    methods of the kind that leads (Bonferroni). Where one of the two has more trials than others of its kind, they were
    added after a look at the first ones: the level is shared between the two looks as well.
    """
    pair = ones[0], others[0]
    first, second = (dict(zip([r["seed"] for r in e.records], e.values(rule, score), strict=True)) for e in pair)
    both = first.keys() & second.keys()
    if len(both) < 2:
        return (sign * (pair[0].mean(rule, score)[0] - pair[1].mean(rule, score)[0]), math.nan), False
    mean, sd, n = moments([sign * (first[seed] - second[seed]) for seed in both])
    error, candidates = sd / math.sqrt(n), len(ones if mean >= 0 else others)
    looks = 2 if n > min(len(e.records) for e in (*ones, *others)) else 1
    return (mean, error), bool(abs(mean) > stdtrit(n - 1, 1 - LEVEL / 2 / candidates / looks) * error)


def sentences(leading: Sequence[Lead]) -> str:
    """Whether a proper bounded loss leads, by how much, and if not, how far behind it is."""
    out = []
    names = {lead.best.title for lead in leading}
    if len(leading) > 1 and len(names) == 1 and all(lead.is_proper for lead in leading):
        values = ", ".join(
            f"{lead.value(lead.best)} {lead.what} (epoch chosen by {lead.rule} labels)" for lead in leading
        )
        clear = sum(lead.clear for lead in leading)
        margin = f", {clear} times of {len(leading)} clearly" if any(lead.other for lead in leading) else ""
        return f"{names.pop()}, a proper bounded loss, leads by every score{margin}: {values}."
    for lead in leading:
        start = f"By {lead.what}, epoch chosen by {lead.rule} labels, {lead.best.title} leads ({lead.value(lead.best)})"
        scatter = "" if lead.clear else ", which is within the scatter of trials"
        if lead.is_proper:
            margin = f"; the best other, {lead.other.title}, is {lead.gap} behind{scatter}" if lead.other else ""
            out.append(f"{start}, a proper bounded loss{margin}.")
        elif lead.proper is None:
            out.append(f"{start}; no loss here is certified proper and bounded.")
        else:
            out.append(
                f"{start}, which is not certified proper and bounded; the best that is, "
                f"{lead.proper.title}, is {lead.gap} behind{scatter}."
            )
    return " ".join(out)


@dataclass(frozen=True)
class Contest:
    """The methods of one setting that were told the same, from all of its blocks."""

    setting: tuple[str, str, str, str]
    title: str
    told: str
    entries: list[Entry]
    cards: dict[str, Card | None]

    def leads(self, rules: Sequence[str]) -> list[Lead]:
        """The leaders among them by every score and rule."""
        return contest(self.entries, self.cards, rules)

    def verdict(self, rules: Sequence[str]) -> str:
        """One for all lines, which depend on each other: ahead or behind where one line is and none says otherwise."""
        found = {lead.verdict for lead in self.leads(rules)} - {"-"}
        if {"ahead", "behind"} <= found:
            return "mixed"
        return next((v for v in ("ahead", "behind", "level") if v in found), "-")


def contests(judged: Sequence[Judged]) -> list[Contest]:
    """The methods of each setting in groups that were told the same."""
    out: dict[Any, Contest] = {}
    for j in judged:
        for entry in j.block.entries:
            told = j.block.told_to(entry)
            title = j.title.replace(j.block.problem.name, j.block.setting[0], 1)
            group = out.setdefault((j.block.setting, told), Contest(j.block.setting, title, told, [], {}))
            group.entries.append(entry)
            group.cards.update(j.cards)
    return list(out.values())


def summary_table(judged: Sequence[Judged], rules: Sequence[str]) -> Table:
    """A line for every setting and what methods were told: the best proper bounded loss beside the best other."""
    rows, verdicts = [], []
    for group in contests(judged):
        found = group.leads(rules)
        verdict = group.verdict(rules) if len(group.entries) > 1 else "-"
        verdicts.append(verdict)
        for what in dict.fromkeys(lead.what for lead in found):
            lead = [lead for lead in found if lead.what == what][-1]  # epoch by the last rule
            both = ["-" if e is None else f"{e.title}, {lead.value(e)}" for e in (lead.proper, lead.other)]
            sign = "" if math.isnan(lead.ahead[0]) else "+" if lead.is_proper else "-"
            first = what == found[0].what
            start, end = ([group.title, group.told], verdict) if first else (["", ""], "")
            rows.append([*start, what, *both, sign + lead.gap if sign else "-", end])
    ahead, behind, level, mixed = (verdicts.count(v) for v in ("ahead", "behind", "level", "mixed"))
    note = (
        "Methods that were told the same are compared with each other; those told more have an advantage that is no "
        f"merit of the loss. Of {len(verdicts) - verdicts.count('-')} such comparisons the best loss that is "
        f"certified proper and bounded is ahead in {ahead}, behind in {behind}, level in {level} and ahead by one "
        f"score and behind by another in {mixed}; in {verdicts.count('-')} more groups all methods, or none, are "
        'proper and bounded. "Best" is the best on the test set of those that were tried: of several proper bounded '
        "losses one leads, seldom all, and a rival may be a single loss near chance (the table shows it). A comparison "
        "counts once: ahead if it is by accuracy or by calibrated log loss, for the "
        "epochs of either rule, and behind by none. The difference is taken trial by trial of the same seed (a paired "
        f"t test at {LEVEL:.0%}, shared among the methods of the kind that leads; where trials were added to close "
        f"comparisons after a look at the first ones, each look has half of it). Shown are epochs chosen by "
        f"{rules[-1]} labels."
    )
    head = ["", "told", "by", "best proper bounded loss", "best other loss", "difference", "the first is"]
    return Table("Who leads among methods that were told the same", note, head, rows)


def proper_table(judged: Sequence[Judged], rules: Sequence[str]) -> Table:
    """Every proper bounded loss in every block, not the best of them alone: its accuracy and its place."""
    rows = []
    for j in judged:
        means = {e.config.key: e.mean(rules[-1], ACCURACY)[0] for e in j.block.entries}
        ranked = sorted(
            (e for e in j.block.entries if not math.isnan(means[e.config.key])), key=lambda e: -means[e.config.key]
        )
        for place, entry in enumerate(ranked, 1):
            if is_proper_and_bounded(j.cards[entry.config.key]):
                value = number(*entry.mean(rules[-1], ACCURACY), 100, 2)
                log_loss = number(*entry.mean(rules[-1], LOG_LOSS))
                rows.append(
                    [j.title, entry.title, j.block.told_to(entry), value, log_loss, f"{place} of {len(ranked)}"]
                )
    note = (
        "Proper bounded losses differ among themselves, in places by tens of points. By accuracy among all methods of "
        "the "
        f"block, whatever they were told; epochs chosen by {rules[-1]} labels."
    )
    return Table(
        "Every proper bounded loss", note, ["", "loss", "told", "accuracy, %", "calibrated log loss", "place"], rows
    )


@dataclass(frozen=True)
class Judged:
    """A block under its title, and the card of every method in it."""

    title: str
    block: Block
    cards: Mapping[str, Card | None]

    def standings(self, rule: str) -> list[Standing]:
        """What a picture shows: the methods that have all scores, the most accurate last."""
        out = []
        for e in self.block.entries:
            accuracy, log_loss = (e.mean(rule, score) for score in (ACCURACY, LOG_LOSS))
            if not math.isnan(accuracy[0] + log_loss[0]):
                certified = is_proper_and_bounded(self.cards[e.config.key])
                out.append(Standing(e.title, certified, accuracy, log_loss))
        return sorted(out, key=lambda s: s.accuracy[0])


class Standing(NamedTuple):
    """A method in a picture; scores as mean and standard error."""

    name: str
    certified: bool  # proper and bounded
    accuracy: tuple[float, float]
    log_loss: tuple[float, float]


def judge(records: Sequence[Record], verdicts: Verdicts) -> list[Judged]:
    """The blocks of the records with their certificates, which are kept."""
    all_blocks, out = blocks(records), []
    titles = distinct_titles([b.title for b in all_blocks], [b.config for b in all_blocks], BLOCKS_APART)
    for title, block in zip(titles, all_blocks, strict=True):
        told = block.told
        out.append(Judged(title, block, {e.config.key: verdicts.of(e.config, told) for e in block.entries}))
    verdicts.save()
    return out


def leaderboard(judged: Sequence[Judged], rules: Sequence[str] = RULES) -> list[Table]:
    """Who leads, and a table for each block."""
    leading = {j.title: leads(j.block, j.cards, rules) for j in judged}
    tables = [block_table(j.title, j.block, j.cards, leading[j.title], rules) for j in judged]
    return [summary_table(judged, rules), proper_table(judged, rules), *tables] if len(tables) > 1 else tables
