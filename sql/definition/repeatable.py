"""Whether a query gives the same rows again while the relations that it reads stay the same.

Only functions that are known to be deterministic are accepted: a function that a user has made is not. Constants are
another danger: Spark replaces 'today' by a date in every constant that becomes a time, also if functions compute it.
So the functions that make strings are accepted only with a column among their arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, takewhile

from sql.definition.determinism import METADATA, MOMENTS, SAMPLE, WITHOUT_PARENTHESES
from sql.lexed import Lexed
from sql.scan import Lexeme, string_values


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_REFUSED_WORDS = WITHOUT_PARENTHESES | {SAMPLE, METADATA, "identifier", "session", "localtime"}
"""Also as the name of a column, because a call of the function may look the same."""
_TRANSFORMING = frozenset({"transform", "map", "reduce"})
"""With USING, these run a program."""
_KEYWORDS = _words(
    """
    all and anti any as between by case cross cube distinct else end escape except exists filter from full group
    having ilike in inner intersect interval is join lateral like limit minus not on or order outer over pivot
    regexp rlike rollup select semi sets some then union unpivot using values when where with within
    """
)
"""Words before a bracket that call no function."""
_TYPES = _words(
    """
    array bigint binary boolean byte char character date dec decimal double float int integer long map numeric real
    short smallint string struct timestamp timestamp_ltz timestamp_ntz tinyint varchar
    """
)
"""Also functions that convert a value."""
_STRING_FUNCTIONS = _words(
    """
    array_join base64 bin btrim char chr concat concat_ws conv date_format decode elt encode format_number
    format_string from_json from_unixtime get_json_object hex initcap lcase left lower lpad ltrim overlay parse_url
    printf regexp_extract regexp_extract_all regexp_replace regexp_substr repeat replace reverse right rpad rtrim
    soundex space split split_part string substr substring substring_index to_char to_json to_varchar translate
    trim ucase unbase64 unhex upper url_decode url_encode varchar
    """
)
"""Functions that could compute 'today' from constants."""
_OTHER_FUNCTIONS = _words(
    """
    abs acos acosh add_months aggregate any_value approx_count_distinct approx_percentile array_agg array_append
    array_compact array_contains array_distinct array_except array_insert array_intersect array_max array_min
    array_position array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin
    asinh atan atan2 atanh avg bigint bit_and bit_count bit_length bit_or bit_xor bool_and bool_or bround
    cardinality cast cbrt ceil ceiling char_length character_length coalesce collect_list collect_set contains corr
    cos cosh cot count count_if count_min_sketch covar_pop covar_samp crc32 csc cume_dist date_add date_diff
    date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek
    dayofyear degrees dense_rank e element_at endswith equal_null every exp explode explode_outer expm1 extract
    factorial filter find_in_set first first_value flatten floor forall from_utc_timestamp get greatest grouping
    grouping_id hash histogram_numeric hour hypot if ifnull inline inline_outer instr isnan isnotnull isnull
    json_array_length kurtosis lag last last_day last_value lead least len length levenshtein listagg ln locate log
    log10 log1p log2 luhn_check make_date make_interval make_timestamp map_concat map_entries map_filter
    map_from_arrays map_from_entries map_keys map_values max max_by md5 mean median min min_by minute mod mode
    month monthname months_between named_struct nanvl negative next_day nth_value ntile nullif nullifzero nvl nvl2
    octet_length percent_rank percentile percentile_approx percentile_cont percentile_disc pi pmod posexplode
    posexplode_outer position positive pow power quarter radians rank reduce regexp_count regexp_instr regexp_like
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy rint round
    row_number sec second sequence sha sha1 sha2 shiftleft shiftright sign signum sin sinh size skewness slice some
    sort_array sqrt stack startswith std stddev stddev_pop stddev_samp string_agg sum tan tanh timestampadd
    timestampdiff to_date to_number to_timestamp to_unix_timestamp transform transform_keys transform_values trunc
    try_add try_avg try_cast try_divide try_element_at try_mod try_multiply try_subtract try_sum try_to_date
    try_to_number try_to_timestamp typeof unix_date unix_micros unix_millis unix_seconds unix_timestamp var_pop var_samp
    variance weekday weekofyear width_bucket window xxhash64 year zeroifnull zip_with
    """
)
_FUNCTIONS = _STRING_FUNCTIONS | _OTHER_FUNCTIONS | _TYPES
_CLOCKS = frozenset({"unix_timestamp", "to_unix_timestamp", "date", "timestamp"})
"""Functions that might mean the time if they have no argument."""
_MOMENTS = tuple(MOMENTS)
_CONSTANTS = frozenset({"true", "false", "null", "as", "distinct"})


def is_repeatable(lexed: Lexed) -> bool:
    """Whether the query is certain to give the same rows again, up to an order that it leaves open."""
    pieces = lexed.pieces
    words = {piece.text.lower() for piece in pieces if piece.kind == "word"}
    words |= {piece.text[1:-1].lower() for piece in pieces if piece.kind == "quoted"}
    if not words.isdisjoint(_REFUSED_WORDS) or "${" in lexed.text:
        return False
    if "using" in words and not words.isdisjoint(_TRANSFORMING):
        return False
    return all(_is_harmless(pieces, place) for place in range(len(pieces)))


def _is_harmless(pieces: Sequence[Lexeme], place: int) -> bool:
    piece = pieces[place]
    if piece.kind == "string":
        return not _begins_with_moment(pieces, place) and not _is_binary(pieces, place)
    if piece.text == "|" and _text(pieces, place + 1) == "|":
        return _is_column(pieces, place - 1) or _is_column(pieces, place + 2)
    return piece.text != "(" or not place or _is_known_call(pieces, place)


def _is_known_call(pieces: Sequence[Lexeme], place: int) -> bool:
    """Whether the bracket at `place` follows no name, or that of a function or keyword that is known."""
    before = pieces[place - 1]
    if before.kind == "symbol":
        return True
    if before.kind != "word" or _text(pieces, place - 2) == ".":
        return False  # a quoted name, or one with a database
    name = before.text.lower()
    if name in _STRING_FUNCTIONS:
        return any(_is_column(pieces, inside) for inside in range(place + 1, _end_of(pieces, place)))
    if name in _CLOCKS and _text(pieces, place + 1) == ")":
        return False
    return name in _KEYWORDS or name in _FUNCTIONS


def _end_of(pieces: Sequence[Lexeme], place: int) -> int:
    """The place of the bracket that closes the one at `place`."""
    depth = 0
    for end in range(place, len(pieces)):
        depth += {"(": 1, ")": -1}.get(pieces[end].text, 0)
        if not depth:
            return end
    return len(pieces)


def _is_column(pieces: Sequence[Lexeme], place: int) -> bool:
    """Whether the piece is the name of a column, as far as its text tells."""
    if not 0 <= place < len(pieces) or _text(pieces, place + 1) == "(":
        return False
    piece = pieces[place]
    if piece.kind == "quoted":
        return True
    word = piece.text.lower()
    return piece.kind == "word" and not word[0].isdigit() and word not in _CONSTANTS | _KEYWORDS | _TYPES


def _begins_with_moment(pieces: Sequence[Lexeme], place: int) -> bool:
    """Whether a string begins with a word that may mean a time, such as `today`. Adjacent strings are one."""
    if place and pieces[place - 1].kind == "string":
        return False
    run = [each.text for each in takewhile(lambda each: each.kind == "string", islice(pieces, place, None))]
    return any(value.lstrip().lower().startswith(_MOMENTS) for value in string_values(run).values())


def _is_binary(pieces: Sequence[Lexeme], place: int) -> bool:
    """Whether it is a literal like X'1F', whose bytes may be any text."""
    return place > 0 and pieces[place - 1].text.lower() == "x" and pieces[place - 1].end == pieces[place].start


def _text(pieces: Sequence[Lexeme], place: int) -> str:
    return pieces[place].text if 0 <= place < len(pieces) else ""
