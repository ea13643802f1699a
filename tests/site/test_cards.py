"""`tproper train` writes its card twice, as Markdown and as a page with the pictures inside: the same words."""

import re
from itertools import pairwise

import numpy as np
import pytest
from typer.testing import CliRunner

from tproper.cli.main import app

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("card")
    rng = np.random.default_rng(3)
    z = rng.integers(2, size=300)
    rows = [f"{x:.3f},{'<b>yes</b>' if k else 'no'}" for x, k in zip(rng.normal(size=300) + 3 * z, z, strict=True)]
    (out / "t.csv").write_text("\n".join(["x,label", *rows]) + "\n")
    options = ["--label", "label", "--transition", "symmetric:0.1", "--out", str(out / "model")]
    result = CliRunner().invoke(app, ["train", str(out / "t.csv"), *options])
    assert result.exit_code == 0, result.output
    assert "model_card.html" in result.stdout
    return out / "model"


def test_the_page_says_what_the_card_says(folder):
    card, page = (folder / "model_card.md").read_text(), (folder / "model_card.html").read_text()
    headings = re.findall(r"^## (.*)$", card, flags=re.M)
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == headings
    assert "bounded from below  yes" in page
    assert page.count("data:image/png;base64,") == len(re.findall(r"!\[", card)) == 1
    assert not re.search(r"(src|href)=['\"](?!data:|#)", page)


def test_names_from_the_table_are_text_on_the_page(folder):
    page = (folder / "model_card.html").read_text()
    assert "<b>" not in page
    assert "&lt;b&gt;yes&lt;/b&gt;" in page


def test_a_folder_with_both_cards_is_replaced_with_force(folder):
    options = ["--label", "label", "--transition", "symmetric:0.1", "--out", str(folder), "--force"]
    result = CliRunner().invoke(app, ["train", str(folder.parent / "t.csv"), *options])
    assert result.exit_code == 0, result.output


def trained(out, table, *options):
    return CliRunner().invoke(app, ["train", str(table), "--transition", "symmetric:0.1", "--out", str(out), *options])


def test_names_are_text_in_both_cards(tmp_path):
    """Of classes, columns, the label's column, the file and the folder: no picture, link, heading or file of theirs."""
    import pyarrow as pa
    from markdown_it import MarkdownIt
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    z = rng.integers(2, size=300)
    names = np.array(["![x](http://evil.example/x.png)", "[go](https://evil.example) <b>"])
    label = "y|```\n# top\n![f](reliability.png)"
    columns = {"a\n\n![f](/etc/hostname)": rng.normal(size=300) + 3 * z, "`b` **c**": rng.normal(size=300)}
    odd = tmp_path / "![d](model.json) `t`.parquet"
    parquet.write_table(pa.table(columns | {label: names[z]}), odd)
    result = trained(tmp_path / "m ![x](www.evil.example)", odd, "--label", label)
    assert result.exit_code == 0, result.output
    assert "card" not in result.stderr
    folder = tmp_path / "m ![x](www.evil.example)"
    tokens = MarkdownIt("commonmark").enable("table").parse((folder / "model_card.md").read_text())
    tags = [t for token in tokens for t in (token, *(token.children or ()))]
    assert [t.attrGet("src") for t in tags if t.type == "image"] == ["reliability.png"]
    assert not [t for t in tags if t.type in ("link_open", "html_inline", "html_block")]
    bold = {following.content for t, following in pairwise(tags) if t.type == "strong_open"}
    assert "What it does." in bold
    assert "c" not in bold
    assert len([t for t in tags if t.type == "heading_open" and t.tag == "h1"]) == 1
    page = (folder / "model_card.html").read_text()
    assert page.count("<img") == 1
    assert not re.search(r"(src|href)=['\"](?!data:|#)", page)
    assert "!\\[x\\](http\\://evil.example/x.png)" in (folder / "model_card.md").read_text()


@pytest.mark.parametrize("broken", ["model_card", "html_page", "draw"])
def test_a_model_stays_when_its_card_fails(broken, tmp_path, folder, monkeypatch):
    """Whatever fails there: the fit may have taken hours."""
    import tproper as tp

    def fails(*args, **options):
        raise ZeroDivisionError("no card today")

    monkeypatch.setattr(f"tproper.tables.model.{broken}", fails)
    result = trained(tmp_path / "model", folder.parent / "t.csv", "--label", "label")
    assert result.exit_code == 0, result.output
    assert f"warning: the model is in {tmp_path / 'model'}, but not all of its card: ZeroDivisionError" in result.stderr
    assert tp.load(tmp_path / "model").predict_proba(np.zeros((2, 1))).shape == (2, 2)
    others = {"model_card": set(), "html_page": {"model_card.md"}, "draw": {"model_card.md", "model_card.html"}}
    cards = {p.name for p in (tmp_path / "model").iterdir() if p.suffix in (".md", ".html")}
    assert cards == others[broken]
    again = trained(tmp_path / "model", folder.parent / "t.csv", "--label", "label", "--force")  # it is still a model
    assert again.exit_code == 0


def test_the_model_is_in_place_before_its_card_is_made(tmp_path, folder, monkeypatch):
    from tproper.tables import TableModel

    there = []
    monkeypatch.setattr(
        "tproper.tables.model.model_card", lambda *a: there.append((tmp_path / "m" / "model.json").exists())
    )
    model = TableModel.fit(folder.parent / "t.csv", "symmetric:0.1", label="label")
    with pytest.warns(UserWarning, match="not all of its card"):
        model.save(tmp_path / "m")
    assert there[0] is True


def test_names_that_are_not_utf_8(tmp_path, folder):
    """Of the folder: shown by their bytes. Of the table, which cannot be opened: refused before the work."""
    import os

    odd = os.fsdecode(b"caf\xe9")
    result = trained(tmp_path / odd, folder.parent / "t.csv", "--label", "label")
    assert result.exit_code == 0, result.output
    assert (tmp_path / odd / "model_card.md").read_text().startswith("# Model card: caf\\\\udce9\n")
    assert "<title>Model card: caf\\udce9</title>" in (tmp_path / odd / "model_card.html").read_text()
    (tmp_path / f"{odd}.csv").write_bytes((folder.parent / "t.csv").read_bytes())
    result = trained(tmp_path / "other", tmp_path / f"{odd}.csv", "--label", "label")
    assert result.exit_code == 2
    assert "expected a path in UTF-8" in result.output


def test_a_model_that_was_loaded_is_saved_with_its_card(tmp_path, folder):
    from tproper.tables import TableModel

    TableModel.load(folder).save(tmp_path / "again")
    assert (tmp_path / "again" / "model_card.html").exists()
    for name in ("model_card.md", "reliability.png"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
