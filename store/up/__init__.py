"""`python -m store up`: everything at once on one machine, with embedded servers where no addresses are given.

Whatever is started here ends with this process, however it ends; what is stored stays in the data directory.
"""

from store.up.everything import Wanted, run
from store.up.place import StackFault, running_stack

__all__ = ["StackFault", "Wanted", "run", "running_stack"]
