//! Fleets of the tests, from YAML.

use std::sync::Arc;

use ironclad_fleet::World;
use ironclad_scheduling::estimator::{Index, Node};
use serde_json::Value;

use crate::world::insert;

/// The objects of YAML documents, Lists among them.
pub(crate) fn objects(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    documents.into_iter().flat_map(flatten).collect()
}

fn flatten(object: Value) -> Vec<Value> {
    match object {
        Value::Null => Vec::new(),
        object if object["kind"] == "List" => object["items"].as_array().unwrap().clone(),
        object => vec![object],
    }
}

/// The fleet of YAML documents.
pub(crate) fn world_of(text: &str) -> World {
    let mut world = World::default();
    objects(text).into_iter().for_each(|object| insert(&mut world, object).unwrap());
    world
}

/// The nodes of a member, with these cores each.
pub(crate) fn nodes_of(cores: &[i64]) -> Arc<Index> {
    let mut index = Index::default();
    for (n, cores) in cores.iter().enumerate() {
        let allocatable = [("cpu".to_owned(), cores * 1_000), ("pods".to_owned(), 100)].into();
        index.node(&format!("n{n}"), Some(Node { allocatable, ..Node::default() }));
    }
    Arc::new(index)
}
