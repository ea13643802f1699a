"""Published label files: read as plain arrays, checked, and given a T. The files here are made up, of the same form."""

import hashlib
import pickle

import numpy as np
import pytest
import torch

import tproper as tp
from tproper_lab import METHODS, setting_of
from tproper_lab.datasets import DataError
from tproper_lab.label_files import CIFAR10N, HUMAN, LLAVA, cifar10h_counts
from tproper_lab.real_labels import parse_spec, real_problem

K, N = 10, 4000
RNG = np.random.default_rng(0)
CLEAN = np.concatenate([np.arange(K), RNG.integers(0, K, N - K)])
TRUE = [tp.Transition((1 - s) * np.eye(K) + s * RNG.dirichlet(np.ones(K), K).T) for s in (0.2, 0.25, 0.3)]
NOISY = {f"random_label{i + 1}": T.sample(CLEAN, i).astype(np.int64) for i, T in enumerate(TRUE)}
VOTES = np.stack(list(NOISY.values()), axis=1)
MAJORITY = np.where(VOTES[:, 1] == VOTES[:, 2], VOTES[:, 1], VOTES[:, 0])  # the first where all three differ
NOISY |= {"aggre_label": MAJORITY, "worse_label": TRUE[2].sample(CLEAN, 6)}
BIASED = tp.complementary(K, weights=RNG.uniform(0.2, 1, (K, K)) * (1 - np.eye(K)))
OPPOSITE = np.stack([BIASED.sample(CLEAN, i) for i in range(9)], axis=1)


def digest(array):
    return hashlib.sha256(np.asarray(array).astype(np.uint8).tobytes()).hexdigest()


DIGESTS = {name: digest(labels) for name, labels in NOISY.items() if name != "worse_label"} | {LLAVA: digest(OPPOSITE)}


@pytest.fixture
def folder(tmp_path):
    np.savez(tmp_path / CIFAR10N, **{n: y.astype(np.uint8) for n, y in NOISY.items() if n != "worse_label"})
    np.savez(tmp_path / LLAVA, labels=OPPOSITE.astype(np.uint8))
    return tmp_path


def problem(spec, folder, clean=CLEAN, digests=DIGESTS):
    return real_problem(spec, folder, clean, digests)


def test_a_column_of_people_and_its_true_transition(folder):
    labels, T, text = problem("cifar10n:random2", folder)
    np.testing.assert_array_equal(labels, NOISY["random_label2"])
    for z in range(K):
        shares = np.bincount(labels[z == CLEAN], minlength=K) / (z == CLEAN).sum()
        np.testing.assert_allclose(T.matrix()[:, z], shares, atol=1e-12)
    assert setting_of(T) == "noisy"
    right = (labels == CLEAN).mean()
    assert text == f"cifar10n:random2: noisy labels, {right:.1%} of them the true class; T from the true classes"


def test_the_three_columns_are_three_annotators(folder):
    labels, T, text = problem("cifar10n:all", folder)
    assert labels.shape == (N, 3)
    assert len(T.transitions) == 3
    assert "3 per image" in text


@pytest.mark.parametrize(("spec", "near"), [("cifar10n:random3", TRUE[2]), ("cifar10n:aggregate", None)])
def test_estimated_transitions_use_no_clean_label(folder, spec, near):
    _, T, text = problem(f"{spec}:T=estimated", folder)
    true = problem(spec, folder).transition.matrix() if near is None else near.matrix()
    uniform = problem(f"{spec}:T=uniform", folder).transition
    assert "estimated from the labels" in text
    error = np.abs(T.matrix() - true).sum(axis=0).mean()
    assert error < 0.15
    if near is not None:
        assert error < np.abs(uniform.matrix() - true).sum(axis=0).mean()
    other = CLEAN.copy()
    other[:200] = (other[:200] + 1) % K  # T does not change with them
    np.testing.assert_array_equal(problem(f"{spec}:T=estimated", folder, other).transition.matrix(), T.matrix())


def test_uniform_noise_has_the_true_share_of_wrong_labels(folder):
    labels, T, _ = problem("cifar10n:random1:T=uniform", folder)
    assert T.same_as(tp.symmetric_noise(K, float((labels != CLEAN).mean())))


@pytest.mark.parametrize("m", [1, 3])
def test_complementary_labels_of_a_model(folder, m):
    labels, T, text = problem(f"llava:{m}", folder)
    np.testing.assert_array_equal(labels, OPPOSITE[:, 0] if m == 1 else OPPOSITE[:, :3])
    assert setting_of(T) == ("complementary" if m == 1 else "annotators")
    assert "0.0% of them the true class after all" in text
    uniform = problem(f"llava:{m}:T=uniform", folder).transition
    uniform = uniform if m == 1 else uniform.transitions[0]
    assert uniform.same_as(tp.complementary(K))
    estimated = problem(f"llava:{m}:T=estimated", folder).transition
    one = estimated if m == 1 else estimated.transitions[0]
    assert one.matrix().shape == (K, K)
    assert one.matrix().trace() < 0.7
    for name in ("forward", "scl_nl", "mcl_log"):
        risk = METHODS[name].build(T)(torch.zeros(1, 20, K), torch.as_tensor(labels)[None, :20], None)
        assert torch.isfinite(risk).all()


def test_the_authors_own_file_is_read_without_unpickling(tmp_path):
    torch.save({"clean_label": CLEAN, **NOISY}, tmp_path / HUMAN)
    labels, _, _ = problem("cifar10n:worst", tmp_path)
    np.testing.assert_array_equal(labels, NOISY["worse_label"])
    torch.save({"clean_label": np.roll(CLEAN, 1), **NOISY}, tmp_path / HUMAN)
    with pytest.raises(DataError, match=r"true classes are not those of the images.*first difference is at row 0"):
        problem("cifar10n:worst", tmp_path)


class Payload:
    def __reduce__(self):
        return (pytest.fail, ("code in the file was run",))


def test_nothing_in_a_file_is_run(tmp_path):
    for content in ({"random_label1": Payload()}, {"random_label1": np.array([Payload()], dtype=object)}, Payload()):
        torch.save(content, tmp_path / HUMAN)
        with pytest.raises(DataError, match="damaged or holds more than arrays of integers, and was not read"):
            problem("cifar10n:random1", tmp_path)
    np.savez(tmp_path / "mine.npz", labels=np.array([Payload()], dtype=object))
    with pytest.raises(DataError, match="not a file of plain arrays"):
        problem("file:mine.npz:noisy", tmp_path)
    (tmp_path / "mine.pkl").write_bytes(pickle.dumps({"cl_labels": Payload()}))
    with pytest.raises(DataError, match="is a pickle, which can run code as it is read, and was not read"):
        problem("file:mine.pkl:complementary", tmp_path)


def test_a_file_of_ones_own(tmp_path):
    np.save(tmp_path / "a.npy", NOISY["random_label1"])
    labels, T, _ = problem("file:a.npy:noisy", tmp_path)
    assert T.same_as(tp.Transition(problem("file:a.npy:noisy:T=true", tmp_path).transition.matrix()))
    np.testing.assert_array_equal(labels, NOISY["random_label1"])
    answers = OPPOSITE[:, :3].astype(np.int8)
    answers[::7, 2] = -1
    np.savez(tmp_path / "b.npz", cl_labels=answers, ord_labels=CLEAN)
    labels, T, _ = problem("file:b.npz:complementary", tmp_path)
    assert labels.shape == (N, 3)
    np.testing.assert_allclose(T.transitions[2].matrix(), BIASED.matrix(), atol=0.08)
    assert problem("file:b.npz:complementary:1", tmp_path).labels.shape == (N,)
    np.savez(tmp_path / "b.npz", labels=answers, true_labels=CLEAN[::-1])
    with pytest.raises(DataError, match="true classes are not those of the images"):
        problem("file:b.npz:complementary", tmp_path)


def test_altered_content_is_refused(folder):
    labels = NOISY["random_label1"].copy()
    labels[3] = (labels[3] + 1) % K
    np.savez(folder / CIFAR10N, **(NOISY | {"random_label1": labels}))
    with pytest.raises(DataError, match=r"random_label1 in .* is altered or another version: its SHA-256 is"):
        problem("cifar10n:random1", folder)
    whole = (folder / LLAVA).read_bytes()
    (folder / LLAVA).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="is truncated, altered, or not a file of plain arrays"):
        problem("llava:1", folder)


def test_wrapped_values_do_not_pass_for_the_published_ones(folder):
    np.savez(folder / CIFAR10N, **(NOISY | {"random_label1": NOISY["random_label1"] + 256}))
    with pytest.raises(DataError, match="is altered or another version"):
        problem("cifar10n:random1", folder)


@pytest.mark.parametrize("spec", ["cifar10n:random1", "llava:1"])
def test_another_order_of_the_images_is_noticed(folder, spec):
    with pytest.raises(DataError, match="are they in the order of the images"):
        problem(spec, folder, np.random.default_rng(1).permutation(CLEAN))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: y[:-1], f"expected labels of {N} images, got {N - 1}"),
        (lambda y: np.where(np.arange(N) == 7, 12, y), r"expected labels in \[0, 10\), got 12"),
        (lambda y: np.where(np.arange(N) == 7, -1, y), r"expected labels in \[0, 10\), got -1"),
        (lambda y: y.astype(float), r"expected integers \(n,\) or \(n, m\), got float64"),
    ],
)
def test_labels_that_do_not_fit_are_told(tmp_path, change, message):
    np.savez(tmp_path / "mine.npz", labels=change(NOISY["random_label1"]))
    with pytest.raises(DataError, match=message):
        problem("file:mine.npz:noisy", tmp_path)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cifar10n:random9", "labels: expected cifar10n:COLUMN with a column of random1, .*, got 'cifar10n:random9'"),
        ("llava:10", "labels: expected llava:M with M labels per image, 1 to 9, got 'llava:10'"),
        ("file:x.npz", "labels: expected file:PATH:noisy or file:PATH:complementary, got 'file:x.npz'"),
        ("what", "labels: expected a source of cifar10n, llava, file, as in cifar10n:random1, got 'what'"),
        ("", "labels: expected a source of"),
        ("llava:1:T=guess", "labels: expected T=true, T=uniform or T=estimated, got 'T=guess'"),
    ],
)
def test_a_wrong_specification_is_told(spec, message):
    with pytest.raises(ValueError, match=message):
        parse_spec(spec)


def test_a_path_may_hold_colons():
    assert parse_spec("file:C:/labels.npz:noisy:T=uniform")[:4] == ("file", "C:/labels.npz", "noisy", "uniform")
    assert parse_spec("file:a.npz:complementary:2").first == 2


def test_what_is_missing_is_told(folder):
    with pytest.raises(DataError, match=f"expected worse_label, got .*; the worst column is in {HUMAN}"):
        problem("cifar10n:worst", folder)
    with pytest.raises(DataError, match=r"expected mine.npz in .*, got none"):
        problem("file:mine.npz:noisy", folder)
    with pytest.raises(DataError, match=r"expected a directory with the label files, got .*, which does not exist"):
        problem("llava:1", folder / "nowhere")
    np.savez(folder / "mine.npz", other=CLEAN)
    with pytest.raises(DataError, match="expected an array named labels, got other"):
        problem("file:mine.npz:noisy", folder)
    torch.save(NOISY, folder / HUMAN)
    (folder / CIFAR10N).unlink()
    with pytest.raises(
        ValueError, match=r"labels: expected T=true or T=uniform for cifar10n:worst, .*, got T=estimated"
    ):
        problem("cifar10n:worst:T=estimated", folder)
    np.save(folder / "mine.npy", NOISY["random_label1"])
    with pytest.raises(ValueError, match="labels: expected at least 3 answers per image for T=estimated, got 1"):
        problem("file:mine.npy:noisy:T=estimated", folder)


def test_counts_of_people_are_held_against_their_digest(tmp_path):
    counts = RNG.multinomial(50, np.full(K, 0.1), size=30)
    np.save(tmp_path / "cifar10h-counts.npy", counts.astype(float))
    got = cifar10h_counts(tmp_path, {"cifar10h": digest(counts)})
    np.testing.assert_array_equal(got, counts)
    with pytest.raises(DataError, match="is altered or another version"):
        cifar10h_counts(tmp_path)


@pytest.mark.parametrize(
    ("spec", "change", "sentence"),
    [
        ("file:m.npz:noisy", {"true_labels": slice(50)}, "m.npz: expected true classes of 200 images, got 50"),
        ("file:m.npz:noisy", {"missing": 1}, "m.npz: expected some labels in every column, got none in column 1"),
        ("file:m.npz:noisy", {"missing": slice(None)}, "expected some labels in every column, got none in column 0"),
        ("file:m.npz:noisy:1:T=estimated", {"beyond": 2}, r"m.npz: expected labels in \[0, 5\), got 9"),
    ],
)
def test_own_files_with_gaps_are_told_what_they_lack(tmp_path, spec, change, sentence):
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 5, 200)
    answers = np.where(rng.random((200, 3)) < 0.8, clean[:, None], rng.integers(0, 5, (200, 3)))
    answers[:, change.get("missing", [])] = -1
    answers[:, change.get("beyond", [])] = 9
    np.savez(tmp_path / "m.npz", labels=answers, true_labels=clean[change.get("true_labels", slice(None))])
    with pytest.raises(DataError, match=sentence):
        real_problem(spec, tmp_path, clean)


def test_arrays_are_measured_by_their_headers_before_they_are_read(tmp_path, monkeypatch):
    """5 GB of zeros packed into a few kilobytes; a header that asks for more than the file holds."""
    import io
    import zipfile

    from tproper_lab.label_files import read_arrays
    from tproper_lab.problems import read_labels

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<U100000000", "fortran_order": False, "shape": (13,)})
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w") as packed:
        packed.writestr("labels.npy", header.getvalue())
    (tmp_path / "bomb.npy").write_bytes(header.getvalue())
    with zipfile.ZipFile(tmp_path / "zeros.npz", "w", zipfile.ZIP_BZIP2) as packed, packed.open("x.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (1 << 23,)})
        file.write(bytes(1 << 23))
    monkeypatch.setattr("tproper_lab.label_files.MOST_BYTES", 1 << 22)
    monkeypatch.setattr(np, "load", lambda *a, **k: pytest.fail("read before it was measured"))
    for name in ("bomb.npz", "bomb.npy", "zeros.npz"):
        with pytest.raises(DataError, match="expected arrays of at most"):
            read_arrays(tmp_path / name)
    monkeypatch.undo()
    with pytest.raises(tp.InputError, match=r"labels: .*bomb\.npy"):
        read_labels(tmp_path / "bomb.npy")
