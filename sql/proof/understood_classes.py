"""The classes of Catalyst that the proof understands. A plan with any other class proves nothing.

A class is listed only if its value depends on nothing but its operands and its own fields, which the plan shows: no
clock, no random numbers, no user's code, no order of rows. Spark's settings at run time are the same on both sides.
"""

from __future__ import annotations

import re

from sql.query import aggregates
from sql.query.aggregates import CLASSES, REPETITIONS_IGNORED


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PADDED = "CharVarcharCodegenUtils.readSidePadding"
"""A CHAR as Spark reads it: NULL for NULL, otherwise the value with spaces up to the length."""
STATIC_INVOKE = "org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke"
STATIC_CALLS = {("org.apache.spark.sql.catalyst.util.CharVarcharCodegenUtils", "readSidePadding"): PADDED}
"""What Java's functions of Spark's own are, by class and name; the class StaticInvoke says nothing of them."""
BOOLEAN = words("And Or Not EqualTo EqualNullSafe LessThan LessThanOrEqual In IsNull IsNotNull IsNaN")
SCALAR = (
    BOOLEAN
    | words("""
    Literal GreaterThan GreaterThanOrEqual If CaseWhen Coalesce NaNvl Greatest Least Cast
    Add Subtract Multiply Divide IntegralDivide Remainder Pmod UnaryMinus UnaryPositive Abs Signum
    Round BRound Ceil Floor RoundCeil RoundFloor Sqrt Cbrt Exp Expm1 Log Log2 Log10 Log1p Pow
    BitwiseAnd BitwiseOr BitwiseXor BitwiseNot ShiftLeft ShiftRight
    Concat ConcatWs Substring SubstringIndex Upper Lower InitCap Length BitLength OctetLength Reverse StringRepeat
    StringTrim StringTrimLeft StringTrimRight StringLPad StringRPad StringReplace StringTranslate StringInstr
    StringLocate StringSpace Like RLike StartsWith EndsWith Contains RegExpExtract RegExpReplace Ascii Chr
    Year Quarter Month WeekOfYear DayOfMonth DayOfWeek WeekDay DayOfYear YearOfWeek
    Hour Minute Second SecondWithFraction TruncDate TruncTimestamp LastDay NextDay
    DateAdd DateSub DateDiff AddMonths MonthsBetween MakeDate DateAddYMInterval SubtractDates SubtractTimestamps
    TimestampAdd TimestampDiff TimestampAddInterval TimestampAddYMInterval ExtractANSIIntervalDays
    ExtractANSIIntervalHours ExtractANSIIntervalMinutes ExtractANSIIntervalSeconds ExtractANSIIntervalMonths
    ExtractANSIIntervalYears DateFormatClass FromUnixTime UnixTimestamp ToUnixTimestamp GetTimestamp
    SecondsToTimestamp MillisToTimestamp MicrosToTimestamp UnixDate UnixSeconds UnixMillis UnixMicros DateFromUnixDate
    FromUTCTimestamp ToUTCTimestamp
    """)
    | {PADDED}
)
AGGREGATE = words("""
    Sum Count Min Max Average BitAndAgg BitOrAgg BitXorAgg StddevSamp StddevPop VarianceSamp VariancePop
    CovSample CovPopulation Corr Percentile HyperLogLogPlusPlus
    """)
MERGED_BY_ITSELF = frozenset(each for each, name in CLASSES.items() if name in aggregates.MERGED_BY_ITSELF)
NULL_IGNORED = MERGED_BY_ITSELF | words("Sum Count Average StddevSamp StddevPop VarianceSamp VariancePop")
DUPLICATES_IGNORED = {each for each, name in CLASSES.items() if name in REPETITIONS_IGNORED} | {"HyperLogLogPlusPlus"}
WINDOW = words("""
    WindowExpression WindowSpecDefinition SpecifiedWindowFrame RowFrame RangeFrame CurrentRow UnboundedPreceding
    UnboundedFollowing RowNumber Rank DenseRank PercentRank CumeDist NTile Lag Lead
    """)
CONSTANT = (
    SCALAR
    | AGGREGATE
    | frozenset({each + "$" for each in WINDOW} | WINDOW)
    | frozenset({"AttributeReference", "Alias", "AggregateExpression", "SortOrder"})
    # Their plans are searched too.
    | frozenset({"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "OuterReference"})
    # `x BETWEEN a AND b` names x once. What is named is searched, too.
    | frozenset({"With", "CommonExpressionDef", "CommonExpressionRef"})
)
"""Classes without a column that may be replaced by their value while Spark plans, as it is the same on every day."""
STRUCTURE = frozenset({"NumericEvalContext", "scala.Tuple2"})
"""Parts of an expression that are not expressions."""
STRICT = words("""
    EqualTo LessThan LessThanOrEqual In Not StartsWith EndsWith Contains Like RLike Cast Add Subtract Multiply Divide
    Remainder UnaryMinus Abs Substring Upper Lower Length Year Quarter Month DayOfMonth DayOfWeek TruncDate
    TruncTimestamp DateAdd DateSub
    """) | {PADDED}
"""NULL if an operand is NULL (of `In`: the first operand)."""
COMMUTATIVE = frozenset({"EqualTo", "EqualNullSafe", "Add", "Multiply"})
FLIPPED = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual"}
OUTER_JOINS = words("LeftOuter RightOuter FullOuter LeftSemi LeftAnti")
EXISTENCE_JOIN = "ExistenceJoin"
"""A type of joins that keep all left rows, and say of each in a column whether there is a right one."""
ORDER_MATTERS = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Sample"})
"""Nodes that a definition may not have: a stored answer keeps one of several right answers."""
RANKS = words("Rank DenseRank PercentRank CumeDist")
"""Functions of windows that give rows of one rank one value."""

_IDENTITY = re.compile(
    r"boolean|tinyint|smallint|int|bigint|decimal\(\d+,\d+\)|string|binary|date|timestamp|timestamp_ntz"
    r"|interval (year|month|day|hour|minute|second)( to (month|hour|minute|second))?"
)


def has_identity(type_text: str) -> bool:
    """Whether equal values of the type are the same value. -0.0 = 0.0, and 'a' = 'A' in some collations."""
    return _IDENTITY.fullmatch(type_text) is not None


def is_collated(type_text: str) -> bool:
    return "collate" in type_text.lower()


_FILES = "org.apache.spark.sql.execution.datasources."
LISTINGS = frozenset({_FILES + "InMemoryFileIndex", _FILES + "CatalogFileIndex"})
"""How a table's files are found: all that belong to it. A listing of another class may be of an older version."""
NEWEST = frozenset({"newest snapshot of an Iceberg table", "newest version of a Delta table"})
"""What `PlanWriter` calls a table of these formats, if the newest version of the whole table is read."""
