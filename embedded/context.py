"""What Lambda tells a function about its own call."""

from __future__ import annotations

import time


class FunctionContext:
    """One call of a function, with the time that it may take.

    Args:
        name: The function's.
        seconds: How long it may take.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self.function_name = name
        self.function_version = "$LATEST"
        self.memory_limit_in_mb = "1024"
        self.invoked_function_arn = f"arn:local:lambda:function:{name}"
        self.aws_request_id = f"{name}-{time.monotonic_ns()}"
        self._until = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        """Return how much of its time is left, milliseconds."""
        return max(0, int(1000 * (self._until - time.monotonic())))
