//! Decisions from policy to binding to Work to member object and back.
