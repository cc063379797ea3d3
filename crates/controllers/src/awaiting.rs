//! Which Works of a member want to hear of which of its namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;

/// Works that wait for namespaces: found without a look at the others. At most all Works of the member are in it.
#[derive(Debug, Default)]
pub(crate) struct Awaiting(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How often anything was heard of any namespace.
    news: u64,
    works: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// How much had been heard when somebody looked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct News(u64);

/// Whether a Work will be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Await {
    /// When anything is heard of its namespace.
    Told,
    /// Something was heard since it looked: it has to look again.
    Missed,
}

impl Awaiting {
    /// The Work has its turn and waits for nothing now. To be called before it looks at anything.
    pub(crate) fn begin(&self, namespace: &str, work: &str) -> News {
        let mut state = self.0.lock();
        if let Some(works) = state.works.get_mut(namespace) {
            works.remove(work);
            if works.is_empty() {
                state.works.remove(namespace);
            }
        }
        News(state.news)
    }

    /// The Work waits, from what it saw after it heard so much.
    pub(crate) fn add(&self, namespace: &str, work: Arc<str>, seen: News) -> Await {
        let mut state = self.0.lock();
        if News(state.news) != seen {
            return Await::Missed;
        }
        match state.works.get_mut(namespace) {
            Some(works) => drop(works.insert(work)),
            None => drop(state.works.insert(namespace.into(), [work].into())),
        }
        Await::Told
    }

    /// Something was heard of the namespace: these Works have to look.
    pub(crate) fn heard(&self, namespace: &str) -> BTreeSet<Arc<str>> {
        let mut state = self.0.lock();
        state.news += 1;
        state.works.remove(namespace).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(works: BTreeSet<Arc<str>>) -> Vec<String> {
        works.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn who_is_told_of_what() {
        let awaiting = Awaiting::default();
        for (namespace, work) in [("shop", "web"), ("shop", "conf"), ("other", "web-2")] {
            let news = awaiting.begin(namespace, work);
            assert_eq!(awaiting.add(namespace, work.into(), news), Await::Told);
        }
        assert!(awaiting.heard("nobody").is_empty());
        assert_eq!(names(awaiting.heard("shop")), ["conf", "web"]);
        assert!(awaiting.heard("shop").is_empty(), "they are told once, and say it if they wait on");
        awaiting.begin("other", "web-2");
        assert!(awaiting.heard("other").is_empty(), "it has had a turn since, and waits for nothing");
        assert!(awaiting.0.lock().works.is_empty(), "nothing is left behind");
    }

    #[test]
    fn what_comes_between_the_look_and_the_wait_is_not_missed() {
        let awaiting = Awaiting::default();
        let news = awaiting.begin("shop", "web");
        assert!(awaiting.heard("shop").is_empty());
        assert_eq!(awaiting.add("shop", "web".into(), news), Await::Missed);
        assert!(awaiting.heard("shop").is_empty(), "it has its turn anyhow");
    }
}
