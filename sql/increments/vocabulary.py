"""Spark's functions, by what an incremental refresh can do with them."""

from __future__ import annotations

from sql.definition.determinism import CHANGING_FUNCTIONS, DATE_FUNCTIONS, UNSEEDED

_MERGED_NAMES = """
    count count_if sum avg mean min max bool_and every bool_or any some bit_and bit_or bit_xor any_value max_by min_by
"""
MERGED = frozenset(_MERGED_NAMES.split())
"""Aggregate functions whose result over all rows follows from their states over the parts."""
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
_WINDOW_NAMES = """
    cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number session_window window window_time
"""
WINDOWS = frozenset(_WINDOW_NAMES.split())
"""Functions of windows, and those that make windows of time, which may overlap or grow together."""
CHANGING = CHANGING_FUNCTIONS | DATE_FUNCTIONS | {UNSEEDED}
NOW_WITHOUT_ARGUMENTS = frozenset({"unix_timestamp"})
"""Without arguments they are the current time."""
QUANTIFIERS = frozenset({"any", "some", "all"})
"""Behind LIKE these are no functions."""
