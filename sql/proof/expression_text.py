"""Reads the expressions in the text of a plan, and infers their types, which the text does not show.

Only what is written in one way is read. All else raises ValueError with a reason for users.

Tests: `test_plan_text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sql.proof.literal_text import KEYWORDS, VALUES, WORD, Loose, literal_of
from sql.proof.plan import Node, Scalar, Value
from sql.proof.understood_classes import PADDED, STATIC_CALLS, STATIC_INVOKE
from sql.query.aggregates import digits_in_average, digits_of, digits_of_average, digits_of_sum

_ATTRIBUTE = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*+)#(\d+)(L?)(?!\w)", re.ASCII)
_ID = re.compile(r"#(\d+)(L?)(?!\w)", re.ASCII)
_CALL = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\(", re.ASCII)
_SPACES = re.compile(r"(?<! ) +(?=[),]| [<>=])")
"""At the end of an operand of a comparison: nothing that Spark prints has any, but a string that ends with them."""
_TYPE = re.compile(
    r"boolean|tinyint|smallint|int|bigint|float|double|decimal\(\d+,\d+\)|string|date|timestamp(?:_ntz)?"
)
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
INTEGERS = _NUMBERS[:4]
_COMPARISONS = {
    "=": "EqualTo",
    "<=>": "EqualNullSafe",
    "<=": "LessThanOrEqual",
    "<": "LessThan",
    ">=": "GreaterThanOrEqual",
    ">": "GreaterThan",
}
_ARITHMETIC = {"+": "Add", "-": "Subtract", "*": "Multiply", "/": "Divide", "%": "Remainder", "div": "IntegralDivide"}
_LOGIC = {"AND": "And", "OR": "Or"}
_TESTS = {"isnull": "IsNull", "isnotnull": "IsNotNull"}
_CONTAINED = {"StartsWith", "EndsWith", "Contains"}
ZONE, FAILS = "timeZoneId", "failOnError"
_FUNCTIONS: Mapping[str, tuple[str, str, str, str]] = {
    **{
        name: (kind, "child", "date", "int")
        for name, kind in {
            "year": "Year",
            "quarter": "Quarter",
            "month": "Month",
            "dayofmonth": "DayOfMonth",
            "dayofweek": "DayOfWeek",
            "weekday": "WeekDay",
            "dayofyear": "DayOfYear",
            "weekofyear": "WeekOfYear",
        }.items()
    },
    **{
        name: (kind, f"child {ZONE}", "timestamp zone", "int")
        for name, kind in {"hour": "Hour", "minute": "Minute", "second": "Second"}.items()
    },
    "last_day": ("LastDay", "startDate", "date", "date"),
    "trunc": ("TruncDate", "date format", "date string", "date"),
    "date_trunc": ("TruncTimestamp", f"format timestamp {ZONE}", "string timestamp zone", "timestamp"),
    "date_add": ("DateAdd", "startDate days", "date int", "date"),
    "date_sub": ("DateSub", "startDate days", "date int", "date"),
    "datediff": ("DateDiff", "endDate startDate", "date date", "int"),
    "add_months": ("AddMonths", "startDate numMonths", "date int", "date"),
    "date_format": ("DateFormatClass", f"left right {ZONE}", "timestamp string zone", "string"),
    "from_unixtime": ("FromUnixTime", f"sec format {ZONE}", "bigint string zone", "string"),
    "unix_timestamp": ("UnixTimestamp", f"timeExp format {ZONE} {FAILS}", "timestamp string zone ansi", "bigint"),
    "upper": ("Upper", "child", "string", "string"),
    "lower": ("Lower", "child", "string", "string"),
    "length": ("Length", "child", "string", "int"),
    "substring": ("Substring", "str pos len", "string int int", "string"),
    "trim": ("StringTrim", "srcStr trimStr", "string none", "string"),
}
"""The class of each function, its fields, their types (`zone`, `ansi` and `none` are not expressions), and its own."""
_AGGREGATES = {
    "min": "Min",
    "max": "Max",
    "bit_and": "BitAndAgg",
    "bit_or": "BitOrAgg",
    "bit_xor": "BitXorAgg",
    "count": "Count",
    "sum": "Sum",
    "avg": "Average",
}
STATIC_CALL = "static_invoke"
PADS = "rpad"
"""What Spark calls for a string, or a CHAR, that is compared with a longer CHAR or string."""
READ_CALLS = frozenset({*_TESTS, *_CONTAINED, *_FUNCTIONS, *_AGGREGATES, "cast", "coalesce", "concat"})


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What a text does not show: the settings under which it was made, and what the statement was made of."""

    ansi: bool
    loses_precision: bool
    """spark.sql.decimalOperations.allowPrecisionLoss"""
    zone: str
    strings: frozenset[str]
    """The values of the string literals in the statement, and in the views that it reads."""
    integers: frozenset[str]
    """The digits of numbers that can only be of type INT; empty if a literal may have been computed."""
    written: frozenset[str] = frozenset()
    """The digits of the statement's literals that are of type INT."""
    names: tuple[str, ...] = ()
    """Names of columns other than plain words, the longest first."""

    @property
    def mode(self) -> Scalar:
        return Scalar("Enumeration", "ANSI" if self.ansi else "LEGACY")

    @property
    def context(self) -> Node:
        loses = Scalar("Boolean", "true" if self.loses_precision else "false")
        return Node("NumericEvalContext", {"evalMode": self.mode, "allowDecimalPrecisionLoss": loses})


@dataclass(slots=True)
class Reading:
    """One line of the text, read from the left to the right."""

    text: str
    session: SessionFacts
    types: Mapping[str, str]
    """Of the columns that the line may use, by their ids."""
    place: int = 0

    # --- pieces ------------------------------------------------------------------------------------

    def sees(self, piece: str) -> bool:
        return self.text.startswith(piece, self.place)

    def takes(self, piece: str) -> bool:
        if self.sees(piece):
            self.place += len(piece)
            return True
        return False

    def expect(self, piece: str) -> None:
        if not self.takes(piece):
            raise ValueError(f"Spark's plan has a part that is not understood: {self.text[self.place :][:60]!r}")

    def end(self) -> None:
        if self.place < len(self.text):
            self.expect("the end")

    def matched(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.place)
        if found is not None:
            self.place = found.end()
        return found

    # --- lists -------------------------------------------------------------------------------------

    def listed(self, item: Callable[[], Node]) -> tuple[Node, ...]:
        """`[a, b]`"""
        self.expect("[")
        if self.takes("]"):
            return ()
        found = [item()]
        while self.takes(", "):
            found.append(item())
        self.expect("]")
        return tuple(found)

    def expression(self) -> Node:
        return self.free(self.loose())

    def named(self) -> Node:
        """An attribute, or an expression with an alias."""
        value = self.loose()
        if not self.takes(" AS "):
            return self.free(value)
        value = self.free(value)
        name, identifier, long = self._name()
        _check_long(name, long, value.type)
        return Node("Alias", {"child": value, "name": Scalar("String", name)}, value.type, identifier)

    def new_attribute(self) -> tuple[str, str, bool]:
        """The name and id of a column that is defined here, and whether it is a BIGINT."""
        name, identifier, long = self._name()
        return name, identifier, bool(long)

    def order(self) -> Node:
        value = self.expression()
        for way in ("ASC", "DESC"):
            for nulls in ("FIRST", "LAST"):
                if self.takes(f" {way} NULLS {nulls}"):
                    direction = Scalar("object", {"ASC": "Ascending$", "DESC": "Descending$"}[way])
                    nulls_last = Scalar("object", f"Nulls{nulls.title()}$")
                    fields: Mapping[str, Value] = {
                        "child": value,
                        "direction": direction,
                        "nullOrdering": nulls_last,
                        "sameOrderExpressions": (),
                    }
                    return Node("SortOrder", fields, value.type)
        raise ValueError("Spark's plan has an order that is not understood")

    # --- expressions -------------------------------------------------------------------------------

    def condition(self) -> Node:
        return self.fixed(self.loose(), "boolean")

    def loose(self) -> Node | Loose:
        """An expression. A literal is loose until what it is used for says of which type it is."""
        value = self._operand()
        if self.takes(" IN ("):
            return self._in(value)
        if self.takes(" LIKE "):
            pattern = self.fixed(self._literal(), "string")
            fields: Mapping[str, Value] = {
                "left": self.fixed(value, "string"),
                "right": pattern,
                "escapeChar": Scalar("Character", "\\"),
            }
            return Node("Like", fields, "boolean")
        return value

    def _operand(self) -> Node | Loose:
        if (odd := self._odd_name()) is not None:
            return self._attribute(*odd)
        if (plain := self.matched(_ATTRIBUTE)) is not None:
            return self._attribute(plain[1], plain[2], plain[3])
        if self.takes("("):
            return self._binary()
        if self.takes("NOT "):
            return Node("Not", {"child": self.condition()}, "boolean")
        if self.takes("CASE WHEN "):
            return self._case()
        if self.takes("if ("):
            return self._if()
        if (call := self.matched(_CALL)) is not None:
            return self._called(call[1])
        return self._literal()

    def _attribute(self, name: str, identifier: str, long: str) -> Node:
        if identifier not in self.types:
            raise ValueError(f"Spark's plan uses the column {name}, which it does not have there")
        type_text = self.types[identifier]
        if not type_text:
            raise ValueError(f"the plan's text does not show the type of the column {name}")
        _check_long(name, long, type_text)
        return Node("AttributeReference", {"name": Scalar("String", name)}, type_text, identifier)

    def _odd_name(self) -> tuple[str, str, str] | None:
        for name in self.session.names:
            if self.sees(f"{name}#"):
                before, self.place = self.place, self.place + len(name)
                if (found := self.matched(_ID)) is not None:
                    return name, found[1], found[2]
                self.place = before
        return None

    def _name(self) -> tuple[str, str, str]:
        if (odd := self._odd_name()) is not None:
            return odd
        if (plain := self.matched(_ATTRIBUTE)) is None:
            raise ValueError("Spark's plan has a column whose name is not a plain word; give it an alias")
        return plain[1], plain[2], plain[3]

    def _literal(self) -> Loose:
        """Words up to one that cannot be part of a literal."""
        start = self.place
        self.takes(" ")
        word = self.matched(WORD)
        if word is None or (word[0] in KEYWORDS and word[0] not in VALUES):
            self.expect("a value")
        while word is not None and word[0] not in VALUES and self.sees(" "):
            word = WORD.match(self.text, self.place + 1)
            if word is not None and word[0] not in KEYWORDS:
                self.place = word.end()
            else:
                break
        return Loose(self.text[start : self.place])

    def _with_spaces(self, value: Node | Loose) -> Node | Loose:
        """A string that Spark has padded for the comparison with a CHAR has spaces at its end."""
        if isinstance(value, Loose) and (spaces := self.matched(_SPACES)) is not None:
            return Loose(value.text + spaces[0])
        return value

    def _binary(self) -> Node:
        left = self._with_spaces(self.loose())
        self.expect(" ")
        symbol = self.text[self.place :].split(" ", 1)[0]
        self.expect(f"{symbol} ")
        right = self._with_spaces(self.loose())
        self.expect(")")
        if symbol in _LOGIC:
            return _pair(_LOGIC[symbol], self.fixed(left, "boolean"), self.fixed(right, "boolean"), "boolean")
        left, right = self.alike(left, right)
        if symbol in _COMPARISONS:
            return _pair(_COMPARISONS[symbol], left, right, "boolean")
        if symbol not in _ARITHMETIC or left.type not in _NUMBERS:
            raise ValueError(f"the plan's text does not show the type of an operation {symbol} on {left.type}")
        return self._computed(_ARITHMETIC[symbol], left, right)

    def _computed(self, kind: str, left: Node, right: Node) -> Node:
        if (kind == "Divide" and left.type != "double") or (kind == "IntegralDivide" and left.type != "bigint"):
            raise ValueError(f"the plan's text does not show the type of a division of {left.type}")
        fields = {"left": left, "right": right, "evalContext": self.session.context}
        return Node(kind, fields, left.type)

    def _case(self) -> Node | Loose:
        branches: list[tuple[Node, Node | Loose]] = []
        while True:
            condition = self.condition()
            self.expect(" THEN ")
            branches.append((condition, self.loose()))
            if not self.takes(" WHEN "):
                break
        otherwise = self.loose() if self.takes(" ELSE ") else None
        self.expect(" END")
        values = self.alike(*(value for _, value in branches), *([] if otherwise is None else [otherwise]))
        pairs = tuple(
            Node("scala.Tuple2", {"_1": condition, "_2": value})
            for (condition, _), value in zip(branches, values, strict=False)
        )
        last = None if otherwise is None else values[-1]
        return Node("CaseWhen", {"branches": pairs, "elseValue": last}, values[0].type)

    def _if(self) -> Node:
        condition = self.condition()
        self.expect(") ")
        yes = self.loose()
        self.expect(" else ")
        yes, no = self.alike(yes, self.loose())
        return Node("If", {"predicate": condition, "trueValue": yes, "falseValue": no}, yes.type)

    def _in(self, value: Node | Loose) -> Node:
        items = [self._with_spaces(self.loose())]
        while self.takes(","):
            items.append(self._with_spaces(self.loose()))
        self.expect(")")
        value, *others = self.alike(value, *items)
        if value.type == "boolean":
            # NOT b IN (...) may mean either.
            raise ValueError("the plan's text does not show what a list of conditions is compared with")
        return Node("In", {"value": value, "list": tuple(others)}, "boolean")

    # --- calls -------------------------------------------------------------------------------------

    def _called(self, name: str) -> Node:
        if name == "cast":
            return self._cast()
        if name in _AGGREGATES:
            return self._aggregate(name)
        if name in _FUNCTIONS:
            return self._function(*_FUNCTIONS[name])
        if name == STATIC_CALL:
            return self._padded()
        if name == PADS:
            return self._longer()
        values = self._arguments()
        if name in _TESTS and len(values) == 1:
            return Node(_TESTS[name], {"child": self.free(values[0])}, "boolean")
        if name in _CONTAINED and len(values) == 2:
            return _pair(name, self.fixed(values[0], "string"), self.fixed(values[1], "string"), "boolean")
        if name == "coalesce":
            children = self.alike(*values)
            return Node("Coalesce", {"children": children}, children[0].type)
        if name == "concat":
            return Node("Concat", {"children": tuple(self.fixed(each, "string") for each in values)}, "string")
        raise ValueError(f"the plan's text does not show enough of the function {name}")

    def _arguments(self) -> list[Node | Loose]:
        values = [self.loose()]
        while self.takes(", "):
            values.append(self.loose())
        self.expect(")")
        return values

    def _function(self, kind: str, names: str, types: str, result: str) -> Node:
        fields: dict[str, Value] = {}
        for name, type_text in zip(names.split(), types.split(), strict=True):
            if fields:
                self.expect(", ")
            fields[name] = self._field(type_text)
        self.expect(")")
        return Node(kind, fields, result)

    def _padded(self) -> Node:
        """A CHAR as it is read, the only call of this kind."""
        self.expect(f"{PADDED}(")
        value, length = self._arguments()
        self.expect(")")
        ((owner, function),) = STATIC_CALLS
        fields: Mapping[str, Value] = {
            "staticObject": Scalar("Class", owner),
            "dataType": Scalar("DataType", "string"),
            "functionName": Scalar("String", function),
            "arguments": (self.fixed(value, "string"), self.fixed(length, "int")),
            "inputTypes": (),
            "propagateNull": Scalar("Boolean", "true"),
            "returnNullable": Scalar("Boolean", "false"),
            "isDeterministic": Scalar("Boolean", "true"),
            "scalarFunction": None,
        }
        return Node(STATIC_INVOKE, fields, "string")

    def _longer(self) -> Node:
        """A CHAR that is compared with something longer."""
        value = self.fixed(self.loose(), "string")
        self.expect(", ")
        length = self.fixed(self.loose(), "int")
        self.expect(",  )")
        space = literal_of(" ", "string", self.session.zone, frozenset({" "}))
        return Node("StringRPad", {"str": value, "len": length, "pad": space}, "string")

    def _field(self, type_text: str) -> Value:
        if type_text == "zone":
            self.expect(f"Some({self.session.zone})")
            return Scalar("String", self.session.zone)
        if type_text == "ansi":
            shown = "true" if self.session.ansi else "false"
            self.expect(shown)
            return Scalar("Boolean", shown)
        if type_text == "none":
            self.expect("None")
            return None
        return self.fixed(self.loose(), type_text)

    def _cast(self) -> Node:
        value = self._written(self.loose())
        self.expect(" as ")
        if (found := self.matched(_TYPE)) is None:
            raise ValueError("the plan's text does not show enough of a cast")
        self.expect(")")
        fields: Mapping[str, Value] = {
            "child": value,
            "dataType": Scalar("DataType", found[0]),
            ZONE: Scalar("String", self.session.zone),
            "evalMode": self.session.mode,
        }
        return Node("Cast", fields, found[0])

    def _written(self, value: Node | Loose) -> Node:
        """What is cast. Spark computes casts of literals, unless it is asked not to: then one is as it was written."""
        if isinstance(value, Loose):
            digits, strings = value.text.removeprefix("-"), self.session.strings
            if digits in self.session.written and digits not in strings:
                return self.fixed(value, "int")
            if value.text in strings and digits not in self.session.written:
                return self.fixed(value, "string")
        return self.free(value)

    def _aggregate(self, name: str) -> Node:
        distinct = self.takes("distinct ")
        values = self._arguments()
        if name == "count":
            # A count depends on nothing of a literal but that it is not NULL.
            nodes = tuple(self._counted(each) for each in values)
            function = Node("Count", {"children": nodes}, "bigint")
        elif len(values) > 1:
            raise ValueError(f"the plan's text does not show enough of the function {name}")
        else:
            value = self.free(values[0])
            function = Node(_AGGREGATES[name], {"child": value, **self._modes(name)}, _result(name, value.type))
        test = None
        if self.takes(" FILTER (WHERE "):
            test = self.condition()
            self.expect(")")
        fields: Mapping[str, Value] = {
            "aggregateFunction": function,
            "mode": Scalar("object", "Complete$"),
            "isDistinct": Scalar("Boolean", "true" if distinct else "false"),
            "filter": test,
        }
        return Node("AggregateExpression", fields, function.type)

    def _counted(self, value: Node | Loose) -> Node:
        if isinstance(value, Loose) and value.text != "null":
            return literal_of("1", "int", self.session.zone, self.session.strings)
        return self.free(value)

    def _modes(self, name: str) -> Mapping[str, Value]:
        if name == "sum":
            return {"evalContext": self.session.context}
        return {"evalMode": self.session.mode} if name == "avg" else {}

    # --- types -------------------------------------------------------------------------------------

    def fixed(self, value: Node | Loose, type_text: str) -> Node:
        if isinstance(value, Loose):
            return literal_of(value.text, type_text, self.session.zone, self.session.strings)
        if value.type != type_text:
            raise ValueError(f"Spark's plan has a {value.type} where a {type_text} is expected")
        return value

    def alike(self, *values: Node | Loose) -> tuple[Node, ...]:
        """The values, which have one type."""
        types = [each.type for each in values if isinstance(each, Node)]
        if not types:
            types = [each.type for each in map(self.free, values)]
        return tuple(self.fixed(each, types[0]) for each in values)

    def free(self, value: Node | Loose) -> Node:
        """A value of which nothing says of which type it is: only numbers and words that can be of one type."""
        if isinstance(value, Node):
            return value
        digits = value.text.removeprefix("-")
        if digits in self.session.integers and digits not in self.session.strings:
            return self.fixed(value, "int")
        if value.text[:1].isalpha() and value.text in self.session.strings:
            return self.fixed(value, "string")
        raise ValueError(f"the plan's text does not show of which type the value {value.text} is")


def _pair(kind: str, left: Node, right: Node, type_text: str) -> Node:
    return Node(kind, {"left": left, "right": right}, type_text)


def _check_long(name: str, long: str, type_text: str) -> None:
    """Spark marks the ids of BIGINT columns with an L."""
    if bool(long) != (type_text == "bigint"):
        raise ValueError(f"the column {name} has another type than the plan's text shows")


def _result(name: str, type_text: str) -> str:
    """The type of an aggregate."""
    if name in {"sum", "avg"}:
        if type_text in {"float", "double"}:
            return "double"
        if type_text in INTEGERS:
            return "bigint" if name == "sum" else "double"
        if (digits := digits_of(type_text)) is not None:
            if name == "sum":
                return str(digits_of_sum(digits)).lower()
            if digits_in_average(found := digits_of_average(digits)) != digits:
                raise ValueError("the plan's text does not show the type of an average")
            return str(found).lower()
        raise ValueError(f"the plan's text does not show the type of the function {name}")
    return type_text


def items(values: Sequence[Node]) -> dict[str, str]:
    """The types of named expressions, by their ids."""
    return {each.id: each.type for each in values}
