"""Findings about descriptors, the errors that they raise, and bit fields: a table of `BitField` encodes, decodes and checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, ClassVar, Self

from ptxlab._records import dataclass
from ptxlab.diagnostics import PtxlabError, diagnose

__all__ = ["BitDescriptor", "BitField", "BitFormat", "Descriptor", "DescriptorError", "Finding", "TensorMapError", "escaped", "html_of"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that a descriptor breaks.

    Attributes
    ----------
    code : of the diagnostic that a run makes of it
    field : the attribute at fault
    message : what is wrong
    section : title of the section, or table, with the rule
    fix : what to do
    """

    code: str
    field: str
    message: str
    section: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.message} ({self.section})"


class DescriptorError(PtxlabError, ValueError):
    """A descriptor that cannot be built."""

    def __init__(self, message: str, reason: str = "", fix: str = "") -> None:
        super().__init__(diagnose("D731", message, reason=reason, fix=fix))


class TensorMapError(PtxlabError, ValueError):
    """A tensor map that the driver refuses to encode; ``argument`` names the argument at fault."""

    def __init__(self, argument: str, message: str, fix: str = "") -> None:
        super().__init__(diagnose("D732", f"{argument}: {message}", fix=fix))
        self.argument = argument


@dataclass(frozen=True, slots=True)
class BitField:
    """A field of a descriptor.

    Attributes
    ----------
    name : the attribute that holds its value
    low, width : its lowest bit and its width
    meaning : as the specification's table words it
    shift : low bits of the value that are not stored (the value must be a multiple of ``1 << shift``)
    bias : what is subtracted from the value before it is stored
    values : value -> code, for a field of named values; a code without a name reads as ``"code 3"``
    upper : lowest bit and width of the upper part of a field that has two parts
    signed : two's complement
    """

    name: str
    low: int
    width: int
    meaning: str = ""
    shift: int = 0
    bias: int = 0
    values: Mapping[Any, int] | None = None
    upper: tuple[int, int] = (0, 0)
    signed: bool = False

    @property
    def mask(self) -> int:
        """Its bits in place."""
        return ((1 << self.width) - 1) << self.low | ((1 << self.upper[1]) - 1) << self.upper[0]

    def get(self, raw: int) -> Any:
        """The value in a raw word."""
        code = raw >> self.low & ((1 << self.width) - 1)
        if self.upper[1]:
            code |= (raw >> self.upper[0] & ((1 << self.upper[1]) - 1)) << self.width
        if self.values is not None:
            return next((value for value, known in self.values.items() if known == code), f"code {code}")
        size = self.width + self.upper[1]
        if self.signed and code >> (size - 1):
            code -= 1 << size
        return (code << self.shift) + self.bias

    def put(self, value: Any) -> int:
        """The bits of a value in place.

        Raises
        ------
        DescriptorError
            if the field cannot hold it
        """
        code = self._code(value)
        return (code & ((1 << self.width) - 1)) << self.low | code >> self.width << self.upper[0]

    def _code(self, value: Any) -> int:
        if self.values is not None:
            if value in self.values:
                return self.values[value]
            if isinstance(value, str) and value.startswith("code ") and value[5:].isdigit() and int(value[5:]) < 1 << self.width:
                return int(value[5:])
            raise DescriptorError(f"{self.name} is {value!r}; it can be {', '.join(map(str, self.values))}")
        stored = int(value) - self.bias
        size = self.width + self.upper[1]
        lowest = -(1 << (size - 1)) if self.signed else 0
        highest = lowest + (1 << size) - 1
        unit = 1 << self.shift
        if stored % unit:
            raise DescriptorError(f"{self.name} is {int(value):#x}; it must be a multiple of {unit}")
        if not lowest <= stored >> self.shift <= highest:
            least, most = (lowest << self.shift) + self.bias, (highest << self.shift) + self.bias
            shown = f"{least} to {most}" if self.shift < 4 else f"{least:#x} to {most:#x}"
            raise DescriptorError(f"{self.name} is {int(value)}; it can be {shown}")
        return stored >> self.shift & ((1 << size) - 1)


@dataclass(frozen=True, slots=True)
class BitFormat:
    """A descriptor's layout: its fields, and what the remaining bits must be.

    ``fixed`` are bits of unnamed places that must be 1; all other unnamed bits must be 0.
    """

    name: str
    section: str
    bits: int
    fields: tuple[BitField, ...]
    fixed: int = 0
    named: int = field(init=False)

    def __post_init__(self) -> None:
        named = 0
        for item in self.fields:
            if named & item.mask:
                raise ValueError(f"{self.name}: {item.name} overlaps another field")
            named |= item.mask
        object.__setattr__(self, "named", named)

    def encode(self, values: Mapping[str, Any], reserved: int = 0) -> int:
        """The raw word; ``reserved`` are the unnamed bits that differ from what they must be."""
        raw = self.fixed ^ reserved
        for item in self.fields:
            raw |= item.put(values[item.name])
        return raw

    def decode(self, raw: int) -> dict[str, Any]:
        """Values of all fields, and ``reserved`` if there are unnamed bits."""
        if not 0 <= raw < 1 << self.bits:
            raise DescriptorError(f"{raw:#x} does not fit in the {self.bits} bits of a {self.name}")
        values = {item.name: item.get(raw) for item in self.fields}
        if self.named != (1 << self.bits) - 1:
            values["reserved"] = raw & ~self.named ^ self.fixed
        return values

    def findings(self, values: Mapping[str, Any], code: str) -> Iterator[Finding]:
        """What is never legal: unnamed bits that are wrong, and codes without a meaning."""
        for low, width in self.unnamed():
            wrong = values["reserved"] >> low & ((1 << width) - 1)
            if wrong:
                must = self.fixed >> low & ((1 << width) - 1)
                place = f"bit {low}" if width == 1 else f"bits {low}-{low + width - 1}"
                message = f"{place} of the {self.name} must be 0b{must:0{width}b}, not 0b{must ^ wrong:0{width}b}"
                right = f"{self.encode(values, 0):#0{self.bits // 4 + 2}x}"
                yield Finding(code, "reserved", message, self.section, f"write {right}, which differs in these bits only")
        for item in self.fields:
            value = values[item.name]
            if item.values is not None and value not in item.values:
                known = ", ".join(f"{number} = {name}" for name, number in item.values.items())
                yield Finding(code, item.name, f"{item.meaning or item.name} has the invalid {value}; the codes are {known}", self.section)

    def unnamed(self) -> Iterator[tuple[int, int]]:
        """Runs of bits that no field names, as (lowest bit, width)."""
        low = 0
        while low < self.bits:
            width = 0
            while low + width < self.bits and not self.named >> (low + width) & 1:
                width += 1
            if width:
                yield low, width
            low += width + 1


def escaped(text: str) -> str:
    """Text as HTML shows it; the module that does it has a large table of named characters, so it is imported when it is needed."""
    from html import escape

    return escape(text)


def html_of(descriptor: object) -> str:
    """The HTML of a descriptor's explanation."""
    # `explain` reads every kind of descriptor, so that none of them can import it.
    from ptxlab.descriptors.describe.explain import explain

    return explain(descriptor)._repr_html_()


class Descriptor:
    """Base of descriptors: reports show their attributes, notebooks their explanation."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]]

    def _repr_html_(self) -> str:
        return html_of(self)

    def fields(self) -> list[tuple[str, object]]:
        """Names and values, for a report."""
        return list(self._values().items())

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__match_args__}


class BitDescriptor(Descriptor):
    """Base of descriptors whose attributes are the fields of one format."""

    __slots__ = ()

    FORMAT: ClassVar[BitFormat]

    def __int__(self) -> int:
        return self.FORMAT.encode(self._values(), getattr(self, "reserved", 0))

    @classmethod
    def decode(cls, value: int) -> Self:
        """Read the bits; every value can be read, `findings` says what is wrong with it."""
        return cls(**cls.FORMAT.decode(value))
