//! Tests that guard the rules of the whole tree: who may know whom, and what no file may contain.

mod arrows;
mod circles;
mod citations;
mod comments;
mod dependencies;
mod graph;
mod modules;
mod promises;
mod sources;
