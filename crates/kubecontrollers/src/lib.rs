//! Garbage collection, namespaces and the built-in workload controllers, for the embedded plane and simulated members.
