//! Tests that guard the rules of the whole tree: who may know whom, and what no file may contain.

mod arrows;
mod citations;
mod comments;
mod dependencies;
mod graph;
mod promises;
mod sources;
