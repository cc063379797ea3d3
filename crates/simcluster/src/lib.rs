//! A simulated member: the embedded server with nodes and pods that come alive.
