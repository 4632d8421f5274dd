"""Which request carried which result, and in which form.

Promised: only objects that were bound to a result, or made from such objects by the functions here, are ever linked to
it; a link is never guessed from similar text, and what is not bound is said to be unknown. A request that was prepared
and not submitted carried nothing. Not promised: that every use of a result is found. Copies that are made past these
functions, texts that were put together by hand, and objects that were changed after they were bound are unknown.
"""

from custody_toolchain.lineage.answers import Answer
from custody_toolchain.lineage.memory import Occurrence
from custody_toolchain.lineage.tracing import Lineage, Prepared

__all__ = ["Answer", "Lineage", "Occurrence", "Prepared"]
