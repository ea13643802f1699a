"""The architecture as it is drawn: rooms in order, three routes that draw each room once, and names that exist."""

import json
import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest
from test_layout import ROOMS

ROOT = Path(__file__).parents[2]
WALK = runpy.run_path(str(ROOT / "tools" / "routes.py"))
RECORD = json.loads((ROOT / "benchmarks" / "records" / "routes.json").read_text())
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROUTES = dict(re.findall(r"^\*\*(.*?)\*\*.*?:\n\n((?: {4}.*\n)+)", PAGE, re.M))
REFERENCE = re.compile(r"(?:Theorem|Proposition|Corollary|Appendix|Section) [\dA-Z.]+|Assumption \(b\)")
LINE = re.compile(r"( {4,})(\w+) +(\S+(?:, \S+)*) {2,}(\S.*)")


def test_the_table_of_rooms_is_the_order_of_layers():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.M) == ROOMS


def test_there_are_three_routes():
    assert [name.split(",")[0].strip("`") for name in ROUTES] == [
        "A loss call",
        "WeakLabelClassifier.fit",
        "tproper train --tune",
    ]


@pytest.mark.parametrize("name", ROUTES)
def test_each_room_is_drawn_once_and_every_module_exists(name):
    lines = [LINE.fullmatch(line) for line in ROUTES[name].splitlines()]
    assert all(lines), name
    rooms = [line[2] for line in lines]
    assert len(rooms) >= 4
    assert len(set(rooms)) == len(rooms)
    for line in lines:
        for module in line[3].split(", "):
            assert find_spec(f"tproper.{line[2]}.{module}") is not None, module


@pytest.mark.parametrize("name", ROUTES)
def test_a_room_calls_rooms_above_it_alone(name):
    above: list[tuple[int, str]] = []
    for line in ROUTES[name].splitlines():
        indent, room = len(LINE.fullmatch(line)[1]), LINE.fullmatch(line)[2]
        above = [(i, r) for i, r in above if i < indent]
        assert all(ROOMS.index(room) < ROOMS.index(r) for _, r in above)
        above.append((indent, room))


@pytest.fixture(scope="module")
def routes(tmp_path_factory):
    return WALK["routes"](str(tmp_path_factory.mktemp("routes")))


@pytest.mark.parametrize(("name", "route"), zip(ROUTES, ["call", "fit", "train"], strict=True))
def test_a_route_is_drawn_as_it_is_walked(name, route, routes):
    """Modules that it visits, and rooms that call each other; no room of five functions or more is left out."""
    walk = WALK["walked"](routes[route], again=False)
    visited = {module for module, _ in walk.functions}
    drawn, above = set(), []
    for line in ROUTES[name].splitlines():
        indent, room, modules, _ = LINE.fullmatch(line).groups()
        drawn.add(room)
        assert {f"{room}.{module}" for module in modules.split(", ")} <= visited
        above = [(i, r) for i, r in above if i < len(indent)]
        assert not above or (above[-1][1], room) in walk.calls
        above.append((len(indent), room))
    assert {room for room in walk.rooms if walk.rooms.count(room) >= 5 and RECORD[route]["modules"].get(room)} <= drawn


@pytest.mark.parametrize("route", ["backward", "forward"])
def test_the_walk_of_a_call_is_the_one_on_record(route, routes):
    """After a change of what a call visits: `python tools/routes.py --write`, then `make pages`."""
    assert WALK["walked"](routes[route]).summary() == RECORD[route]


def test_the_theory_stands_in_the_code_where_its_page_says():
    page = (ROOT / "docs" / "theory.md").read_text()
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", page.split("| theory | code |")[1], re.M)
    table = dict(rows[1:8])
    assert len(table) == 7
    for theory, code in table.items():
        path = ROOT / re.search(r"\]\(.*?/main/(.*?)\)", code)[1]
        assert path.exists(), theory
        words = path.read_text() if path.is_file() else "".join(p.read_text() for p in path.rglob("*.py"))
        for reference in re.findall(
            r"(?:Theorem|Proposition|Corollary|Appendix|Section) [\dA-Z.]+|Assumption \(b\)", theory
        ):
            assert reference in words, (theory, reference)
