"""What docs/operations.md says that can be asked of the code, is so."""

import re

from tests.support.sources import ROOT, tracked

TEXT = (ROOT / "docs" / "operations.md").read_text()

# Tables that grow with captures: an index on one of them is worth making before `migrate` does.
LARGE = r"CREATE INDEX IF NOT EXISTS \w+ ON (parts|runs|gaps)\b"


def test_the_indexes_that_can_be_made_before_an_upgrade_are_all_named():
    told = re.search(r"`parts`, `runs` or `gaps` \(([\d, ]+)\)", TEXT)
    assert told is not None
    large = [path.name[:4] for path in tracked("migrations/*.sql") if re.search(LARGE, path.read_text())]
    assert told[1].split(", ") == sorted(large)
