"""`python -m custody_client …`, where the script `custody` is not on the path."""

import sys

from custody_client.cli import main

sys.exit(main())
