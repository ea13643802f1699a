"""What is certified of every training method of the lab, on every kind of weak label that it takes.

python benchmarks/method_cards.py            decide (a minute), store the cards, write docs/methods.md
python benchmarks/method_cards.py --render   only write the page again
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from _protocol import RECORDS, store

import tproper as tp
from tproper_lab import METHODS, methods_for

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"
NAME = "method_cards"
KINDS = {
    "One complementary label, uniform": tp.complementary(10),
    "Three complementary labels, uniform": tp.multi_complementary(10, 3),
    "Partial labels": tp.partial_labels(10, 0.3),
    "Noisy labels, symmetric": tp.symmetric_noise(10, 0.3),
    "Noisy labels, to the next class": tp.pair_noise(10, 0.3),
    "Positive and unlabeled": tp.positive_unlabeled(0.5),
}
HEAD = """# Training methods and their certificates

Made by `python benchmarks/method_cards.py` from `benchmarks/records/method_cards.json`. `tproper bench --methods NAME`
trains with them; `tproper_lab.METHODS[NAME].card(T)` decides them for any T.

*Proper*: the expected loss is least at the true class probabilities. *Bounded*: it cannot fall without end. *Exact*
verdicts follow from theorems. *Numerical* ones are searches: a no to properness comes with a counterexample for this T,
which is proof; a yes means that none was found, with four classes of the same family. Probabilities are softmax of the
scores but where a loss of the library has a link of its own. A method that is not proper can still rank the classes
well: then its predictions are good, and its probabilities are not.
"""


def decide() -> dict[str, Any]:
    """The cards, by kind of label."""
    out: dict[str, Any] = {}
    for kind, T in KINDS.items():
        out[kind] = {"transition": T.name, "cards": []}
        for method in methods_for(T):
            start = time.perf_counter()
            card = method.card(T).to_dict()
            del card["certificate"]
            out[kind]["cards"].append({**card, "seconds": round(time.perf_counter() - start, 2)})
            print(kind, method.name, card["verdict"])
    return out


def render(record: dict[str, Any]) -> str:
    """The page."""
    yes = {True: "yes", False: "no", None: "-"}
    lines, words = [HEAD], {}
    for kind, part in record["kinds"].items():
        lines += [f"## {kind}", "", f"T: `{part['transition']}`.", ""]
        lines += [
            "| name | method | proper | bounded | evidence | reference |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for c in part["cards"]:
            if c["evidence"] == "words":
                words[c["method"]] = f"- `{c['method']}`: {c['verdict']}."
            cells = [f"`{c['method']}`", c["title"], yes[c["proper"]], yes[c["bounded"]], c["evidence"], c["reference"]]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    lines += ["## Where no certificate applies", "", *words.values()]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page, from the record."""
    record = json.loads((RECORDS / f"{NAME}.json").read_text())
    shown = {c["method"] for part in record["kinds"].values() for c in part["cards"]}
    assert shown == set(METHODS), "a method without a card: run this without --render"
    return render(record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true", help="only write the page again")
    if not parser.parse_args().render:
        store(NAME, {"kinds": decide()})
    PAGE.write_text(page())
    print("page:", PAGE)


if __name__ == "__main__":
    main()
