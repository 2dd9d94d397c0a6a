"""Reads one mapping of a scenario file: takes known keys, collects every problem, refuses the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from numaplace.config.document import Items, Node, Scalar, Section
from numaplace.config.kinds import Kind
from numaplace.config.readers import Leaf, ListOf, Reader, Refused, refuse_kind
from numaplace.config.walk import did_you_mean

T = TypeVar("T")


@dataclass(slots=True)
class Keys:
    """The keys of one mapping. ``key`` is its path in the file; ``problems`` is shared by the whole file.

    A key with nothing after it counts as not given. After the last ``take`` call ``refuse_rest``: ``known``
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
        """Return the full path of a key."""
        return f"{self.key}.{name}" if self.key else name

    def place(self, name: str) -> str:
        """Return the place of a key; of the mapping if the key is not given."""
        return self.section.key_where.get(name, self.where)

    def problem(self, text: str, *, name: str = "") -> None:
        """Note a problem with a key, or with the mapping."""
        path = self.path(name) if name else self.key
        self.problems.append(f"{self.place(name)}: {path}: {text}" if path else f"{self.where}: {text}")

    def take(self, name: str) -> Node | None:
        """Return the node of a key, None if it is not given."""
        self.known.append(name)
        self.done.add(name)
        node = self.section.entries.get(name)
        return None if isinstance(node, Scalar) and node.null else node

    def value(self, name: str, kind: Kind[T], default: T) -> T:
        """Return the value of a key; the default if it is not given, or refused."""
        node = self.take(name)
        return default if node is None else self.read(Leaf(kind, ""), node, name=name, default=default)

    def required(self, name: str, kind: Kind[T], default: T) -> T:
        """Return the value of a key that has to be given."""
        if name not in self.section.entries:
            self.known.append(name)
            self.problem(f'"{name}" is missing: it is {kind.allowed}')
            return default
        return self.value(name, kind, default)

    def values(self, name: str, kind: Kind[T]) -> tuple[T, ...]:
        """Return the values of a list."""
        node = self.take(name)
        return () if node is None else self.read(ListOf(kind, ""), node, name=name, default=())

    def read(self, reader: Reader, node: Node, *, name: str, default: T) -> T:
        """Return what the reader makes of a node; the default if it refuses it."""
        try:
            return reader.read(node, key=self.path(name))  # type: ignore[return-value]
        except Refused as refused:
            self.problems.extend(refused.problems)
            return default

    def mapping(self, name: str) -> Keys | None:
        """Return the mapping behind a key, None if it is not given or no mapping."""
        node = self.take(name)
        return None if node is None else open_keys(node, key=self.path(name), problems=self.problems)

    def mappings(self, name: str) -> Iterator[Keys]:
        """Yield the mappings of the list behind a key."""
        node = self.take(name)
        if node is None:
            return
        if not isinstance(node, Items):
            refused = refuse_kind(node, key=self.path(name), allowed="a list of mappings")
            self.problems.extend(refused.problems)
            return
        for number, item in enumerate(node.items):
            opened = open_keys(item, key=f"{self.path(name)}[{number}]", problems=self.problems)
            if opened is not None:
                yield opened

    def rest(self) -> Iterator[tuple[str, Node]]:
        """Yield the keys that nobody has taken, and their nodes."""
        for name, node in self.section.entries.items():
            if name not in self.done:
                yield name, node

    def refuse_rest(self, *, also: str = "") -> None:
        """Note a problem for every key that nobody has taken; ``also`` describes others that are allowed."""
        allowed = ", ".join((*dict.fromkeys(self.known), also) if also else dict.fromkeys(self.known))
        path = f"{self.key}: " if self.key else ""
        for name, _ in self.rest():
            near = did_you_mean(name, self.known)
            self.problems.append(
                f'{self.place(name)}: {path}unknown key "{name}": allowed are {allowed}{near}'
            )


def open_keys(node: Node, *, key: str, problems: list[str]) -> Keys | None:
    """Return the keys of a node; None, with a problem added, if it is no mapping."""
    if isinstance(node, Section):
        return Keys(node, key, problems)
    problems.extend(refuse_kind(node, key=key, allowed="a mapping").problems)
    return None
