"""The key that signs bundles, and the policy by which a verifier believes the log and them."""

from policies.reasons import Reason
from store.db import Connection
from store.errors import Unavailable
from store.keyring import Keyring
from store.log_tree.notes import Signer, VerifierKey, parse_vkey
from store.services.publishing import named_key
from store.tables import publishing


def bundle_signer(keyring: Keyring, origin: str) -> Signer:
    """Return what signs bundles of the log of this origin."""
    return Signer(f"{origin}/bundle", keyring.token_key("bundle"))


async def log_key(connection: Connection) -> VerifierKey:
    """Return the key that signs the log; Unavailable while the publisher has never named it."""
    key = await named_log_key(connection)
    if key is None:
        raise Unavailable(Reason.STORE_UNAVAILABLE, "nobody has begun to publish the log")
    return key


async def named_log_key(connection: Connection) -> VerifierKey | None:
    """Return the key that signs the log; None while the publisher has never named it."""
    named = await publishing.key_leaves(connection)
    return parse_vkey(named_key(named[-1])) if named else None


def policy_text(log: VerifierKey, bundle: VerifierKey) -> str:
    """Return a policy for `custody verify`; it is worth as much as the way by which it came."""
    return f"log {log.text}\nbundle {bundle.text}\n"
