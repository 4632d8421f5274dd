"""The closed words that this side says, held against the service's by golden files. Their texts never change."""

import re
from typing import Final

LOGICAL_REQUEST: Final = "logical-request"
OBSERVABLE_OUTPUT: Final = "observable-output"
KINDS: Final = (LOGICAL_REQUEST, OBSERVABLE_OUTPUT)

MODES: Final = frozenset({"normal", "temporary"})
CONTENTS: Final = frozenset({"allow", "opt_out"})
VANTAGES: Final = frozenset({"sdk", "gateway", "wire"})
COMPLETENESS: Final = frozenset({"complete", "truncated", "interrupted", "unknown"})
SETTLEMENTS: Final = frozenset({"completed", "failed", "cancelled"})

# Ids from callers: no proxy or client folds what begins with a letter or digit.
ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
