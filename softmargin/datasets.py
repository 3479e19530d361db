"""The data sets of the papers and benchmarks, read from files on this machine.

``load(name)`` looks in the folder named by the environment variable ``SOFTMARGIN_DATA``,
then in ``../shared/data`` beside a checkout, then in ``~/.cache/softmargin``. Nothing is downloaded.
"""

from __future__ import annotations

import gzip
import lzma
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from softmargin.svmlight import load_svmlight


class DataSet(NamedTuple):
    """Training rows and labels, and test rows and labels where the source has a split."""

    X: Any
    y: Any
    X_test: Any = None
    y_test: Any = None


def folder() -> Path:
    """Where data sets are looked for; see the module's docstring."""
    named = os.environ.get("SOFTMARGIN_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(named) if named else beside if beside.is_dir() else Path.home() / ".cache" / "softmargin"


def load(name: str) -> DataSet:
    """One of the data sets of `NAMES`, as float32 rows with its own labels.

    Raises
    ------
    ValueError
        For a name that is not known.
    FileNotFoundError
        Where the data set's files are not in `folder()`.
    """
    if name not in _LOADERS:
        raise ValueError(f"data set {name!r} is not known: choose one of {', '.join(NAMES)}")
    where = folder() / _FOLDERS.get(name, name)
    if not where.is_dir():
        raise FileNotFoundError(
            f"data set {name!r} is not at {where}: put its files there, or set SOFTMARGIN_DATA to the folder above"
        )
    return _LOADERS[name](where)


def _a9a(where: Path) -> DataSet:
    return DataSet(*load_svmlight(where / "a9a.xz", n_features=123), *load_svmlight(where / "a9a.t.xz", n_features=123))


def _w8a(where: Path) -> DataSet:
    return DataSet(*load_svmlight(where / "w8a.xz", n_features=300))


def _covtype(where: Path) -> DataSet:
    """54 integer features and the cover type, 1 to 7."""
    with lzma.open(where / "covtype.csv.xz") as stream:
        header = stream.readline()
        values = np.fromstring(stream.read().replace(b"\n", b","), dtype=np.float32, sep=",")
    table = values.reshape(-1, header.count(b",") + 1)
    return DataSet(np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64))


def _mnist(where: Path) -> DataSet:
    """Grey values divided by 255; digits."""

    def idx(name: str) -> Any:
        with gzip.open(where / name) as stream:
            raw = stream.read()
        shape = np.frombuffer(raw, ">i4", count=raw[3], offset=4)
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)

    def images(name: str) -> Any:
        grey = idx(name)
        return grey.reshape(len(grey), -1).astype(np.float32) / np.float32(255)

    return DataSet(
        images("train-images-idx3-ubyte.gz"),
        idx("train-labels-idx1-ubyte.gz").astype(np.int64),
        images("t10k-images-idx3-ubyte.gz"),
        idx("t10k-labels-idx1-ubyte.gz").astype(np.int64),
    )


def _texts(archive: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each file of a tar archive: the parts of its path and its text."""
    with tarfile.open(archive) as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isfile() else None
            if stream is not None:
                yield Path(member.name).parts, stream.read().decode("latin-1")


def _tfidf(train: list[str], test: list[str], **options: Any) -> tuple[Any, Any]:
    words = TfidfVectorizer(dtype=np.float32, **options)
    return sp.csr_array(words.fit_transform(train)), sp.csr_array(words.transform(test))


def _20news(where: Path) -> DataSet:
    """The split by date; groups as strings; tf-idf of words in at least two messages."""
    texts: dict[bool, tuple[list[str], list[str]]] = {True: ([], []), False: ([], [])}
    for parts, text in _texts(where / "20news-bydate.tar.xz"):
        found = texts["train" in parts[0]]
        found[0].append(text)
        found[1].append(parts[1])
    X, X_test = _tfidf(texts[True][0], texts[False][0], min_df=2)
    return DataSet(X, np.array(texts[True][1]), X_test, np.array(texts[False][1]))


def _imdb(where: Path) -> DataSet:
    """Reviews, negative −1 and positive +1; tf-idf of words and pairs of words in at least two reviews."""
    texts: dict[str, tuple[list[str], list[int]]] = {"train": ([], []), "test": ([], [])}
    for parts, text in _texts(where / "aclImdb-labelled-text.tar.xz"):
        if len(parts) == 4:
            found = texts[parts[1]]
            found[0].append(text)
            found[1].append(1 if parts[2] == "pos" else -1)
    X, X_test = _tfidf(texts["train"][0], texts["test"][0], min_df=2, ngram_range=(1, 2))
    return DataSet(X, np.array(texts["train"][1]), X_test, np.array(texts["test"][1]))


def _letter(where: Path) -> DataSet:
    """16 counts and moments of drawn letters, A to Z as 0 to 25; the first 15 000 are for training."""
    with lzma.open(where / "letter-recognition.data.xz", "rt") as stream:
        rows = [line.split(",") for line in stream.read().split()[1:]]
    X, y = np.array([row[1:] for row in rows], np.float32), np.array([ord(row[0]) - ord("A") for row in rows])
    return DataSet(X[:15000], y[:15000], X[15000:], y[15000:])


_LOADERS: dict[str, Callable[[Path], DataSet]] = {
    "a9a": _a9a,
    "w8a": _w8a,
    "covtype": _covtype,
    "mnist": _mnist,
    "20news": _20news,
    "imdb": _imdb,
    "letter": _letter,
}
_FOLDERS = {"20news": "20news-bydate"}
NAMES = tuple(_LOADERS)
