"""The documentation site: pages are generated from the program and its results, then Sphinx builds them."""
