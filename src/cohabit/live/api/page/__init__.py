"""The data of the web page."""
