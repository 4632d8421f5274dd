"""The offline verifier of bundles: standard library and `cryptography` only, nothing of the service.

The command is `custody verify`; in a program: `verify_bundle(path, Policy.parse(text), [checkpoint]).exit`.
"""

from custody_client.verify.bundle import verify_bundle
from custody_client.verify.policy import Policy
from custody_client.verify.report import Exit, Item, Report, State

__all__ = ["Exit", "Item", "Policy", "Report", "State", "verify_bundle"]
