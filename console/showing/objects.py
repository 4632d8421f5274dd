"""An object while it is laid out: what was taken of it, and what is left, so that nothing of it goes unseen."""

from collections.abc import Iterable, Iterator

from console.showing.json_tree import Node, Tree

Pair = tuple[Node, Node]


class Taking:
    """The pairs of one object; of a key that stands more than once nothing is taken."""

    def __init__(self, tree: Tree, node: Node) -> None:
        self._tree = tree
        self._left: list[Pair] = (
            [] if node.kind != "object" else list(zip(node.keys, node.items, strict=True))
        )
        self._at = {
            tree.string(key): (key, value) for key, value in self._left if key.start not in tree.repeated
        }

    def look(self, key: str) -> Node | None:
        """Return the value of a key, which stays."""
        pair = self._at.get(key)
        return None if pair is None else pair[1]

    def take(self, key: str, *kinds: str) -> Node | None:
        """Return the value of a key if it is of one of these kinds (any, where none is named), and take it out."""
        pair = self._at.get(key)
        if pair is None or (kinds and pair[1].kind not in kinds):
            return None
        del self._at[key]
        self._left.remove(pair)
        return pair[1]

    def word(self, key: str) -> str:
        """Take a string and return it, empty where there is none."""
        return self._tree.string(self.take(key, "string")) or ""

    def plain(self, key: str) -> str:
        """Take a string, number or word, and return how it reads; empty for null and where there is none."""
        node = self.take(key, "string", "number", "word")
        if node is None:
            return ""
        said = self._tree.string(node) or self._tree.source(node)
        return "" if node.kind == "word" and said == "null" else said

    def items(self, key: str) -> Iterable[Node]:
        """Take an array and return what is in it; nothing where there is none."""
        node = self.take(key, "array")
        return [] if node is None else node.items

    def drop(self, key: str, *sources: str) -> None:
        """Take out what says nothing beyond what is shown anyway: a key with one of these values."""
        node = self.look(key)
        if node is not None and self._tree.source(node) in sources:
            self.take(key)

    def rest(self) -> list[Pair]:
        """Return what nobody took, in order."""
        return list(self._left)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._left)
