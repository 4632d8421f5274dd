"""Pictures as SVG, made from facts: nothing asked, everything escaped, each with a text that says the same."""
