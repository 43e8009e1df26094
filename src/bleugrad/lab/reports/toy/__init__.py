"""The report of the toy study: tables, figures and page."""
