"""`python -m dispatch.cli` is `dispatch`."""

from dispatch.cli import main

main()
