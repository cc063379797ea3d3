//! Decisions on the health of clusters.
