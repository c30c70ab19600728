"""Finished runs as the page reads them."""
