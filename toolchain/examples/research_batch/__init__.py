"""Two reading tasks over shipped texts, through every part of the toolchain: `python -m research_batch`."""
