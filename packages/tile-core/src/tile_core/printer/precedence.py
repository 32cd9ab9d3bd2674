"""Text of an expression together with how tightly it binds, so that parentheses appear only where they are needed.

Two rules of reading go beyond C's grammar, the ones compilers warn about: `&&` within `||`, and arithmetic within
shifts, bitwise operators and comparisons of comparisons, are parenthesised.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Precedence(IntEnum):
    """C's levels, loosest first."""

    CONDITIONAL = 1
    OR = 2
    AND = 3
    BIT_OR = 4
    BIT_XOR = 5
    BIT_AND = 6
    EQUALITY = 7
    RELATIONAL = 8
    SHIFT = 9
    ADD = 10
    MUL = 11
    UNARY = 12
    POSTFIX = 13
    ATOM = 14


@dataclass(frozen=True)
class Code:
    """The text of an expression and its outermost precedence."""

    text: str
    precedence: Precedence = Precedence.ATOM

    def at(self, minimum: Precedence) -> str:
        """The text, in parentheses where it binds more loosely than `minimum`."""
        return self.text if self.precedence >= minimum else f"({self.text})"


@dataclass(frozen=True)
class Infix:
    """A binary operator. Operands bind at least as tightly as `operands`; a chain `a + b + c` nests to the left."""

    symbol: str
    precedence: Precedence
    operands: Precedence
    chains: bool = True

    def join(self, left: Code, right: Code) -> Code:
        """The operator between two operands."""
        leftmost = self.chains and left.precedence == self.precedence
        first = left.text if leftmost else left.at(self.operands)
        return Code(f"{first} {self.symbol} {right.at(self.operands)}", self.precedence)


ADD = Infix("+", Precedence.ADD, Precedence.MUL)
SUB = Infix("-", Precedence.ADD, Precedence.MUL)
MUL = Infix("*", Precedence.MUL, Precedence.UNARY)
DIV = Infix("/", Precedence.MUL, Precedence.UNARY)
MOD = Infix("%", Precedence.MUL, Precedence.UNARY)
LEFT = Infix("<<", Precedence.SHIFT, Precedence.UNARY, chains=False)
RIGHT = Infix(">>", Precedence.SHIFT, Precedence.UNARY, chains=False)
BIT_AND = Infix("&", Precedence.BIT_AND, Precedence.UNARY)
BIT_XOR = Infix("^", Precedence.BIT_XOR, Precedence.UNARY)
BIT_OR = Infix("|", Precedence.BIT_OR, Precedence.UNARY)
EQUAL = Infix("==", Precedence.EQUALITY, Precedence.ADD, chains=False)
NOT_EQUAL = Infix("!=", Precedence.EQUALITY, Precedence.ADD, chains=False)
LESS = Infix("<", Precedence.RELATIONAL, Precedence.ADD, chains=False)
LESS_EQUAL = Infix("<=", Precedence.RELATIONAL, Precedence.ADD, chains=False)
GREATER = Infix(">", Precedence.RELATIONAL, Precedence.ADD, chains=False)
GREATER_EQUAL = Infix(">=", Precedence.RELATIONAL, Precedence.ADD, chains=False)
AND = Infix("&&", Precedence.AND, Precedence.EQUALITY)
OR = Infix("||", Precedence.OR, Precedence.EQUALITY)


def prefix(symbol: str, operand: Code) -> Code:
    """A unary operator before its operand."""
    text = operand.at(Precedence.UNARY)
    # `- -x` and `--x` are different things, and so are `& &x` and `&&x`.
    gap = " " if text.startswith(symbol) and symbol in ("-", "&") else ""
    return Code(f"{symbol}{gap}{text}", Precedence.UNARY)


def cast(type_name: str, operand: Code) -> Code:
    """A C cast."""
    return prefix(f"({type_name})", operand)


def conditional(condition: Code, true: Code, false: Code) -> Code:
    """`condition ? true : false`; a chain of them nests to the right without parentheses."""
    tail = false.text if false.precedence == Precedence.CONDITIONAL else false.at(Precedence.OR)
    return Code(f"{condition.at(Precedence.OR)} ? {true.at(Precedence.OR)} : {tail}", Precedence.CONDITIONAL)


def call(function: str, *arguments: Code) -> Code:
    """A function call."""
    return Code(f"{function}({', '.join(argument.text for argument in arguments)})", Precedence.POSTFIX)
