//! The way from requests to views: a channel, as views are computed where their futures need not be `Send`.

use std::{collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::LocalBoxFuture, stream::FuturesUnordered};
use ironclad_seam::{Clock, Tasks};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::{
    action::{Actions, Wish},
    rows::Wanted,
    sessions::{Mark, Sessions},
    token::Token,
    views::{Failed, Question, Users, Views},
};

/// Jobs that wait to be taken.
const JOBS_MAX: usize = 64;
/// Time for a view. A plan over a large fleet takes the longest.
const LOOK_MAX: Duration = Duration::from_secs(120);
/// Actions that are under way at once.
const ACTS_MAX: usize = 4;
/// Time after which an action is said to be under way: a drain takes as long as its rate says.
const ACT_WAIT: Duration = Duration::from_secs(20);
/// Time until views of sessions that ended are given up, whatever else happens.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// Work for where views are computed.
enum Job {
    Look { of: u64, question: Question, answer: oneshot::Sender<Result<Value, Failed>> },
    Admit { token: Token, answer: oneshot::Sender<Result<Admission, Failed>> },
    Act { wish: Wish, answer: oneshot::Sender<Result<Value, Failed>>, slot: OwnedSemaphorePermit },
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
    clock: Clock,
    /// Without one there is only one user.
    session: Option<Place>,
}

/// A session at the desk.
#[derive(Clone)]
struct Place {
    id: u64,
    looks: Arc<Semaphore>,
    sessions: Arc<Mutex<Sessions>>,
}

/// The other side of desks.
pub(crate) struct Jobs(mpsc::Receiver<Job>);

/// A desk at which so many views are computed at once, over all users.
pub(crate) fn desk(looks_max: usize, clock: &Clock) -> (Desk, Jobs) {
    let (jobs, receiver) = mpsc::channel(JOBS_MAX);
    let (looks, acts) = (Arc::new(Semaphore::new(looks_max)), Arc::new(Semaphore::new(ACTS_MAX)));
    (Desk { jobs, looks, acts, clock: clock.clone(), session: None }, Jobs(receiver))
}

fn ended() -> Failed {
    Failed::new(503, "the program that served this page is ending")
}

impl Desk {
    /// The same desk for a session: its views, and a bound of its own.
    pub(crate) fn of(&self, id: u64, looks: Arc<Semaphore>, sessions: Arc<Mutex<Sessions>>) -> Self {
        Self { session: Some(Place { id, looks, sessions }), ..self.clone() }
    }

    /// Looks once, and keeps the rows that are wanted. A session ends when the control plane does not take its token
    /// any more.
    pub(crate) async fn look(&self, question: &Question, wanted: &Wanted) -> Result<Value, Failed> {
        let _own = match &self.session {
            Some(place) => Some(place.looks.acquire().await.map_err(|_| ended())?),
            None => None,
        };
        let _turn = self.looks.acquire().await.map_err(|_| ended())?;
        if self.is_over() {
            return Err(Failed::new(401, "the session has ended: log in again"));
        }
        let (answer, found) = oneshot::channel();
        let of = self.session.as_ref().map_or(0, |place| place.id);
        self.jobs.send(Job::Look { of, question: question.clone(), answer }).await.map_err(|_| ended())?;
        let found = self.within(LOOK_MAX, found).await;
        if let (Err(Failed { status: 401, .. }), Some(place)) = (&found, &self.session) {
            place.sessions.lock().end(place.id);
        }
        let mut view = found?;
        wanted.apply(&mut view);
        Ok(view)
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
        let slot = self.acts.clone().try_acquire_owned().map_err(|_| {
            Failed::new(503, &format!("{ACTS_MAX} actions are under way: wait until one of them is done"))
        })?;
        let (answer, done) = oneshot::channel();
        self.jobs.send(Job::Act { wish, answer, slot }).await.map_err(|_| ended())?;
        tokio::select! {
            biased;
            done = done => done.map_err(|_| ended())?,
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

/// Views of sessions, by their numbers.
type Kept = BTreeMap<u64, (Mark, Rc<dyn Views>)>;

/// Result of a job, as far as something is left to do.
type Done<'a> = LocalBoxFuture<'a, Option<(crate::views::Admitted, oneshot::Sender<Result<Admission, Failed>>)>>;

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
                        kept.insert(last, (Arc::downgrade(&mark), admitted.views));
                        let _ = answer.send(Ok(Admission { id: last, user: admitted.user, mark }));
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
                Job::Look { of, question, answer } => match (&served, kept.get(&of)) {
                    (Served::One(views, _), _) => look(Seen::Borrowed(*views), question, answer),
                    (_, Some((_, views))) => look(Seen::Counted(views.clone()), question, answer),
                    (Served::Many(_), None) => {
                        let _ = answer.send(Err(Failed::new(401, "the session has ended: log in again")));
                        continue;
                    }
                },
                Job::Admit { token, answer } => match &served {
                    Served::Many(users) => admit(*users, token, answer),
                    Served::One(..) => continue,
                },
                Job::Act { wish, answer, slot } => match &served {
                    Served::One(_, Some(actions)) => act(*actions, wish, answer, slot),
                    Served::One(_, None) | Served::Many(_) => continue,
                },
            });
        }
    }
}

/// Views that live as long as they are asked.
enum Seen<'a> {
    Borrowed(&'a dyn Views),
    Counted(Rc<dyn Views>),
}

fn look<'a>(views: Seen<'a>, question: Question, mut answer: oneshot::Sender<Result<Value, Failed>>) -> Done<'a> {
    async move {
        let views: &dyn Views = match &views {
            Seen::Borrowed(views) => *views,
            Seen::Counted(views) => &**views,
        };
        // Nobody waits for the answer any more: the page was closed, or the time is over.
        let found = tokio::select! {
            biased;
            found = question.ask(views) => found,
            () = answer.closed() => return None,
        };
        let _ = answer.send(found);
        None
    }
    .boxed_local()
}

fn act<'a>(
    actions: &'a dyn Actions,
    wish: Wish,
    answer: oneshot::Sender<Result<Value, Failed>>,
    slot: OwnedSemaphorePermit,
) -> Done<'a> {
    async move {
        let Wish { action, is_dry } = wish;
        let done = if is_dry { actions.rehearse(&action).await } else { actions.act(&action).await };
        // A page that was closed does not stop half-way what it began.
        let _ = answer.send(done);
        drop(slot);
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
