"""Options that several commands share, and the checks that need nothing but the option."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from .. import tables
from .later import Later

if TYPE_CHECKING:
    from .. import _core as core
else:
    core = Later("_core")

LIST = "A,B"  # how a list of columns or classes is given, once: see `main`

Data = Annotated[Path, typer.Argument(help="a .csv, .tsv or .parquet file, or a folder of Parquet files")]
Model = Annotated[Path, typer.Argument(help="the folder that `tproper train` wrote")]
Specs = Annotated[
    list[str],
    typer.Option(
        "--transition",
        help="how labels were weakened: complementary, symmetric:0.2, partial:0.3, pu:0.5, T.csv, ...; "
        "estimate for T from the table itself; NAME=SPEC once per annotator, or per source with --source-column",
    ),
]
Features = Annotated[str | None, typer.Option(metavar=LIST, help="use only these columns, or all")]
Ignore = Annotated[str | None, typer.Option(metavar=LIST, help="use all columns but these")]
Classes = Annotated[
    str | None,
    typer.Option(
        metavar=LIST,
        help="the classes in the order of the transition (default: as the labels name them; "
        "positive-unlabeled data: POSITIVE,NEGATIVE)",
    ),
]
SourceColumn = Annotated[str | None, typer.Option(help="the column that says where a label comes from")]
Group = Annotated[
    str | None, typer.Option(help="rows with the same value here are never split between training and scoring")
]
Force = Annotated[bool, typer.Option("--force", help="replace files that exist")]
Json = Annotated[bool, typer.Option("--json", help="machine-readable output")]
Seed = Annotated[int, typer.Option(help="random seed")]


@dataclass(frozen=True, kw_only=True)
class LabelOptions(tables.LabelOptions):
    """What `train`, `evaluate` and `estimate` are told of label columns; each declares which of the last two it has."""

    label: Annotated[str, typer.Option(metavar=LIST, help="the column with the weak labels; one per annotator")]
    true_label: Annotated[
        str | None, typer.Option(help="the column with the true class, empty where it is unknown")
    ] = None
    item: Annotated[str | None, typer.Option(help="one answer per row: the column that names the item")] = None
    annotator: Annotated[str | None, typer.Option(help="one answer per row: the column that names who answered")] = None
    features_from: Annotated[
        Path | None, typer.Option(help="one answer per row: a second table, with the features of every item")
    ] = None


def given(options: Any) -> dict[str, Any]:
    """The options as keywords of the function that does the work."""
    return {f.name: getattr(options, f.name) for f in fields(options)}


def flat(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that takes dataclasses of options, as Typer wants it: every option a parameter of its own.

    The options of a dataclass are its fields annotated with `typer.Option` or `typer.Argument`.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, dict[str, inspect.Parameter]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(hints.get(name)):
            groups[name] = _options(hints[name])
            parameters += groups[name].values()
        else:
            parameters.append(parameter.replace(annotation=hints.get(name, str), kind=parameter.KEYWORD_ONLY))
    if not groups:
        return command

    @functools.wraps(command)
    def wrapped(**given: Any) -> Any:
        built = {group: hints[group](**{name: given.pop(name) for name in names}) for group, names in groups.items()}
        return command(**given, **built)

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def _options(group: type) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return {
        f.name: inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[f.name],
            default=inspect.Parameter.empty if f.default is MISSING else f.default,
        )
        for f in fields(group)
        if any(isinstance(extra, typer.models.ParameterInfo) for extra in get_args(hints[f.name]))
    }


def echo_json(value: Any) -> None:
    """For machines; numbers that JSON does not have are text."""
    typer.echo(core.json_text(value, indent=2))
