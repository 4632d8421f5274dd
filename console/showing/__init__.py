"""Content as text: pure, bounded, and nothing of it is left out without a word."""
