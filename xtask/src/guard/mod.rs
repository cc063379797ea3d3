//! Tests that guard rules of the whole tree: dependencies between crates, and forbidden contents of files.

mod arrows;
mod circles;
mod citations;
mod comments;
mod dependencies;
mod fields;
mod graph;
mod modules;
mod promises;
mod sources;
