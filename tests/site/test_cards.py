"""`tproper train` writes its card twice, as Markdown and as a page with the pictures inside: the same words."""

import re

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
