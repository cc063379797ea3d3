//! The way from requests to views: a channel, as views are computed where their futures need not be `Send`.

use std::{collections::BTreeMap, ops::Deref, rc::Rc, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::LocalBoxFuture, stream::FuturesUnordered};
use ironclad_seam::{Clock, Tasks};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::{
    action::{Actions, Wish},
    rows::Wanted,
    sessions::{Found, Mark, Sessions},
    token::Token,
    views::{Admitted, Failed, Question, Users, Version, Views},
};

/// Jobs that wait to be taken.
const JOBS_MAX: usize = 64;
/// Time for a view. A plan over a large fleet takes the longest.
const LOOK_MAX: Duration = Duration::from_secs(120);
/// Time after which an action is said to be under way: a drain takes as long as its rate says.
const ACT_WAIT: Duration = Duration::from_secs(20);
/// Time until views of sessions that ended are given up, whatever else happens.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// Work for where views are computed.
enum Job {
    Look { of: u64, question: Question, known: Option<Version>, answer: oneshot::Sender<Result<Seen, Failed>> },
    Admit { token: Token, answer: oneshot::Sender<Result<Admission, Failed>> },
    Act { of: u64, wish: Wish, answer: oneshot::Sender<Result<Value, Failed>>, slots: Vec<OwnedSemaphorePermit> },
}

/// Result of a look.
pub(crate) struct Seen {
    /// The view; `None` if the version is the one that was known.
    pub(crate) view: Option<Value>,
    /// Version of what it was computed from.
    pub(crate) version: Option<Version>,
}

/// A user whom the control plane knows, with views that are kept as long as the mark.
pub(crate) struct Admission {
    pub(crate) id: u64,
    pub(crate) user: String,
    pub(crate) mark: Arc<()>,
}

/// Takes questions to where views are computed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Desk {
    jobs: mpsc::Sender<Job>,
    looks: Arc<Semaphore>,
    acts: Arc<Semaphore>,
    pub(crate) clock: Clock,
    /// Without one there is only one user.
    session: Option<Place>,
}

/// A session at the desk.
#[derive(Clone)]
struct Place {
    id: u64,
    looks: Arc<Semaphore>,
    acts: Arc<Semaphore>,
    sessions: Arc<Mutex<Sessions>>,
}

/// The other side of desks.
pub(crate) struct Jobs(mpsc::Receiver<Job>);

/// A desk at which so many views are computed, and so many actions are under way, at once, over all users.
pub(crate) fn desk(looks_max: usize, acts_max: usize, clock: &Clock) -> (Desk, Jobs) {
    let (jobs, receiver) = mpsc::channel(JOBS_MAX);
    let (looks, acts) = (Arc::new(Semaphore::new(looks_max)), Arc::new(Semaphore::new(acts_max)));
    (Desk { jobs, looks, acts, clock: clock.clone(), session: None }, Jobs(receiver))
}

fn ended() -> Failed {
    Failed::new(503, "the program that served this page is ending")
}

fn over() -> Failed {
    Failed::new(401, "the session has ended: log in again")
}

impl Desk {
    /// The same desk for a session: its views and actions, and bounds of its own.
    pub(crate) fn of(&self, found: &Found, sessions: Arc<Mutex<Sessions>>) -> Self {
        let (looks, acts) = (found.looks.clone(), found.acts.clone());
        Self { session: Some(Place { id: found.id, looks, acts, sessions }), ..self.clone() }
    }

    /// Looks once, and keeps the rows that are wanted. A session ends when the control plane does not take its token
    /// any more.
    pub(crate) async fn look(&self, question: &Question, wanted: &Wanted) -> Result<Value, Failed> {
        let seen = self.look_since(question, wanted, None).await?;
        seen.view.ok_or_else(ended)
    }

    /// The same, unless the view is still of the version that is known.
    pub(crate) async fn look_since(
        &self,
        question: &Question,
        wanted: &Wanted,
        known: Option<Version>,
    ) -> Result<Seen, Failed> {
        let _own = match &self.session {
            Some(place) => Some(place.looks.acquire().await.map_err(|_| ended())?),
            None => None,
        };
        let _turn = self.looks.acquire().await.map_err(|_| ended())?;
        let of = self.id()?;
        let (answer, found) = oneshot::channel();
        self.jobs.send(Job::Look { of, question: question.clone(), known, answer }).await.map_err(|_| ended())?;
        let mut seen = self.accepted(self.within(LOOK_MAX, found).await)?;
        if let Some(view) = &mut seen.view {
            wanted.apply(view);
        }
        Ok(seen)
    }

    /// Number of the session, if it has not ended.
    fn id(&self) -> Result<u64, Failed> {
        if self.is_over() { Err(over()) } else { Ok(self.session.as_ref().map_or(0, |place| place.id)) }
    }

    /// The answer, after which the session ends if the control plane does not take its token any more.
    fn accepted<T>(&self, answer: Result<T, Failed>) -> Result<T, Failed> {
        if let (Err(Failed { status: 401, .. }), Some(place)) = (&answer, &self.session) {
            place.sessions.lock().end(place.id);
        }
        answer
    }

    /// True if the session has ended.
    pub(crate) fn is_over(&self) -> bool {
        let now = self.clock.mono();
        self.session.as_ref().is_some_and(|place| !place.sessions.lock().is_live(place.id, now))
    }

    /// Asks the control plane who has this token.
    pub(crate) async fn admit(&self, token: Token, time: Duration) -> Result<Admission, Failed> {
        let (answer, found) = oneshot::channel();
        self.jobs.send(Job::Admit { token, answer }).await.map_err(|_| ended())?;
        self.within(time, found).await
    }

    /// Does what is asked, or says what it would do. What takes long goes on when nobody waits for it any more.
    pub(crate) async fn act(&self, wish: Wish) -> Result<Value, Failed> {
        let own = self.session.as_ref().map(|place| &place.acts);
        let taken: Result<Vec<_>, _> =
            own.into_iter().chain([&self.acts]).map(|acts| acts.clone().try_acquire_owned()).collect();
        let slots = taken.map_err(|_| {
            Failed::new(503, "as many actions are under way as can be at once: wait until one of them is done")
        })?;
        let of = self.id()?;
        let (answer, done) = oneshot::channel();
        self.jobs.send(Job::Act { of, wish, answer, slots }).await.map_err(|_| ended())?;
        tokio::select! {
            biased;
            done = done => self.accepted(done.map_err(|_| ended())?),
            () = self.clock.sleep(ACT_WAIT) => Ok(json!({ "underWay": true })),
        }
    }

    async fn within<T>(&self, time: Duration, found: oneshot::Receiver<Result<T, Failed>>) -> Result<T, Failed> {
        tokio::select! {
            biased;
            found = found => found.map_err(|_| ended())?,
            () = self.clock.sleep(time) => {
                Err(Failed::new(504, "the control plane, or its members, did not answer in time"))
            }
        }
    }
}

/// Users of a listener.
pub(crate) enum Served<'a> {
    /// One, whose rights the program has, and who can change something where there are actions.
    One(&'a dyn Views, Option<&'a dyn Actions>),
    /// Those who log in.
    Many(&'a dyn Users),
}

/// Users of sessions, by the numbers of these.
type Kept = BTreeMap<u64, (Mark, Admitted)>;

/// Result of a job, as far as something is left to do.
type Done<'a> = LocalBoxFuture<'a, Option<(Admitted, oneshot::Sender<Result<Admission, Failed>>)>>;

impl Jobs {
    /// Computes what is asked until the tasks are stopped. `swept` is called now and then, to end sessions.
    pub(crate) async fn work(mut self, served: Served<'_>, clock: &Clock, tasks: &Tasks, swept: impl Fn()) {
        let (mut doing, mut kept, mut last) = (FuturesUnordered::<Done<'_>>::new(), Kept::new(), 0);
        let mut sweep = clock.mono() + SWEEP_EVERY;
        loop {
            let job = tokio::select! {
                biased;
                () = tasks.stopping() => break,
                Some(done) = doing.next(), if !doing.is_empty() => {
                    if let Some((admitted, answer)) = done {
                        last += 1;
                        let mark = Arc::new(());
                        let user = admitted.user.clone();
                        kept.insert(last, (Arc::downgrade(&mark), admitted));
                        let _ = answer.send(Ok(Admission { id: last, user, mark }));
                    }
                    continue;
                }
                () = clock.sleep_until(sweep) => {
                    sweep = clock.mono() + SWEEP_EVERY;
                    swept();
                    kept.retain(|_, (mark, _)| mark.strong_count() > 0);
                    continue;
                }
                job = self.0.recv() => job,
            };
            let Some(job) = job else { break };
            // Here, and not only now and then: sessions that come and go would pile up.
            kept.retain(|_, (mark, _)| mark.strong_count() > 0);
            doing.push(match job {
                Job::Look { of, question, known, answer } => match (&served, kept.get(&of)) {
                    (Served::One(views, _), _) => look(RefOrRc::Borrowed(*views), question, known, answer),
                    (Served::Many(_), Some((_, user))) => {
                        look(RefOrRc::Counted(user.views.clone()), question, known, answer)
                    }
                    (Served::Many(_), None) => {
                        let _ = answer.send(Err(over()));
                        continue;
                    }
                },
                Job::Admit { token, answer } => match &served {
                    Served::Many(users) => admit(*users, token, answer),
                    Served::One(..) => continue,
                },
                Job::Act { of, wish, answer, slots } => {
                    let actions = match (&served, kept.get(&of)) {
                        (Served::One(_, actions), _) => actions.map(RefOrRc::Borrowed),
                        (Served::Many(_), Some((_, user))) => user.actions.clone().map(RefOrRc::Counted),
                        (Served::Many(_), None) => {
                            let _ = answer.send(Err(over()));
                            continue;
                        }
                    };
                    let Some(actions) = actions else { continue };
                    act(actions, wish, answer, slots)
                }
            });
        }
    }
}

/// Views or actions, which live as long as they are needed.
enum RefOrRc<'a, T: ?Sized> {
    Borrowed(&'a T),
    Counted(Rc<T>),
}

impl<T: ?Sized> Deref for RefOrRc<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(borrowed) => borrowed,
            Self::Counted(counted) => counted,
        }
    }
}

fn look<'a>(
    views: RefOrRc<'a, dyn Views + 'a>,
    question: Question,
    known: Option<Version>,
    mut answer: oneshot::Sender<Result<Seen, Failed>>,
) -> Done<'a> {
    async move {
        // Before the look: what changes meanwhile is seen by the next one.
        let version = views.version(&question);
        if version.is_some() && version == known {
            let _ = answer.send(Ok(Seen { view: None, version }));
            return None;
        }
        // Nobody waits for the answer any more: the page was closed, or the time is over.
        let found = tokio::select! {
            biased;
            found = views.look(&question) => found,
            () = answer.closed() => return None,
        };
        let _ = answer.send(found.map(|view| Seen { view: Some(view), version }));
        None
    }
    .boxed_local()
}

fn act<'a>(
    actions: RefOrRc<'a, dyn Actions + 'a>,
    wish: Wish,
    answer: oneshot::Sender<Result<Value, Failed>>,
    slots: Vec<OwnedSemaphorePermit>,
) -> Done<'a> {
    async move {
        let Wish { action, is_dry } = wish;
        let done = if is_dry { actions.rehearse(&action).await } else { actions.act(&action).await };
        // Neither a page that was closed nor the end of the session stops half-way what was begun.
        let _ = answer.send(done);
        drop(slots);
        None
    }
    .boxed_local()
}

fn admit<'a>(users: &'a dyn Users, token: Token, mut answer: oneshot::Sender<Result<Admission, Failed>>) -> Done<'a> {
    async move {
        let found = tokio::select! {
            biased;
            found = users.admit(&token) => found,
            () = answer.closed() => return None,
        };
        match found {
            Ok(admitted) => Some((admitted, answer)),
            Err(failed) => {
                let _ = answer.send(Err(failed));
                None
            }
        }
    }
    .boxed_local()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::views::Look;

    /// Views of one version, that count how often they are computed.
    struct OfVersion(Cell<u64>, Cell<u64>);

    impl Views for OfVersion {
        fn look<'a>(&'a self, _: &'a Question) -> Look<'a> {
            self.1.set(self.1.get() + 1);
            async move { Ok(json!({ "computed": self.1.get() })) }.boxed_local()
        }

        fn version(&self, question: &Question) -> Option<Version> {
            let known = Version { changes: self.0.get(), holds: Duration::MAX };
            (*question == Question::Workloads).then_some(known)
        }
    }

    #[tokio::test]
    async fn a_view_whose_version_is_known_is_not_computed_again() {
        let (clock, tasks) = (Clock::system(), Tasks::new("test"));
        let (views, wanted) = (OfVersion(Cell::new(1), Cell::new(0)), Wanted::default());
        let (desk, jobs) = desk(1, 1, &clock);
        let asking = async {
            let look = async |question, known| desk.look_since(&question, &wanted, known).await.unwrap();
            let first = look(Question::Workloads, None).await;
            assert_eq!(first.view, Some(json!({ "computed": 1 })));
            let again = look(Question::Workloads, first.version).await;
            assert_eq!((again.view, again.version), (None, first.version));
            views.0.set(2);
            let changed = look(Question::Workloads, first.version).await;
            assert_eq!(changed.view, Some(json!({ "computed": 2 })), "something has changed");
            assert_ne!(changed.version, first.version);
            for computed in [3, 4] {
                let other = look(Question::Fleet, None).await;
                assert_eq!((other.view, other.version), (Some(json!({ "computed": computed })), None));
            }
        };
        tokio::select! {
            biased;
            () = jobs.work(Served::One(&views, None), &clock, &tasks, || {}) => panic!("it works until it is stopped"),
            () = asking => {}
        }
    }
}
