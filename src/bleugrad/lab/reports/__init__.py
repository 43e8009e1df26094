"""Reports: figures and pages from saved runs, which are read and never rerun."""
