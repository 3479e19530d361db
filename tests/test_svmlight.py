"""Tests of `softmargin.svmlight`."""

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from sklearn.datasets import load_svmlight_file

from softmargin import svmlight
from softmargin.svmlight import dump_svmlight, load_svmlight

DATA = Path(os.environ.get("SOFTMARGIN_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
FLOATS = [np.float32, np.float64]


def load(text, **options):
    return load_svmlight(io.BytesIO(text), **options)


def dumped(X, y, **options):
    stream = io.BytesIO()
    dump_svmlight(X, y, stream, **options)
    return stream.getvalue()


def same(X, expected):
    """Whether two CSR matrices are equal in each byte."""
    return (
        X.shape == expected.shape
        and X.data.dtype == expected.data.dtype
        and X.data.tobytes() == expected.data.tobytes()
        and np.array_equal(X.indices, expected.indices)
        and np.array_equal(X.indptr, expected.indptr)
    )


def random_text(n_rows=200, n_features=50, seed=0, zero_based=False, form="{!r}"):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n_rows):
        indices = np.sort(rng.choice(n_features, rng.integers(0, 12), replace=False)) + (not zero_based)
        values = (rng.normal(size=len(indices)) * 10.0 ** rng.integers(-30, 30, len(indices))).tolist()
        entries = " ".join(f"{index}:{form.format(value)}" for index, value in zip(indices, values, strict=True))
        lines.append(f"{rng.integers(-3, 4)} {entries}\n")
    return "".join(lines).encode()


# The same as scikit-learn


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("zero_based", [True, False, "auto"])
@pytest.mark.parametrize("form", ["{!r}", "{:.0f}", "{:.9g}", "{:.16g}", "{:.17e}", "{:.25f}", "{:+.3E}"])
def test_generated_text_is_read_as_by_sklearn(dtype, zero_based, form):
    text = random_text(zero_based=zero_based is True, form=form)
    if dtype == np.float32:
        text = text.replace(b"e+2", b"e+1").replace(b"e+3", b"e+1")
    X, y = load(text, dtype=dtype, zero_based=zero_based)
    expected, labels = load_svmlight_file(io.BytesIO(text), dtype=dtype, zero_based=zero_based)
    assert same(X, expected)
    assert y.dtype == np.float64
    assert np.array_equal(y, labels)


@pytest.mark.parametrize(
    "name",
    ["a9a/a9a.t.xz", "w7a/w7a.xz", "phishing/phishing.xz", "svmlight_example1/small_train.dat.xz", "dna/dna.scale.xz",
     "german.numer/german_scale.txt.xz", "svmguide1/svmguide1.xz", "abalone/abalone_8d_train.libsvm.xz"],
)  # fmt: skip
def test_real_files_are_read_as_by_sklearn(name):
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not in {DATA}")
    X, y = load_svmlight(DATA / name)
    with lzma.open(DATA / name) as stream:
        expected, labels = load_svmlight_file(stream, dtype=np.float32)
    assert same(X, expected)
    assert np.array_equal(y, labels)


def test_several_labels_and_query_ids_are_read_as_by_sklearn():
    text = b"2,1 qid:7 1:1\n3 qid:0 2:2 # x\n1,0.5,4 qid:123456789012345678\n"
    X, y, query = load(text, multilabel=True, query_id=True)
    expected, labels, queries = load_svmlight_file(io.BytesIO(text), multilabel=True, query_id=True, dtype=np.float32)
    assert same(X, expected)
    assert y == labels == [(1, 2), (3,), (0.5, 1, 4)]
    assert np.array_equal(query, queries)
    assert query.dtype == np.int64


# Numbers


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False).map(repr),
            st.from_regex(r"[+-]?([0-9]{1,22}\.?[0-9]{0,22}|\.[0-9]{1,20})([eE][+-]?[0-9]{1,2})?", fullmatch=True),
            st.tuples(st.integers(0, 10**19), st.integers(-260, 30)).map(lambda number: "{}e{}".format(*number)),
            # half-way between two doubles, which one more digit decides
            st.tuples(st.integers(2**52, 2**53 - 1), st.sampled_from(["", ".0", ".000001"])).map(
                lambda number: f"{2 * number[0] + 1}{number[1]}"
            ),
        ),
        min_size=1,
    )
)
@example(["9007199254740993", "9007199254740993.1", "9999999999999999999", "1e22", "1e23", "0e999", "-0", "1e-400"])
@example(
    ["2.2250738585072011e-308", "4.9e-324", "8.5e-250", "123456789012345678e-250", "0.1e0000000000001", "5.", ".5"]
)
@example(["7.2057594037927933e16", "9223372036854775808", "9223372036854776833", "8.988465674311580536e307"])
def test_numbers_are_those_of_float(numbers):
    text = " ".join(["1", *(f"{index}:{number}" for index, number in enumerate(numbers, 1))]).encode()
    X, _ = load(text, dtype=np.float64)
    expected = np.array([float(number) for number in numbers])
    assert X.data.tobytes() == expected.tobytes()
    if np.abs(expected).max() < 3e38:
        assert load(text)[0].data.tobytes() == expected.astype(np.float32).tobytes()
    _, y = load("\n".join(numbers).encode())
    assert y.tobytes() == expected.tobytes()


def test_many_numbers_are_those_of_float():
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 2**63, 20_000).view(np.float64)
    numbers = numbers[np.isfinite(numbers)].tolist() + (10.0 ** rng.uniform(-40, 40, 20_000)).tolist()
    for form in ("{!r}", "{:.16g}", "{:.18e}"):
        texts = [form.format(number) for number in numbers]
        X, _ = load(("1 " + " ".join(f"{i}:{text}" for i, text in enumerate(texts, 1))).encode(), dtype=np.float64)
        assert np.array_equal(X.data, [float(text) for text in texts])


# Round trips


def matrices(dtype):
    width = np.dtype(dtype).itemsize * 8
    values = st.one_of(st.just(0.0), st.floats(allow_nan=False, allow_infinity=False, width=width))
    return npst.arrays(dtype, npst.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=values)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("zero_based", [True, False])
def test_round_trip(dtype, zero_based):
    @settings(deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    @given(matrices(dtype), st.data())
    def check(array, data):
        floats = st.floats(allow_nan=False, allow_infinity=False)
        y = data.draw(st.lists(floats, min_size=len(array), max_size=len(array)))
        text = dumped(array, y, zero_based=zero_based)
        X, labels = load(text, dtype=dtype, zero_based=zero_based, n_features=array.shape[1])
        assert same(X, sp.csr_array(array))
        assert labels.tobytes() == np.array(y).tobytes()

    check()


@pytest.mark.parametrize("dtype", FLOATS)
def test_round_trip_of_the_limits(dtype):
    limits = np.finfo(dtype)
    row = np.array([limits.max, -limits.max, limits.tiny, limits.smallest_subnormal, limits.eps, 0.1, 1 / 3], dtype)
    assert np.array_equal(load(dumped([row], [1]), dtype=dtype)[0].toarray(), [row])


def test_round_trip_of_several_labels():
    rows, labels = [[1, 0], [0, 0], [0, 3]], [(1.0, 2.5), (0.0,), ()]
    X, y = load(dumped(rows, labels), multilabel=True)
    assert np.array_equal(X.toarray(), rows)
    assert y == labels


def test_dump_writes_the_fewest_digits():
    assert dumped(np.array([[0.1, 1e20, 3]], np.float32), [1]) == b"1 1:0.1 2:1e+20 3:3\n"
    assert dumped([[0.1, 1e20, 3]], [0.5]) == b"0.5 1:0.1 2:1e+20 3:3\n"
    assert dumped(np.array([[0.1]], np.float32).astype(np.float64), [1]) == b"1 1:0.10000000149011612\n"
    assert dumped(np.array([[2**53 + 1, 0]]), np.array([True]), zero_based=True) == b"1 0:9007199254740993\n"
    assert dumped([[True, False, True]], [-1]) == b"-1 1:1 3:1\n"


def test_dump_writes_what_is_stored_in_order_and_leaves_X_alone():
    X = sp.csr_array((np.array([1.0, 2.0, 0.0, 4.0]), np.array([2, 0, 1, 2]), np.array([0, 4])), shape=(1, 3))
    assert dumped(X, [1]) == b"1 1:2 2:0 3:5\n"
    assert X.indices.tolist() == [2, 0, 1, 2]
    assert dumped(sp.coo_array(X), [1]) == b"1 1:2 2:0 3:5\n"


def test_dump_cuts_large_matrices(monkeypatch):
    text = random_text()
    X, y = load(text, dtype=np.float64)
    whole = dumped(X, y)
    monkeypatch.setattr(svmlight, "_ENTRIES", 7)
    assert dumped(X, y) == whole
    assert same(load(whole, dtype=np.float64)[0], X)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1.0, np.nan]], [1], "X has entries that are not finite real numbers"),
        ([[1.0, 2.0]], [np.inf], "y has entries that are not finite real numbers"),
        ([[1j]], [1], "X has entries that are not finite real numbers"),
        ([[1.0]], [1, 2], "X has 1 rows, but y has 2"),
        ([[1.0]], [[1, 2]], r"y has shape \(1, 2\): expected a label, or a tuple of labels, for each row"),
        ([1.0], [1], r"X has shape \(1,\)"),
        (np.empty((0, 3)), [], "at least one row"),
        ([[1.0], [0.0]], [(1,), ()], "row 1 has neither label nor entry"),
    ],
)
def test_dump_refuses(X, y, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        dump_svmlight(X, y, tmp_path / "rows.txt")
    assert not list(tmp_path.iterdir())


def test_dump_puts_a_file_in_place_only_when_complete(tmp_path, monkeypatch):
    path = tmp_path / "rows.txt"
    dump_svmlight([[1.0]], [1], path)
    dump_svmlight([[2.0]], [1], str(path))
    assert path.read_bytes() == b"1 1:2\n"

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(svmlight.os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        dump_svmlight([[3.0]], [1], path)
    assert path.read_bytes() == b"1 1:2\n"
    assert list(tmp_path.iterdir()) == [path]


# Layout of the text


@pytest.mark.parametrize(
    "text",
    [
        b"1 1:2 3:4\n-1 2:5",
        b"1 1:2 3:4\r\n-1 2:5\r\n",
        b"+1\t1:2 \t 3:4  \n\n  \n-1   2:5\n\n",
        b"# first\n1.0 1:2 3:4# 7:8\n   # 9:9\n -1 2:5 #\n#",
        b"1 3:4 1:2\n-1 2:5\n",
        b"1e0 01:2.0 3:.4E1\n-10e-1 2:+5.\n",
        b"\x0b1 1:2 3:4\x0c\n-1 2:5\n",
    ],
)
def test_layouts(text):
    X, y = load(text)
    assert X.toarray().tolist() == [[2, 0, 4], [0, 5, 0]]
    assert y.tolist() == [1, -1]
    assert X.has_canonical_format
    assert X.indices.tolist() == [0, 2, 1]


def test_labels_may_be_absent_from_rows_if_there_may_be_several():
    _, y = load(b" 1:1\n1 2:2\n2,1\n", multilabel=True)
    assert y == [(), (1,), (1, 2)]
    _, y, query = load(b"qid:4 1:1\n1,2 qid:5\n", multilabel=True, query_id=True)
    assert y == [(), (1, 2)]
    assert query.tolist() == [4, 5]


@pytest.mark.parametrize("size", [1, 7, 13, 64])
def test_blocks_may_end_anywhere(size, monkeypatch):
    text = random_text().replace(b"\n", b"\r\n# a comment\n\n", 40) + b"1 9:1 3:2 5:7\n2 4:0.12345678901234567890123"
    options = {"dtype": np.float64, "multilabel": True}
    X, y = load(text, **options)
    monkeypatch.setattr(svmlight, "_BLOCK", size)
    Z, z = load(text, **options)
    assert same(Z, X)
    assert z == y
    with pytest.raises(ValueError, match="line 283: value 'x'"):
        load(text + b"\n3 1:x")
    with pytest.raises(ValueError, match="line 283: feature index 3 comes twice"):
        load(text + b"\n3 5:1 3:2 4:1 3:1")


def test_rows_out_of_order_are_sorted():
    rng = np.random.default_rng(0)
    rows = [rng.permutation(30)[: rng.integers(0, 30)] + 1 for _ in range(50)]
    X, _ = load("\n".join(" ".join(["1", *(f"{i}:{i}" for i in row)]) for row in rows).encode())
    assert X.has_sorted_indices
    for row, start, end in zip(rows, X.indptr[:-1], X.indptr[1:], strict=True):
        assert X.indices[start:end].tolist() == sorted(row - 1)
        assert X.data[start:end].tolist() == sorted(row)


def test_index_base_and_number_of_features():
    assert load(b"1 1:1 3:1")[0].shape == (1, 3)
    assert load(b"1 1:1 3:1\n1 0:1")[0].shape == (2, 4)
    assert load(b"1 3:1", zero_based=True)[0].shape == (1, 4)
    assert load(b"1 3:1", zero_based=False)[0].shape == (1, 3)
    assert load(b"1 3:1", n_features=9)[0].shape == (1, 9)
    assert load(b"1 # no feature")[0].shape == (1, 0)
    assert load(b"1", n_features=4)[0].shape == (1, 4)


@pytest.mark.parametrize(("largest", "kind"), [(2**31 - 1, np.int32), (2**31, np.int64), (10**18 - 1, np.int64)])
def test_index_types(largest, kind):
    X, _ = load(b"1 1:1\n1 5:1 %d:2" % largest)
    assert X.shape == (2, largest)
    assert X.indices.dtype == kind
    assert X.indices.tolist() == [0, 4, largest - 1]


def test_large_indices_may_follow_small_ones_in_a_later_block(monkeypatch):
    monkeypatch.setattr(svmlight, "_BLOCK", 8)
    X, _ = load(b"1 1:1\n1 2:1\n1 4294967296:1\n1 3:1")
    assert X.indices.tolist() == [0, 1, 2**32 - 1, 2]


def test_arrays_are_of_their_own_size():
    X, y = load(random_text())
    for array, size in ((X.data, X.nnz), (X.indices, X.nnz), (X.indptr, 201), (y, 200)):
        whole = array if array.base is None else array.base
        assert len(array) == len(whole) == size


# Errors


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1 abc:1", "feature index 'abc' is not a whole number: expected index:value"),
        (b"1 1.5:1", "feature index '1.5' is not a whole number: expected index:value"),
        (b"1 :1", "feature index '' is not a whole number: expected index:value"),
        (b"1 +1:1", "feature index '+1' is not a whole number: expected index:value"),
        (b"1 -3:1", "feature index '-3' is negative"),
        (b"1 9223372036854775809:1", "feature index '9223372036854775809' is too large: at most 18 digits are read"),
        (b"1 5:", "feature 5 has no value: expected index:value"),
        (b"1 5: 3", "feature 5 has no value: expected index:value"),
        (b"1 5", "'5' is not a feature: expected index:value"),
        (b"1 | f 1:2", "'|' is not a feature: expected index:value"),
        (b"1 5:abc", "value 'abc' of feature 5 is not a finite number"),
        (b"1 5:nan", "value 'nan' of feature 5 is not a finite number"),
        (b"1 5:-inf", "value '-inf' of feature 5 is not a finite number"),
        (b"1 5:1_0", "value '1_0' of feature 5 is not a finite number"),
        (b"1 5:1e", "value '1e' of feature 5 is not a finite number"),
        (b"1 5:.", "value '.' of feature 5 is not a finite number"),
        (b"1 5:0x10", "value '0x10' of feature 5 is not a finite number"),
        (b"1 5:1:2", "value '1:2' of feature 5 is not a finite number"),
        (b"1 5:1,2", "value '1,2' of feature 5 is not a finite number"),
        (b"1 5:" + b"x" * 99, "value '" + "x" * 27 + "...' of feature 5 is not a finite number"),
        (b"1 5:1e999", "'1e999' is too large for float32"),
        (b"1 5:3.4028236e38", "'3.4028236e38' is too large for float32"),
        (b"1 5:1 05:2", "feature index 5 comes twice"),
        (b"1 5:1 4:1 6:1 5:2", "feature index 5 comes twice"),
        (b"-1e999 5:1", "'-1e999' is too large for float64"),
        (b"x 5:1", "label 'x' is not a finite number"),
        (b"nan 5:1", "label 'nan' is not a finite number"),
        (b"5:1", "label '5:1' is not a finite number"),
        (b"\x00\xff\x01 5:1", r"label '\x00\\xff\x01' is not a finite number".replace(r"\x0", "\\x0")),
        (b"1,2 5:1", "label '1,2' is not one number: for several labels, pass multilabel=True"),
        (b"1 qid:3 5:1", "'qid:3' is a query id: pass query_id=True"),
    ],
)
def test_errors_name_the_line_and_what_was_expected(line, message, tmp_path):
    path = tmp_path / "train.txt"
    path.write_bytes(b"# comment\n1 1:2\n\n" + line + b"\n1 1:2 x\n")
    with pytest.raises(ValueError) as error:
        load_svmlight(path)
    assert str(error.value) == f"{path}, line 4: {message}"


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        (b"1 0:1", {"zero_based": False}, "feature index 0, where the first is 1: pass zero_based=True or 'auto'"),
        (b"1,, 5:1", {"multilabel": True}, "label '1,,' is not a finite number"),
        (b"1,x 5:1", {"multilabel": True}, "label '1,x' is not a finite number"),
        (b"x:1", {"multilabel": True}, "feature index 'x' is not a whole number: expected index:value"),
        (b"qid:1", {"multilabel": True}, "'qid:1' is a query id: pass query_id=True"),
        (b"1 1:1", {"query_id": True}, "expected a query id, qid:number, before the features, but found '1:1'"),
        (b"1", {"query_id": True}, "expected a query id, qid:number, before the features, but found ''"),
        (b"1 qid:", {"query_id": True}, "expected a query id, qid:number, before the features, but found 'qid:'"),
        (b"1 qid:-1", {"query_id": True}, "expected a query id, qid:number, before the features, but found 'qid:-1'"),
        (b"1 qid:1 qid:2", {"query_id": True}, "'qid:2' is a second query id"),
        (b"1 5:1e999", {"dtype": np.float64}, "'1e999' is too large for float64"),
    ],
)  # fmt: skip
def test_errors_that_depend_on_options(line, options, message):
    with pytest.raises(ValueError) as error:
        load(line, **options)
    assert str(error.value) == f"stream, line 1: {message}"


@pytest.mark.parametrize("text", [b"", b"\n\n", b"# comment only", gzip.compress(b"")])
def test_a_source_without_rows_is_refused(text):
    with pytest.raises(ValueError, match="stream has no rows"):
        load(text)


def test_too_few_features_are_refused():
    with pytest.raises(ValueError, match="n_features=4, but the largest feature index is 5, where the first is 1"):
        load(b"1 5:1", n_features=4)
    with pytest.raises(ValueError, match="pass n_features=6 or more"):
        load(b"1 5:1", n_features=5, zero_based=True)
    assert load(b"1 5:1", n_features=5)[0].shape == (1, 5)


def test_options_are_checked():
    with pytest.raises(ValueError, match="dtype=int64 is not offered: choose float32 or float64"):
        load(b"1", dtype=np.int64)
    with pytest.raises(ValueError, match="feature index 0, where the first is 1"):
        load(b"1 0:1", zero_based=np.False_)
    with pytest.raises(ValueError, match="zero_based='yes' is not one of True, False and 'auto'"):
        load(b"1", zero_based="yes")


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=60) | st.text("0123456789:.,+-eE# \t\r\nqid", max_size=60).map(str.encode),
    st.booleans(),
    st.booleans(),
)
def test_any_bytes_are_read_or_refused(text, multilabel, query_id):
    try:
        X, y, *_ = load(text, multilabel=multilabel, query_id=query_id, dtype=np.float64)
    except ValueError as error:
        assert str(error).startswith("stream")
    else:
        X.check_format()
        assert X.has_canonical_format
        assert len(y) == X.shape[0]
        if not (multilabel or query_id) and X.nnz and b"\r" not in text:
            expected, labels = load_svmlight_file(io.BytesIO(b"\n".join(map(in_order, text.split(b"\n")))))
            assert same(X, expected)
            assert np.array_equal(y, labels)


def in_order(line):
    """Sort the features of a line, as scikit-learn wants them."""
    words = line.partition(b"#")[0].split()
    return b" ".join(words[:1] + sorted(words[1:], key=lambda word: int(word.partition(b":")[0])))


# Sources

TEXT = random_text()
COMPRESSIONS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "txt": bytes}


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize("block", [64, 1 << 18])
def test_compression_is_told_by_content(kind, block, tmp_path, monkeypatch):
    monkeypatch.setattr(svmlight, "_BLOCK", block)
    expected, labels = load(TEXT, dtype=np.float64)
    path = tmp_path / "rows"
    path.write_bytes(COMPRESSIONS[kind](TEXT))
    stream = io.BytesIO(path.read_bytes())
    for source in (path, str(path), stream):
        X, y = load_svmlight(source, dtype=np.float64)
        assert same(X, expected)
        assert np.array_equal(y, labels)
    assert not stream.closed


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_truncated_and_corrupt_files_are_refused(kind, tmp_path):
    path = tmp_path / f"rows.{kind}"
    whole = COMPRESSIONS[kind](TEXT)
    middle = len(whole) // 2
    broken = whole[:middle] + bytes([byte ^ 255 for byte in whole[middle : middle + 20]]) + whole[middle + 20 :]
    for content in (whole[:middle], whole[:-3], whole[:7], broken):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"rows\.\w+: the compressed file is truncated or corrupt"):
            load_svmlight(path)


def test_members_one_after_the_other_are_read():
    expected, _ = load(TEXT + TEXT)
    assert same(load(gzip.compress(TEXT) + gzip.compress(TEXT))[0], expected)


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"1 1:2\n"))))
    assert load_svmlight("-")[0].toarray().tolist() == [[2]]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1 1:2\nx")))
    with pytest.raises(ValueError, match="standard input, line 2: label 'x'"):
        load_svmlight("-")


class Trickle:
    """A stream that gives a byte at a time and cannot seek."""

    name = "trickle"

    def __init__(self, content):
        self.rest = io.BytesIO(content)

    def read(self, size):
        return self.rest.read(min(size, 1))


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_streams_may_be_slow(kind):
    assert load_svmlight(Trickle(COMPRESSIONS[kind](b"1 1:2\n-1 2:1")))[0].toarray().tolist() == [[2, 0], [0, 1]]


def test_sources_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_svmlight(tmp_path / "absent")
    with pytest.raises(IsADirectoryError):
        load_svmlight(tmp_path)
    with pytest.raises(TypeError, match="open it in binary mode"):
        load_svmlight(io.StringIO("1 1:2"))
    with pytest.raises(TypeError):
        load_svmlight(3)


def test_errors_of_the_system_pass_through():
    class Broken(Trickle):
        def read(self, size):
            if self.rest.tell() > 8:
                raise OSError(5, "Input/output error")
            return super().read(size)

    with pytest.raises(OSError, match="Input/output error"):
        load_svmlight(Broken(b"1 1:2\n1 1:2\n"))


def test_importing_the_module_does_not_import_numba():
    code = "import sys, softmargin.svmlight; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
