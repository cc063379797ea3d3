//! Named, owned tasks. A simulated process is its [`Tasks`]: to kill it is to kill them, between two polls.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinHandle},
};

use crate::{
    Clock,
    panics::{Panics, catch_panic},
};

/// The owner of a group of tasks. Cheap to clone; the group lives until it is killed.
#[derive(Clone)]
pub struct Tasks(Arc<Group>);

struct Group {
    name: String,
    state: Mutex<State>,
    /// Shared by a group and its children.
    panics: Panics,
    /// Notified when a task ends. Apart from `stopped`, for which thousands of watches may wait.
    ended: Notify,
    /// Notified when the group is stopped.
    stopped: Notify,
}

#[derive(Default)]
struct State {
    next: u64,
    running: BTreeMap<u64, (Cow<'static, str>, Option<AbortHandle>)>,
    children: Vec<Tasks>,
    /// The groups with which this one ends, once the last of them does.
    parents: usize,
    stopping: bool,
    dead: bool,
}

/// The task was killed with its group, or panicked, before it returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the task was cancelled before it ended")]
pub struct Cancelled;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Make = Box<dyn FnMut() -> Boxed<()> + Send>;

/// Handle that resolves to a task's result. Dropping it does not stop the task: the group owns it.
pub struct TaskHandle<T>(Option<JoinHandle<T>>);

impl Tasks {
    /// Creates an independent group.
    pub fn new(name: &str) -> Self {
        Self::with_panics(name, Panics::default())
    }

    fn with_panics(name: &str, panics: Panics) -> Self {
        Self(Arc::new(Group {
            name: name.to_owned(),
            state: Mutex::default(),
            panics,
            ended: Notify::new(),
            stopped: Notify::new(),
        }))
    }

    /// Creates a group that is stopped and killed with this one, or alone.
    pub fn child(&self, name: &str) -> Self {
        let child = Self::with_panics(&format!("{}/{name}", self.0.name), self.0.panics.clone());
        let mut state = self.0.state.lock();
        {
            let mut of_child = child.0.state.lock();
            of_child.parents = 1;
            of_child.dead = state.dead;
            of_child.stopping = state.stopping;
        }
        state.children.retain(|c| !c.is_dead());
        state.children.push(child.clone());
        child
    }

    /// Makes another parent's child a child of this group too: it is stopped and killed with the last of its parents,
    /// or alone. A dead group takes none.
    pub fn adopt(&self, child: &Self) {
        let mut state = self.0.state.lock();
        if !state.dead && !state.children.iter().any(|known| Arc::ptr_eq(&known.0, &child.0)) {
            child.0.state.lock().parents += 1;
            state.children.retain(|c| !c.is_dead());
            state.children.push(child.clone());
        }
    }

    /// The name given at creation, with its parents'.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Runs the future as a task of this group. In a dead group nothing runs and the handle resolves to [`Cancelled`].
    pub fn spawn<T, F>(&self, name: impl Into<Cow<'static, str>>, future: F) -> TaskHandle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.spawn_boxed(name.into(), Box::pin(future))
    }

    /// [`Tasks::spawn`], compiled once for each result.
    #[allow(clippy::disallowed_methods, reason = "the one place that spawns")]
    fn spawn_boxed<T: Send + 'static>(&self, name: Cow<'static, str>, future: Boxed<T>) -> TaskHandle<T> {
        let id = {
            let mut state = self.0.state.lock();
            if state.dead {
                return TaskHandle(None);
            }
            let id = state.next;
            state.next += 1;
            state.running.insert(id, (name, None));
            id
        };
        let guard = Running { group: self.0.clone(), id };
        let handle = tokio::spawn(async move {
            let _guard = guard;
            future.await
        });
        let mut state = self.0.state.lock();
        let dead = state.dead;
        match state.running.get_mut(&id) {
            Some((_, abort)) => *abort = Some(handle.abort_handle()),
            // Killed between the two locks: the entry was removed, so abort here.
            None if dead => handle.abort(),
            None => {}
        }
        drop(state);
        TaskHandle(Some(handle))
    }

    /// Runs a long-lived task of this group. When it panics, the panic is counted and the task is made and run again
    /// after a wait; when it ends, it is over.
    pub fn supervise<F, Fut>(&self, clock: &Clock, name: impl Into<Cow<'static, str>>, mut make: F) -> TaskHandle<()>
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.supervise_boxed(clock.clone(), name.into(), Box::new(move || Box::pin(make())))
    }

    fn supervise_boxed(&self, clock: Clock, name: Cow<'static, str>, mut make: Make) -> TaskHandle<()> {
        let (panics, group) = (self.0.panics.clone(), self.0.name.clone());
        self.spawn(name.clone(), async move {
            loop {
                let began = clock.mono();
                let Err(message) = catch_panic(&mut make).await else { return };
                let wait = panics.record(&group, &name, clock.mono() - began, clock.mono());
                tracing::error!(%group, task = %name, panic = %message, ?wait, "task panicked and is restarted");
                clock.sleep(wait).await;
            }
        })
    }

    /// Panics of the supervised tasks of this group, its parents and their children.
    pub fn panics(&self) -> &Panics {
        &self.0.panics
    }

    /// Drops all tasks of this group and its children, between two polls, and refuses new ones.
    pub fn kill(&self) {
        let (running, children) = {
            let mut state = self.0.state.lock();
            state.dead = true;
            state.stopping = true;
            (std::mem::take(&mut state.running), std::mem::take(&mut state.children))
        };
        for (_, abort) in running.into_values() {
            if let Some(abort) = abort {
                abort.abort();
            }
        }
        for child in children {
            let is_last = {
                let mut of_child = child.0.state.lock();
                of_child.parents = of_child.parents.saturating_sub(1);
                of_child.parents == 0
            };
            if is_last {
                child.kill();
            }
        }
        self.0.stopped.notify_waiters();
        self.0.ended.notify_waiters();
    }

    /// Returns `true` once the group was killed.
    pub fn is_dead(&self) -> bool {
        self.0.state.lock().dead
    }

    /// Asks the tasks to end: [`Tasks::stopping`] resolves in this group and its children.
    pub fn stop(&self) {
        let children = {
            let mut state = self.0.state.lock();
            state.stopping = true;
            state.children.clone()
        };
        for child in children {
            if child.0.state.lock().parents == 1 {
                child.stop();
            }
        }
        self.0.stopped.notify_waiters();
    }

    /// Resolves when the group is stopped. Tasks that must finish some work first await it.
    pub async fn stopping(&self) {
        loop {
            let changed = self.0.stopped.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.0.state.lock().stopping {
                return;
            }
            changed.await;
        }
    }

    /// Resolves when no task of this group (children not counted) runs any more.
    pub async fn ended(&self) {
        loop {
            let changed = self.0.ended.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.0.state.lock().running.is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// Names of the running tasks, for diagnosis of a shutdown that does not end.
    pub fn running(&self) -> Vec<String> {
        self.0.state.lock().running.values().map(|(name, _)| name.to_string()).collect()
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("name", &self.0.name).finish_non_exhaustive()
    }
}

/// Removes the task from the list of its group, however it ends.
struct Running {
    group: Arc<Group>,
    id: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        let name = self.group.state.lock().running.remove(&self.id);
        if std::thread::panicking() {
            let task = name.map_or(Cow::Borrowed("?"), |(name, _)| name);
            tracing::error!(group = %self.group.name, %task, "task panicked");
        }
        self.group.ended.notify_waiters();
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = Result<T, Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(handle) = self.0.as_mut() else { return Poll::Ready(Err(Cancelled)) };
        let joined = ready!(Pin::new(handle).poll(cx));
        self.0 = None;
        Poll::Ready(joined.map_err(|_| Cancelled))
    }
}

impl<T> TaskHandle<T> {
    /// Ends this one task between two polls.
    pub fn abort(&self) {
        if let Some(handle) = &self.0 {
            handle.abort();
        }
    }
}

impl<T> fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn killing_a_group_drops_its_tasks_and_those_of_children() {
        let tasks = Tasks::new("p");
        let child = tasks.child("c");
        let steps = Arc::new(AtomicUsize::new(0));
        for group in [&tasks, &child] {
            let steps = steps.clone();
            group.spawn("step", async move {
                loop {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    steps.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        assert_eq!(steps.load(Ordering::Relaxed), 4);
        tasks.kill();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(steps.load(Ordering::Relaxed), 4);
        assert_eq!(child.spawn("late", async { 1 }).await, Err(Cancelled));
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_with_several_parents_ends_with_the_last_of_them() {
        let (one, other) = (Tasks::new("one"), Tasks::new("other"));
        let shared = one.child("shared");
        other.adopt(&shared);
        other.adopt(&shared);
        one.kill();
        assert!(!shared.is_dead(), "the other parent lives");
        one.adopt(&shared);
        other.kill();
        assert!(shared.is_dead(), "a dead group keeps none alive, and a second adoption by one group counts once");
        let alone = Tasks::new("parent").child("alone");
        other.adopt(&alone);
        alone.kill();
        assert_eq!(alone.spawn("late", async { 1 }).await, Err(Cancelled));
    }

    #[tokio::test(start_paused = true)]
    async fn stop_requests_the_end_and_ended_waits_for_the_last_task() {
        let tasks = Tasks::new("p");
        let group = tasks.clone();
        let worker = tasks.spawn("worker", async move {
            group.stopping().await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            "finished"
        });
        tasks.stop();
        tasks.ended().await;
        assert_eq!(worker.await, Ok("finished"));
        assert!(tasks.running().is_empty());
    }

    #[tokio::test]
    async fn a_panic_cancels_the_task_and_not_its_group() {
        let tasks = Tasks::new("p");
        let handle = tasks.spawn("bad", async { panic!("on purpose") });
        assert_eq!(handle.await, Err(Cancelled));
        assert_eq!(tasks.spawn("good", async { 2 }).await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn supervised_task_that_panics_is_restarted_counted_and_failing_until_it_runs_well() {
        let tasks = Tasks::new("p");
        let child = tasks.child("c");
        let clock = Clock::system();
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = runs.clone();
        child.supervise(&clock, "loop", move || {
            let run = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(run >= 4, "on purpose");
                std::future::pending::<()>().await;
            }
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        assert_eq!(tasks.panics().totals(), [("loop".to_owned(), 1)]);
        assert!(tasks.panics().failing(clock.mono()).is_empty(), "one panic is not persistent");
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(runs.load(Ordering::Relaxed), 5);
        assert_eq!(tasks.panics().totals(), [("loop".to_owned(), 4)]);
        assert_eq!(tasks.panics().failing(clock.mono()), ["p/c/loop"]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(tasks.panics().failing(clock.mono()).is_empty(), "it has run for a minute since");
        assert_eq!(child.running(), ["loop"]);
    }
}
