"""The scheduler of the protocol: workers run the stages of a plan in parallel, and a status line shows the progress."""
