"""Reports: figures and a page from what a run saved, so that they can be drawn again without running it."""
