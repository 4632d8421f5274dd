"""What all tests of the toolchain share."""

import os

import hypothesis

# Enough to find what is plainly wrong; `make test-long` looks at many more.
_EXAMPLES = int(os.environ.get("CUSTODY_TEST_EXAMPLES", "25"))

# A machine that several people share makes deadlines of single examples a matter of luck.
hypothesis.settings.register_profile("custody", deadline=None, print_blob=True, max_examples=_EXAMPLES)
hypothesis.settings.load_profile("custody")
