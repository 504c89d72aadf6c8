"""Aggregate functions: their names, how the results over parts make the result over all, and the types of sums and
averages. Refreshes by rows and rewriting write such merges, and the proof looks for them in Spark's plans."""

from __future__ import annotations

import re
from typing import NamedTuple

SYNONYMS = {"mean": "avg", "every": "bool_and", "some": "bool_or", "any": "bool_or"}
MERGED_BY_ITSELF = frozenset({"min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"})
"""f(f(A), f(B)) = f(A and B), with NULL for nothing on both sides."""
REPETITIONS_IGNORED = MERGED_BY_ITSELF - {"bit_xor"}
"""It does not matter how often a value occurs."""
COUNTS = frozenset({"count", "count_if"})
"""Merged by a sum, which is 0 for nothing."""
ORDERED = {"max_by": "max", "min_by": "min"}
"""Merged together with what they are ordered by, which merges by this function."""
MERGED = COUNTS | {"sum", "avg", "any_value"} | MERGED_BY_ITSELF | ORDERED.keys() | SYNONYMS.keys()
"""Functions, also by other names, whose result over all rows follows from their states over the parts."""
_OTHER_NAMES = """
    approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine array_agg
    bitmap_and_agg bitmap_construct_agg bitmap_or_agg collect_list collect_set corr count_min_sketch covar_pop
    covar_samp first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float kurtosis last last_value listagg median mode percentile percentile_approx percentile_cont
    percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    schema_of_variant_agg skewness std stddev stddev_pop stddev_samp string_agg theta_intersection_agg
    theta_sketch_agg theta_union_agg try_avg try_sum var_pop var_samp variance
"""
AGGREGATES = MERGED | frozenset(_OTHER_NAMES.split())
CLASSES = {
    "Min": "min",
    "Max": "max",
    "BitAndAgg": "bit_and",
    "BitOrAgg": "bit_or",
    "BitXorAgg": "bit_xor",
    "Sum": "sum",
    "Count": "count",
    "Average": "avg",
}
"""The functions by their classes in Spark's optimized plans. (In these, bool_and is Min, and count_if is Count.)"""

# --- types ---------------------------------------------------------------------------------------------

APPROXIMATE = frozenset({"FLOAT", "DOUBLE"})
"""Sums of these types depend on the order of the rows."""
DIGITS_MAX = 38
_MORE_IN_SUM, _MORE_IN_AVERAGE = 10, 4
_SCALE_KEPT = 6
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)", re.IGNORECASE)


class Digits(NamedTuple):
    """A decimal type."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


COUNT_DIGITS = Digits(20, 0)
"""The type of a count that a decimal is divided by."""


def digits_of(type_text: str) -> Digits | None:
    """The digits of a decimal type; None for any other type."""
    found = _DECIMAL.fullmatch(type_text)
    return None if found is None else Digits(int(found[1]), int(found[2]))


def bounded(precision: int, scale: int) -> Digits:
    """The type of a sum, product or quotient that would have so many digits: Spark leaves out digits behind the point
    before those in front of it."""
    if precision <= DIGITS_MAX:
        return Digits(precision, scale)
    return Digits(DIGITS_MAX, max(DIGITS_MAX - (precision - scale), min(scale, _SCALE_KEPT)))


def digits_of_sum(summed: Digits) -> Digits:
    """The type of a sum of decimals: with as many digits, sums of fewer than 10^10 do not overflow."""
    return Digits(min(summed.precision + _MORE_IN_SUM, DIGITS_MAX), summed.scale)


def sum_is_certain(summed: Digits) -> bool:
    """Whether the type of a sum has all digits that it needs for fewer than 10^10 values."""
    return summed.precision + _MORE_IN_SUM <= DIGITS_MAX


def digits_in_sum(total: Digits) -> Digits:
    """The type of what is summed, if the sum has all digits that it needs."""
    return Digits(total.precision - _MORE_IN_SUM, total.scale)


def digits_of_average(averaged: Digits) -> Digits:
    return Digits(
        min(averaged.precision + _MORE_IN_AVERAGE, DIGITS_MAX), min(averaged.scale + _MORE_IN_AVERAGE, DIGITS_MAX)
    )


def digits_in_average(average: Digits) -> Digits | None:
    """The type of what is averaged, if the average has all digits that it needs; None if it cannot be."""
    found = Digits(average.precision - _MORE_IN_AVERAGE, average.scale - _MORE_IN_AVERAGE)
    return found if found.scale >= 0 else None
