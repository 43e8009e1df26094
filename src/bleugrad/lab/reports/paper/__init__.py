"""The report of the paper's experiment: tables, figure and page."""
