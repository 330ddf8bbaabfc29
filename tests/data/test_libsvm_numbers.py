"""Faults 15 to 30: values and labels are exactly what Python's float makes of them, or refused."""

from __future__ import annotations

import itertools
import math
import random
import shlex
import warnings
from fractions import Fraction

import numpy as np
import pytest

from boostrank.core.conventions import gains_from_labels
from boostrank.core.errors import DataWarning, ParameterError
from boostrank.files.text import decimal
from tests.data.conftest import Read, dense, refused, same_bits


def read_value(read: Read, token: str, **options: object) -> np.float32:
    return np.float32(dense(read(f"1 qid:1 1:{token}\n", **options))[0, 0])


def test_powers_of_five_are_cut_to_128_bits_and_rounded_up_where_quotients_may_be_exact() -> None:
    for q in range(decimal.SMALLEST_POWER, decimal.LARGEST_POWER + 1):
        high, low = map(int, decimal.POWERS_OF_FIVE[q - decimal.SMALLEST_POWER])
        power = Fraction(5) ** q
        scaled = power * Fraction(2) ** (
            127 - power.numerator.bit_length() + power.denominator.bit_length()
        )
        scaled *= 2 if scaled < 2**127 else 1
        assert (high << 64) + low == (math.ceil(scaled) if -27 <= q < 0 else math.floor(scaled)), q


@pytest.mark.parametrize(
    "token", ["1e400", "-1e400", "3.5e38", "3.4028235678e38", "1" + "0" * 400, "1e9999999999999"]
)
def test_fault_015_overflow_is_refused(read: Read, token: str) -> None:
    with refused("does not fit in float32", token[:5], line=1, column=9):
        read_value(read, token)


@pytest.mark.parametrize("token", ["3.4028235e38", "-3.4028234663852886e38", "3.40282356e38"])
def test_fault_015_the_largest_float32_is_not_overflow(read: Read, token: str) -> None:
    assert abs(read_value(read, token)) == np.finfo(np.float32).max


@pytest.mark.parametrize(
    "token",
    [
        "4.9e-324",
        "1e-400",
        "1.4e-45",
        "7.1e-46",
        "1.17549435e-38",
        "2.2250738585072011e-308",
        "-1e-50",
        "0e999",
    ],
)
def test_fault_016_denormals_are_rounded_to_float64_and_then_to_float32(
    read: Read, token: str
) -> None:
    assert same_bits(np.array([read_value(read, token)]), np.array([np.float32(float(token))]))


@pytest.mark.parametrize("token", ["nan", "NaN", "NAN", "+nan", "-nan"])
def test_fault_017_nan_is_missing(read: Read, token: str) -> None:
    with pytest.warns(DataWarning, match="1 missing values: 1 in f1"):
        assert math.isnan(read_value(read, token))


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_fault_017_missing_values_are_counted_by_feature(read: Read, layout: str) -> None:
    rows = "".join(
        f"1 qid:1 1:1 2:{a} 3:{b} 4:4\n" for a, b in [("nan", "1"), ("nan", "nan"), ("2", "3")]
    )
    with pytest.warns(DataWarning, match="3 missing values: 2 in f2, 1 in f3") as caught:
        read(rows, layout=layout)
    assert len(caught) == 1
    many = "1 qid:1 " + " ".join(f"{i}:nan" for i in range(1, 9)) + "\n"
    with pytest.warns(DataWarning, match="1 in f5 and 3 more"):
        read(many, layout=layout)


@pytest.mark.parametrize("token", ["inf", "-Inf", "+INFINITY", "infinity"])
def test_fault_018_infinity_is_refused_kept_or_missing(read: Read, token: str) -> None:
    with refused("is infinite", "--inf keep", "--inf missing", line=1, column=9):
        read_value(read, token)
    with pytest.warns(DataWarning, match="1 infinite values: kept"):
        assert read_value(read, token, inf="keep") == float(token)
    with pytest.warns(DataWarning, match="1 (infinite|missing) values"):
        assert math.isnan(read_value(read, token, inf="missing"))


NO_NUMBERS = (
    "0x1p-2",
    "1_000",
    "1,5",
    "0.25x",
    "--1",
    "+-1",
    "+",
    "-",
    ".",
    "-.",
    "e5",
    "1e",
    "1e+",
    "1.e",
    "1..2",
    "1.2.3",
    "1e5.5",
    "in",
    "infi",
    "nanx",
    "na",
    "++inf",
    "1d5",
    "1f",
    "\x0b1",
    "1\x0c",
    "()",
    "1/2",
    "$1",
    "1%",
    "1-",
    "12-3",
    "1:",
    "123456.78:1",
    "1.23456789.1",
    "12345678901234x",
    "x12345678901234",
    "1.2345678901-4",
)


@pytest.mark.parametrize("token", NO_NUMBERS)
def test_fault_019_what_is_no_decimal_number_is_refused(read: Read, token: str) -> None:
    with refused("is not a number", "of feature 1", line=1, column=9):
        read_value(read, token)


@pytest.mark.parametrize("feature", [5, 7])
def test_fault_019_nor_is_it_read_among_short_numbers(read: Read, feature: int) -> None:
    for token in ("", "\xb11", *NO_NUMBERS):
        with refused(line=2, column=25):
            read(
                f"1 qid:1 1:1 2:2 3:3 4:4 5:5\n1 qid:1 1:1 2:2 3:3 4:4 {feature}:{token} 8:1 9:1\n"
            )


def test_fault_019_a_decimal_comma_is_named(read: Read) -> None:
    with refused("decimal point"):
        read_value(read, "1,5")


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("+1", 1.0),
        ("-0", -0.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1E+3", 1000.0),
        ("-.5e-1", -0.05),
        ("+0.e5", 0.0),
        ("007", 7.0),
        ("1e05", 1e5),
    ],
)
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_fault_020_every_decimal_spelling_is_read(
    read: Read, token: str, value: float, layout: str
) -> None:
    got = read_value(read, token, layout=layout)
    assert got == np.float32(value)
    assert math.copysign(1, got) == math.copysign(1, value)


@pytest.mark.parametrize(
    "token",
    [
        "3.141592653589793238462643383279502884197",
        "16777217.0000000000000000000000000000001",  # just above the middle of two float32
        "16777217.0000000000000000000000000000000",  # but float64 first: the middle, to even
        "1.00000005960464477539062500000000000000000000001",
        "0." + "0" * 60 + "123456789012345678901234567890",
        "1" + "0" * 30 + ".5",
        "9007199254740993",
        "9007199254740992.9999999999999999999",
        "1" + "0" * 60 + "e-60",
        "0." + "0" * 400 + "1e390",
        "123456789" * 12 + "e-100",
        "99999999999999999999999999999999999999e-19",
    ],
)
def test_fault_021_long_mantissas_are_exact(read: Read, token: str) -> None:
    assert read_value(read, token) == np.float32(float(token))


def test_fault_021_exponents_and_zeros_may_balance_each_other(read: Read) -> None:
    token = "0." + "0" * 200_000 + "1e200001"
    assert read_value(read, token) == np.float32(1)


def test_fault_022_a_value_beyond_float32_is_refused_although_float64_holds_it(read: Read) -> None:
    with refused("'1e39'", "does not fit in float32", "rescale"):
        read_value(read, "1e39")


def random_tokens(rng: random.Random, count: int) -> list[str]:
    """Numbers of every kind: uniform bits, few digits, many digits, middles of two float32, wide
    exponents.
    """
    tokens = []
    bits32 = np.array([rng.getrandbits(32) for _ in range(count // 8)], np.uint32).view(np.float32)
    bits64 = np.array([rng.getrandbits(64) for _ in range(count // 8)], np.uint64).view(np.float64)
    tokens += [repr(float(x)) for x in bits32[np.isfinite(bits32)]]
    tokens += [repr(float(x)) for x in bits64[np.isfinite(bits64)]]
    for _ in range(count // 8):
        x = np.float32(rng.lognormvariate(0, 20))
        middle = (float(x) + float(np.nextafter(x, np.float32(np.inf)))) / 2
        tokens += [f"{middle:.45g}", f"{middle:.{rng.randrange(8, 20)}g}"]
        tokens.append(f"{rng.gauss(0, 1):.6f}")
        tokens.append(f"{rng.randrange(2 ** rng.randrange(1, 90))}e{rng.randrange(-360, 40)}")
    for _ in range(count // 4):
        digits = "".join(rng.choices("0123456789", k=rng.randrange(1, 45)))
        point = rng.randrange(len(digits) + 1)
        sign, exponent = (
            rng.choice(["", "", "-", "+"]),
            rng.choice(["", "", f"e{rng.randrange(-60, 60)}", "E+3", "e-0"]),
        )
        tokens.append(sign + rng.choice([digits, digits[:point] + "." + digits[point:]]) + exponent)
    return tokens


@pytest.mark.parametrize("seed", range(4))
def test_fault_023_values_equal_pythons_float_rounded_to_float32(read: Read, seed: int) -> None:
    tokens = random_tokens(random.Random(seed), 55_000)
    with np.errstate(over="ignore"):
        expected = np.array([float(token) for token in tokens]).astype(np.float32)
    fits = np.isfinite(expected)
    tokens, expected = list(itertools.compress(tokens, fits)), expected[fits]
    assert len(tokens) > 45_000
    width = 100
    rows = [tokens[i : i + width] for i in range(0, len(tokens) // width * width, width)]
    text = "".join(
        "0 qid:1 " + " ".join(f"{j}:{t}" for j, t in enumerate(row)) + "\n" for row in rows
    )
    assert same_bits(dense(read(text)), expected[: len(rows) * width].reshape(-1, width))


@pytest.mark.parametrize("seed", range(2))
def test_fault_023_labels_equal_pythons_float(read: Read, seed: int) -> None:
    tokens = random_tokens(random.Random(seed), 8000)
    tokens = [token for token in tokens if math.isfinite(float(token))]
    data = read("".join(f"{token} qid:1 1:1\n" for token in tokens))
    assert np.array_equal(data.labels, [float(token) for token in tokens])


@pytest.mark.parametrize(
    "token",
    [
        "9473849918067466871e-24",
        "2011423545444883237e-46",
        "306626140727.6749760",
        "2744118440836718742e-18",
        "4809086491298500603e-32",
        "9007199254740993e0",
        "9007199254740995e0",
        "4503599627370496.5",
        "4503599627370497.5",
        "1e23",
        "8.5e22",
        "2.2250738585072014e-308",
        "1.7976931348623157e308",
        "9223372036854775807e-5",
    ],
)
def test_fault_023_labels_on_the_edges_of_the_algorithm(read: Read, token: str) -> None:
    """Products that carry into their upper half, ties, and the ends of the exponent's range."""
    assert read(f"{token} qid:1 1:1\n").labels[0] == float(token)


def test_fault_023_numbers_are_refused_or_read_by_the_same_rule_in_skip_mode(read: Read) -> None:
    """A number that only Python can decide still drops its whole row when it overflows."""
    # Half way to the first float64 that rounds to infinity in float32.
    limit = int(3.4028235677973366e38) - 2**74
    with np.errstate(over="ignore"):
        assert [bool(np.isinf(np.float32(float(n)))) for n in (limit - 1, limit + 1)] == [
            False,
            True,
        ]
    tokens = [str(limit - 1), str(limit + 1), "1e-320", "1e400", "2"]
    text = "".join(f"{i} qid:1 1:{token} 2:5\n" for i, token in enumerate(tokens))
    with pytest.warns(DataWarning, match="2 of 5 rows skipped"):
        data = read(text, on_bad_line="skip", max_bad_share=1)
    assert data.labels.tolist() == [0, 2, 4]
    assert dense(data)[:, 0].tolist() == [float(np.finfo(np.float32).max), 0, 2]


@pytest.mark.parametrize("label", ["nan", "inf", "-Infinity", "1e400"])
def test_fault_024_a_label_that_is_not_finite_is_refused(read: Read, label: str) -> None:
    with refused(f"label '{label}'", line=2, column=1):
        read(f"1 qid:1 1:1\n{label} qid:1 1:1\n")


def test_fault_025_negative_labels_are_read_mapped_or_refused_by_gains(read: Read) -> None:
    text = "-1 qid:1 1:1\n2 qid:1 1:2\n-0.5 qid:1 1:2\n"
    data = read(text)
    assert data.labels.tolist() == [-1, 2, -0.5]
    with pytest.raises(ValueError, match=r"label_map=.-1=0,-0\.5=0\.5,2=3"):
        gains_from_labels(data.labels)
    assert read(text, label_map={-1: 0, -0.5: 1, 2: -1}).labels.tolist() == [0, -1, 1]
    assert read(text, label_map="-1=0,-0.5=1").labels.tolist() == [0, 2, 1]


@pytest.mark.parametrize("label_map", ["1", "1=a", "1=nan", {1: math.inf}, "1=2,1=3", 7])
def test_fault_025_a_label_map_that_is_none_is_refused(read: Read, label_map: object) -> None:
    with pytest.raises(ParameterError, match="label_map"):
        read("1 qid:1 1:1\n", label_map=label_map)


def test_fault_026_fractions_are_labels(read: Read) -> None:
    assert read("0.25 qid:1 1:1\n1e-3 qid:1 1:2\n").labels.tolist() == [0.25, 0.001]


def test_fault_027_large_labels_are_read_for_gains_to_judge(read: Read) -> None:
    data = read("1e30 qid:1 1:1\n")
    assert data.labels.tolist() == [1e30]
    with pytest.raises(ValueError, match="gain='linear'"):
        gains_from_labels(data.labels)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("good qid:1 1:1", "label 'good' is not a number"),
        ("qid:1 1:1", "not with a label"),
        ("1:0.5 2:1", "not with a label"),
        ("NULL qid:1 1:1", "label 'NULL' is not a number"),
        ("1_0 qid:1 1:1", "label '1_0' is not a number"),
        ("1,2,3,4", "label '1,2,3,4' is not a number"),
    ],
)
def test_fault_028_a_missing_or_textual_label_is_refused(read: Read, row: str, words: str) -> None:
    with refused(words, line=2, column=1):
        read(f"1 qid:1 1:1\n{row}\n", missing_tokens="NULL")


def test_fault_029_minus_zero_is_label_zero(read: Read) -> None:
    labels = read("-0 qid:1 1:1\n-0.0 qid:1 1:2\n").labels
    assert not np.signbit(labels).any()


def test_fault_030_several_labels_are_refused(read: Read) -> None:
    with refused("one label", line=1, column=1):
        read("1,2 qid:1 1:1\n")


STAND_INS = ["NULL", "NA", "?", "N/A", "None", "null", "-", "nil"]


@pytest.mark.parametrize("word", STAND_INS)
def test_fault_097_a_stand_in_for_missing_is_refused_with_the_option_that_reads_it(
    read: Read, word: str
) -> None:
    spelled = shlex.quote(word)
    with refused(f"value '{word}' of feature 1", f"--missing-token {spelled}", line=1, column=9):
        read_value(read, word)


@pytest.mark.parametrize("word", [*STAND_INS, "-999", "1e400", "inf", "0"])
def test_fault_097_a_missing_token_is_read_as_missing(read: Read, word: str) -> None:
    with pytest.warns(DataWarning, match="1 missing values: 1 in f1"):
        data = read(f"0 qid:1 1:{word} 2:-998\n1 qid:1 1:5 2:00\n", missing_tokens=("absent", word))
    assert np.array_equal(
        dense(data), np.array([[np.nan, -998], [5, 0]], np.float32), equal_nan=True
    )
    assert data.provenance.options["missing_tokens"] == ["absent", word]
    with pytest.warns(DataWarning, match="1 missing values: 1 in f1"):
        assert (
            np.isnan(dense(read(f"0 qid:1 1:{word}\n1 qid:1 1:5\n", missing_tokens=word))).sum()
            == 1
        )


def test_fault_097_missing_tokens_match_exactly(read: Read) -> None:
    with refused("'NULLS'", line=1):
        read_value(read, "NULLS", missing_tokens="NULL")
    with refused("'null'", "--missing-token null"):
        read_value(read, "null", missing_tokens="NULL")


@pytest.mark.parametrize("token", ["", "a b", "a:b", "#", "a\n"])
def test_fault_097_a_missing_token_that_no_file_can_hold_is_refused(read: Read, token: str) -> None:
    with pytest.raises(ParameterError, match="missing token"):
        read("1 qid:1 1:1\n", missing_tokens=(token,))


def test_numbers_without_a_warning_cause_none(read: Read) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read("1 qid:1 1:1e-320 2:3.3e38\n")
