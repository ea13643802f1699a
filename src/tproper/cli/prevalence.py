"""`tproper prevalence`: the shares of the classes, from labels of a judge and rows that somebody checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from .. import tables
from .errors import say, spoken
from .options import Classes, Data, Features, Group, Ignore, Json, LabelOptions, Seed, echo_json, given


@dataclass(frozen=True, kw_only=True)
class PrevalenceOptions(LabelOptions, tables.PrevalenceOptions):
    """Which columns hold what."""

    transition: Annotated[
        str | None, typer.Option(help="T of the labels, where it is known; --true-label may then be left out")
    ] = None
    features: Features = None
    ignore: Ignore = None
    classes: Classes = None
    group: Group = None
    seed: Seed = 0


def prevalence(
    options: PrevalenceOptions,
    data: Data,
    difference: Annotated[
        str | None, typer.Option(metavar="A,B", help="compare two classes: the share of A less that of B")
    ] = None,
    as_json: Json = False,
) -> None:
    """Shares of the classes from weak labels and rows of known class, with intervals."""
    with spoken():
        found = tables.prevalence_table(data, **given(options))
    pair = None if difference is None else found.difference(*tables.pair(difference, "--difference"))
    if as_json:
        echo_json(found.to_dict() | ({} if pair is None else {"difference": pair.to_dict()}))
        return
    say(str(found))
    if pair is not None:
        say(str(pair))
