//! A revisioned, watchable key-value store: memory first, durable by group commit.
