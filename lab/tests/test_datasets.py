"""Real formats, small files, a real HTTP server: what is read, what is refused, what is left behind."""

import gzip
import hashlib
import http.server
import io
import pickle
import tarfile
import threading
from functools import partial

import numpy as np
import pytest

from tproper_lab import datasets, download
from tproper_lab.datasets import DataError

pooch = pytest.importorskip("pooch", reason="downloads need pooch")


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def mnist_files():
    rng = np.random.default_rng(0)
    return {
        "train-images-idx3-ubyte": idx(rng.integers(0, 256, (30, 28, 28))),
        "train-labels-idx1-ubyte": idx(np.arange(30) % 10),
        "t10k-images-idx3-ubyte": idx(rng.integers(0, 256, (20, 28, 28))),
        "t10k-labels-idx1-ubyte": idx(np.arange(20) % 10),
    }


@pytest.fixture
def cifar_files():
    rng = np.random.default_rng(1)

    def batch(n):
        records = rng.integers(0, 256, (n, 3073))
        records[:, 0] = np.arange(n) % 10
        return records.astype(np.uint8).tobytes()

    return {name: batch(10) for name in datasets.CIFAR_DIGESTS}


def digests(files):
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def write(folder, files, compress=False):
    for name, content in files.items():
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return folder


def archive(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{datasets.CIFAR_FOLDER}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("compress", [False, True])
def test_mnist_raw_and_gzipped(tmp_path, mnist_files, compress):
    data = datasets.read_mnist(write(tmp_path, mnist_files, compress), digests(mnist_files))
    assert data.train_images.shape == (30, 28, 28, 1)
    assert data.train_labels.tolist() == [i % 10 for i in range(30)]
    assert data.test_images.tobytes() == mnist_files["t10k-images-idx3-ubyte"][16:]


@pytest.mark.parametrize("packed", [False, True])
def test_cifar_unpacked_and_as_archive(tmp_path, cifar_files, packed):
    if packed:
        (tmp_path / datasets.CIFAR_ARCHIVE).write_bytes(archive(cifar_files))
    else:
        write(tmp_path, cifar_files)
    data = datasets.read_cifar10(tmp_path, digests(cifar_files))
    assert data.train_images.shape == (50, 32, 32, 3)
    record = np.frombuffer(cifar_files["data_batch_1.bin"], np.uint8)[1:3073]
    assert np.array_equal(data.train_images[0], record.reshape(3, 32, 32).transpose(1, 2, 0))
    assert data.test_labels.tolist() == list(range(10))


def test_truncated_file_is_named_and_refused(tmp_path, mnist_files):
    write(tmp_path, mnist_files)
    victim = tmp_path / "t10k-images-idx3-ubyte"
    victim.write_bytes(victim.read_bytes()[:-5])
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte is truncated or altered.*SHA-256"):
        datasets.read_mnist(tmp_path, digests(mnist_files))


def test_truncated_gzip_is_named_and_refused(tmp_path, mnist_files):
    write(tmp_path, mnist_files, compress=True)
    victim = tmp_path / "train-labels-idx1-ubyte.gz"
    victim.write_bytes(victim.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte.gz is truncated"):
        datasets.read_mnist(tmp_path, digests(mnist_files))


def test_altered_byte_in_an_archive_is_refused(tmp_path, cifar_files):
    known = digests(cifar_files)
    changed = dict(cifar_files)
    changed["data_batch_3.bin"] = changed["data_batch_3.bin"][:-1] + b"\x07"
    (tmp_path / datasets.CIFAR_ARCHIVE).write_bytes(archive(changed))
    with pytest.raises(DataError, match=r"data_batch_3.bin has SHA-256"):
        datasets.read_cifar10(tmp_path, known)


def test_truncated_archive_is_named_and_refused(tmp_path, cifar_files):
    (tmp_path / datasets.CIFAR_ARCHIVE).write_bytes(archive(cifar_files)[:2000])
    with pytest.raises(DataError, match=r"cifar-10-binary.tar.gz is truncated"):
        datasets.read_cifar10(tmp_path, digests(cifar_files))


def test_official_digests_refuse_other_data(tmp_path, cifar_files):
    write(tmp_path, cifar_files)
    with pytest.raises(DataError, match=r"data_batch_1.bin is truncated or altered"):
        datasets.load("cifar10", tmp_path)


def test_a_pickle_is_data_and_nothing_else(tmp_path, cifar_files):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was loaded",))

    for name in cifar_files:
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DataError, match=r"not a multiple of 3073"):
        datasets.read_cifar10(tmp_path, dict.fromkeys(cifar_files))


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\(.gz\) in .*got none"):
        datasets.load("mnist", tmp_path)
    with pytest.raises(DataError, match="which does not exist"):
        datasets.load("mnist", tmp_path / "nowhere")
    with pytest.raises(DataError, match="expected a data set among mnist, cifar10, digits, got 'svhn'"):
        datasets.load("svhn")


def test_digits_are_bundled():
    data = datasets.load("digits")
    assert data.train_images.shape == (1437, 8, 8, 1)
    assert len(data.test_labels) == 360
    assert data.train_images.max() == data.white


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files; ``short`` promises more bytes than it sends, as a broken connection does."""

    short = False

    def do_GET(self):
        if not Handler.short:
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self.wfile.write(b"half of a file")
        return None

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        Handler.short = False
        yield folder, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def registry(folder):
    return {p.name: "sha256:" + hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_download_from_a_mirror_then_from_the_cache(server, tmp_path, mnist_files, monkeypatch):
    folder, address = server
    write(folder, mnist_files, compress=True)
    known = registry(folder)
    monkeypatch.setenv(download.MIRROR_VARIABLE, address)
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", terminal)
        where = download.fetch("mnist", cache=tmp_path / "cache", digests=known)
    assert "train-images-idx3-ubyte.gz" in terminal.getvalue()
    assert "MB" in terminal.getvalue()
    assert datasets.read_mnist(where, digests(mnist_files)).test_images.shape == (20, 28, 28, 1)
    for path in folder.iterdir():
        path.unlink()  # the second time nothing is asked of the server
    assert download.fetch("mnist", cache=tmp_path / "cache", digests=known) == where


def test_altered_download_is_refused_and_leaves_nothing(server, tmp_path, mnist_files):
    folder, address = server
    write(folder, mnist_files, compress=True)
    known = registry(folder)
    victim = folder / "train-images-idx3-ubyte.gz"
    victim.write_bytes(victim.read_bytes() + b"!")
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz was altered"):
        download.fetch("mnist", mirror=address, cache=tmp_path / "c", digests=known)
    assert not [p for p in (tmp_path / "c").rglob("*") if "train-images" in p.name or p.stat().st_size == 0]


def test_interrupted_download_leaves_nothing_half_made(server, tmp_path, mnist_files, monkeypatch):
    folder, address = server
    monkeypatch.setattr(download, "PAUSE", 0.0)
    write(folder, mnist_files, compress=True)
    known = registry(folder)
    Handler.short = True
    with pytest.raises(download.DownloadError, match="could not download"):
        download.fetch("mnist", mirror=address, cache=tmp_path / "c", digests=known)
    assert not [p for p in (tmp_path / "c").rglob("*") if p.is_file()]
    Handler.short = False
    download.fetch("mnist", mirror=address, cache=tmp_path / "c", digests=known)


def test_no_server_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "PAUSE", 0.0)
    with pytest.raises(download.DownloadError, match=r"could not download http://127.0.0.1:9/train-images"):
        download.fetch("mnist", mirror="http://127.0.0.1:9", cache=tmp_path)


@pytest.mark.parametrize("mirror", ["foo", "ftp://host/folder", "https://", "http://[half"])
def test_a_mirror_that_is_no_address_is_called_that(mirror, tmp_path, monkeypatch):
    with pytest.raises(DataError, match="mirror: expected an address such as https://host/folder, got"):
        download.fetch("mnist", mirror=mirror, cache=tmp_path)
    monkeypatch.setenv(download.MIRROR_VARIABLE, mirror)
    with pytest.raises(DataError, match="TPROPER_MIRROR: expected an address"):
        download.fetch("mnist", cache=tmp_path)


def test_an_archive_that_unpacks_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "LARGEST", 1 << 20)
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb", compresslevel=1) as file:
        file.write(bytes(1 << 22))
    with pytest.raises(datasets.DataError, match=r"ubyte.gz: expected at most 1,048,576 bytes of content, got more"):
        datasets.read_mnist(tmp_path)
