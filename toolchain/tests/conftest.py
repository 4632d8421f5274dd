"""What all tests of the toolchain share."""

import hypothesis

# A machine that several people share makes deadlines of single examples a matter of luck.
hypothesis.settings.register_profile("custody", deadline=None, print_blob=True)
hypothesis.settings.load_profile("custody")
