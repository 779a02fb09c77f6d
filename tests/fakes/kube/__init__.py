"""An API server with its controllers, scheduler and kubelets, on a clock that a test moves.

The state machine is pure apart from `server.py`, which puts it behind loopback TLS. What it does
is what a real Kubernetes 1.36 was seen doing; the golden tests hold it to those recordings.
"""
