"""The evidence store: HTTP interface, use cases, persistence.

Floors, lowest last; a module imports only from floors below its own (import-linter holds this):

    api, up, __main__ → wiring → services → tables → queue, db, keyring, log_tree
    → config, cursor, tickets, receipts → commitments → leaves, envelope → frames, encoding
    → logging, errors, ids, clock → policies
"""

from typing import Final

# As pyproject.toml says, which is in no image.
VERSION: Final = "0.1.0"
