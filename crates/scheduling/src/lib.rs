//! Decisions on where a binding runs and with how many replicas.
