"""The kernel of `softmargin.svmlight`: one compiled pass over the bytes of whole lines.

Every line ends in a newline, which stops each scan: no other bound is checked. A word that is wrong ends the pass; its
place is all that `parse` says of it, and `explain` finds out the rest.

The helpers take care that no array is dropped in two places (one exit, `&` and `|` in the conditions of loops): Numba
then removes their reference counting, which would take most of the time.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, NamedTuple

import numba
import numpy as np

_NEWLINE, _SPACE, _HASH, _PLUS, _COMMA, _MINUS, _DOT, _COLON = (np.uint8(ord(sign)) for sign in "\n #+,-.:")
_Q, _I, _D, _E, _TAB, _RETURN = (np.uint8(ord(sign)) for sign in "qide\t\r")
_LOWER_CASE = np.uint8(32)
_ZERO, _TEN = np.uint64(ord("0")), np.uint64(10)
_MOST_DIGITS = 18  # of an index or a query id: they fit int64

_ALL_DOUBLES = np.uint64(2**53)  # up to here every whole number is a double
_EXACT_POWERS = np.array([10.0**power for power in range(23)])  # the powers of ten that are doubles

# 10**power as the sum of two doubles. From the smallest on products are clear of subnormal numbers; up to the largest
# those with mantissas below 10**19 are in the range of float32.
_SMALLEST, _LARGEST = -250, 18
_POWERS = np.array([float(Fraction(10) ** power) for power in range(_SMALLEST, _LARGEST + 1)])
_RESTS = np.array([float(Fraction(10) ** (power + _SMALLEST) - Fraction(near)) for power, near in enumerate(_POWERS)])

_WORD = re.compile(rb"[^\s#]*")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Scratch(NamedTuple):
    """What `parse` writes."""

    labels: Any
    label_counts: Any  # of each row
    counts: Any  # of entries, of each row
    queries: Any
    indices: Any
    values: Any
    hard: Any  # numbers left to Python: the place among the values, or ~ the place among the labels; start; end

    @classmethod
    def of(cls, size: int) -> Scratch:
        """Return room for a text of ``size`` bytes: a row takes two at least, an entry four."""
        rows, entries = size // 2 + 1, size // 4 + 1
        return cls(
            labels=np.empty(rows, np.float64),
            label_counts=np.empty(rows, np.int32),
            counts=np.empty(rows, np.int32),
            queries=np.empty(rows, np.int64),
            indices=np.empty(entries, np.int64),
            values=np.empty(entries, np.float64),
            hard=np.empty((rows, 3), np.int64),
        )


_compiled = numba.njit(nogil=True, cache=True)


@_compiled
def _byte(text: Any, at: Any) -> Any:
    return text[np.uint64(at)]  # unsigned: no branch for negative indices


@_compiled
def _is_blank(byte: Any) -> Any:
    return (byte == _SPACE) | ((byte >= _TAB) & (byte <= _RETURN) & (byte != _NEWLINE))


@_compiled
def _ends_line(byte: Any) -> Any:
    return (byte == _NEWLINE) | (byte == _HASH)


@_compiled
def _next_word(text: Any, at: Any) -> Any:
    while _is_blank(_byte(text, at)):
        at += 1
    return at


@_compiled
def _digits(text: Any, at: Any, number: Any) -> Any:
    """Continue ``number`` by the digits at ``at``; return it, meaningless beyond 19 digits, and where they end."""
    digit = np.uint64(_byte(text, at)) - _ZERO
    while digit < _TEN:
        number = number * _TEN + digit
        at += 1
        digit = np.uint64(_byte(text, at)) - _ZERO
    return number, at


@_compiled
def _halves(number: Any) -> Any:
    """Split a double in two of at most 26 bits (Veltkamp): products of such halves are exact."""
    large = number * 134217729.0
    high = large - (large - number)
    return high, number - high


@_compiled
def _scaled(mantissa: Any, power: Any) -> Any:
    """Return ``mantissa * 10**power`` rounded once, and whether that is certain.

    The product is worked out to about 100 bits (Dekker). It is certain where both ends of the
    interval that the error leaves round to the same double.
    """
    near = np.float64(mantissa)
    near_rest = np.float64(np.int64(mantissa - np.uint64(near)))
    ten, ten_rest = _POWERS[power - _SMALLEST], _RESTS[power - _SMALLEST]
    product = near * ten
    near_high, near_low = _halves(near)
    ten_high, ten_low = _halves(ten)
    rest = near_low * ten_low - (((product - near_high * ten_high) - near_low * ten_high) - near_high * ten_low)
    rest += near * ten_rest + near_rest * ten
    error = product * 2.0**-98
    value = product + (rest + error)
    return value, value == product + (rest - error)


@_compiled
def _number(text: Any, at: Any) -> Any:
    """Read the number at ``at``.

    Returns it, where it ends (``at`` if there is none), the byte there, and whether it is certain
    to be ``float(text)``.
    """
    start = at
    negative = _byte(text, at) == _MINUS
    at += negative or _byte(text, at) == _PLUS
    first = at
    mantissa, at = _digits(text, at, np.uint64(0))
    count, power = at - first, 0
    if _byte(text, at) == _DOT:
        first = at + 1
        mantissa, at = _digits(text, first, mantissa)
        power = first - at
        count -= power
    is_number = count > 0
    if _byte(text, at) | _LOWER_CASE == _E:
        at += 1
        down = _byte(text, at) == _MINUS
        at += down or _byte(text, at) == _PLUS
        first = at
        exponent, at = _digits(text, at, np.uint64(0))
        is_number &= at > first
        shift: Any = np.int64(exponent) if at - first < 9 else 10**9
        power += -shift if down else shift
    value, certain = 0.0, count <= 19
    if certain:
        if power == 0:
            value = np.float64(mantissa)
        elif mantissa <= _ALL_DOUBLES and -22 <= power <= 22:  # one operation on exact operands rounds once
            value = mantissa * _EXACT_POWERS[power] if power > 0 else mantissa / _EXACT_POWERS[-power]
        elif _SMALLEST <= power <= _LARGEST:
            value, certain = _scaled(mantissa, power)
        else:
            certain = False
    end = at if is_number else start
    return -value if negative else value, end, _byte(text, end), certain


@_compiled
def parse(text: Any, lowest_index: Any, multilabel: Any, query_id: Any, scratch: Any) -> Any:
    """Parse whole lines into ``scratch``.

    Returns the numbers of rows, labels, entries and hard numbers before the first word that is
    wrong, whether the indices of each row ascend (none equals the one before it), and the place of
    that word, or -1. Entries are only counted in whole rows.
    """
    labels, label_counts, counts, queries, indices, values, hard = scratch
    at = rows = n_labels = entries = n_hard = 0
    ascending = True
    while at < len(text):
        at = _next_word(text, at)
        if not _ends_line(_byte(text, at)):
            start, first_label, first_entry = at, n_labels, entries
            more_labels = True
            while more_labels:
                value, end, byte, certain = _number(text, at)
                if multilabel and at == start and (byte == _COLON or byte == _Q):  # noqa: SIM109 (compiles worse)
                    break  # a row without labels
                more_labels = multilabel and byte == _COMMA
                if end == at or not (more_labels or _is_blank(byte) or _ends_line(byte)):
                    return rows, n_labels, entries, n_hard, ascending, start
                if not certain:
                    hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = ~n_labels, at, end
                    n_hard += 1
                labels[n_labels] = value
                n_labels += 1
                at = end + 1 if more_labels else end
            at = _next_word(text, at)
            if query_id:
                is_query = _byte(text, at) == _Q and _byte(text, at + 1) == _I and _byte(text, at + 2) == _D
                if not (is_query and _byte(text, at + 3) == _COLON):
                    return rows, n_labels, entries, n_hard, ascending, at
                queries[rows], end = _digits(text, at + 4, np.uint64(0))
                byte = _byte(text, end)
                if not (4 < end - at <= 4 + _MOST_DIGITS and (_is_blank(byte) or _ends_line(byte))):
                    return rows, n_labels, entries, n_hard, ascending, at
                at = _next_word(text, end)
            last = np.int64(-1)
            while not _ends_line(_byte(text, at)):
                number, colon = _digits(text, at, np.uint64(0))
                index = np.int64(number)
                is_index = 0 < colon - at <= _MOST_DIGITS and _byte(text, colon) == _COLON
                if not is_index or index < lowest_index or index == last:
                    return rows, n_labels, first_entry, n_hard, ascending, at
                value, end, byte, certain = _number(text, colon + 1)
                if end == colon + 1 or not (_is_blank(byte) or _ends_line(byte)):
                    return rows, n_labels, first_entry, n_hard, ascending, at
                if not certain:
                    hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = entries, colon + 1, end
                    n_hard += 1
                indices[entries] = index
                values[entries] = value
                entries += 1
                if index < last:
                    ascending = False
                last = index
                at = _next_word(text, end)
            label_counts[rows] = n_labels - first_label
            counts[rows] = entries - first_entry
            rows += 1
        while _byte(text, at) != _NEWLINE:  # past the comment
            at += 1
        at += 1
    return rows, n_labels, entries, n_hard, ascending, -1


def shown(word: bytes) -> str:
    """Return a word as messages show it."""
    text = word.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 30 else text[:27] + "...")


def explain(text: bytes, at: int, zero_based: bool | str, multilabel: bool, query_id: bool) -> str:
    """Return what is wrong with the word at ``at``, where `parse` stopped."""
    found = _WORD.match(text, at)
    word = found.group() if found else b""
    before = text[text.rfind(b"\n", 0, at) + 1 : at].split()
    if not before and not (multilabel and (b":" in word or word.startswith(b"q"))):
        if b"," in word and not multilabel:
            return f"label {shown(word)} is not one number: for several labels, pass multilabel=True"
        return f"label {shown(word)} is not a finite number"
    if query_id and not any(earlier.startswith(b"qid:") for earlier in before):
        return f"expected a query id, qid:number, before the features, but found {shown(word)}"
    if word.startswith(b"qid:"):
        return f"{shown(word)} is a " + ("second query id" if query_id else "query id: pass query_id=True")
    index, colon, value = word.partition(b":")
    if not colon:
        return f"{shown(word)} is not a feature: expected index:value"
    if not index.isdigit():
        negative = index.startswith(b"-") and index[1:].isdigit()
        problem = "negative" if negative else "not a whole number: expected index:value"
        return f"feature index {shown(index)} is {problem}"
    if len(index) > _MOST_DIGITS:
        return f"feature index {shown(index)} is too large: at most {_MOST_DIGITS} digits are read"
    if zero_based is False and int(index) == 0:
        return "feature index 0, where the first is 1: pass zero_based=True or 'auto'"
    if not value:
        return f"feature {int(index)} has no value: expected index:value"
    if not _NUMBER.fullmatch(value):
        return f"value {shown(value)} of feature {int(index)} is not a finite number"
    return f"feature index {int(index)} comes twice"
