"""PostgreSQL and Valkey as real servers from wheels, for one machine: trials, the demo and the tests.

Both listen on unix sockets only, keep their data in a directory that the caller names, and stop with the process that
started them, however that ends. Nothing here knows what is stored in them.
"""

from store.embedded.place import EmbeddedFault
from store.embedded.postgres import start_postgres
from store.embedded.process import Server
from store.embedded.valkey import start_valkey

__all__ = ["EmbeddedFault", "Server", "start_postgres", "start_valkey"]
