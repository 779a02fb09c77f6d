"""What Dispatch costs, measured beside the limit and beside what a user would pick instead."""
