"""Reads one mapping: takes known keys, collects every problem, refuses the rest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from numaplace.reading.document import Items, Node, Scalar, Section
from numaplace.reading.kinds import Kind
from numaplace.reading.readers import Leaf, ListOf, Reader, Refused, refuse_kind

T = TypeVar("T")


@dataclass(slots=True)
class Keys:
    """The keys of one mapping. ``key`` is its path in the file; ``problems`` is shared by the whole file.

    A key without a value counts as not given. After the last ``take`` call ``refuse_rest``: ``known``
    are the names that it says are allowed, ``done`` the ones that were read.
    """

    section: Section
    key: str
    problems: list[str]
    known: list[str] = field(default_factory=list)
    done: set[str] = field(default_factory=set)

    @property
    def where(self) -> str:
        """The place of the mapping in the file."""
        return self.section.where

    def path(self, name: str) -> str:
        return f"{self.key}.{name}" if self.key else name

    def place(self, name: str) -> str:
        """Return the place of a key; of the mapping if the key is not given."""
        return self.section.key_where.get(name, self.where)

    def problem(self, text: str, *, name: str = "") -> None:
        path = self.path(name) if name else self.key
        self.problems.append(f"{self.place(name)}: {path}: {text}" if path else f"{self.where}: {text}")

    def take(self, name: str, *, required: str = "") -> Node | None:
        """Return the node of a key, None if it is not given; ``required`` says what is missing then."""
        self.known.append(name)
        self.done.add(name)
        node = self.section.entries.get(name)
        if node is not None and not (isinstance(node, Scalar) and node.null):
            return node
        if required:
            self.problem(f'"{name}" is missing: it is {required}')
        return None

    def value(self, name: str, kind: Kind[T], default: T) -> T:
        """Return the value of a key; the default if it is not given, or refused."""
        node = self.take(name)
        return default if node is None else self.read(Leaf(kind), node, name=name, default=default)

    def required(self, name: str, kind: Kind[T], default: T) -> T:
        node = self.take(name, required=kind.allowed)
        return default if node is None else self.read(Leaf(kind), node, name=name, default=default)

    def values(self, name: str, kind: Kind[T]) -> tuple[T, ...]:
        node = self.take(name)
        return () if node is None else self.read(ListOf(kind), node, name=name, default=())

    def texts(self, name: str, kind: Kind[str]) -> dict[str, str]:
        """Return the texts of a mapping whose keys are free."""
        opened = self.mapping(name)
        if opened is None:
            return {}
        return {key: opened.read(Leaf(kind), node, name=key, default="") for key, node in opened.rest()}

    def read(self, reader: Reader, node: Node, *, name: str, default: T) -> T:
        """Return what the reader makes of a node; the default if it refuses it."""
        try:
            return reader.read(node, key=self.path(name))  # type: ignore[return-value]
        except Refused as refused:
            self.problems.extend(refused.problems)
            return default

    def open(self, name: str, node: Node, *, allowed: str = "a mapping") -> Keys | None:
        """Return the keys of a node; None, with a problem added, if it is not a mapping."""
        if isinstance(node, Section):
            return Keys(node, self.path(name), self.problems)
        self.problems.extend(refuse_kind(node, key=self.path(name), allowed=allowed).problems)
        return None

    def mapping(self, name: str, *, required: str = "") -> Keys | None:
        """Return the mapping behind a key, None if it is not given or not a mapping."""
        node = self.take(name, required=required)
        return None if node is None else self.open(name, node)

    def items(self, name: str, *, allowed: str, required: str = "") -> Iterator[tuple[str, Node]]:
        """Yield the names, such as ``list[0]``, and the nodes of the list behind a key."""
        node = self.take(name, required=required)
        if isinstance(node, Items):
            yield from ((f"{name}[{number}]", item) for number, item in enumerate(node.items))
        elif node is not None:
            self.problems.extend(refuse_kind(node, key=self.path(name), allowed=allowed).problems)

    def mappings(self, name: str, *, allowed: str = "a mapping", required: str = "") -> Iterator[Keys]:
        for item_name, item in self.items(name, allowed="a list of mappings", required=required):
            opened = self.open(item_name, item, allowed=allowed)
            if opened is not None:
                yield opened

    def rest(self) -> Iterator[tuple[str, Node]]:
        for name, node in self.section.entries.items():
            if name not in self.done:
                yield name, node

    def refuse_rest(self, *, also: str = "") -> None:
        """Add a problem for each key that was not taken; ``also`` describes others that are allowed."""
        known = dict.fromkeys((*self.known, also) if also else self.known)
        allowed = f"allowed are {', '.join(known)}" if known else "no keys are allowed here"
        path = f"{self.key}: " if self.key else ""
        for name, _ in self.rest():
            near = did_you_mean(name, self.known)
            self.problems.append(f'{self.place(name)}: {path}unknown key "{name}": {allowed}{near}')


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean "x"?)`` for the known name that is nearest, else nothing."""
    by_folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f' (did you mean "{by_folded[near[0]]}"?)' if near else ""
