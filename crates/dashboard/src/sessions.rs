//! Sessions of users who logged in with a token, and the attempts to begin one.
//!
//! The table has no tokens: they are with the views of a session, which end when its [`Mark`] is dropped.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{sync::Semaphore, time::Instant};

use crate::{desk::Admission, secret::Secret, token::Digest};

/// Sessions at once. When there is one more, that which was unused for the longest ends.
pub(crate) const SESSIONS_MAX: usize = 128;
/// Life of a session.
const LIFE: Duration = Duration::from_secs(12 * 3_600);
/// Time without a request after which a session ends. A page that follows its view makes none.
const IDLE_MAX: Duration = Duration::from_secs(3_600);
/// Streams of a session at once: one for each open tab.
pub(crate) const STREAMS_EACH: usize = 8;
/// Views of a session that are computed at once.
const LOOKS_EACH: usize = 2;
/// Actions of a session that are under way at once.
const ACTS_EACH: usize = 4;
/// Attempts to begin a session that are passed on to the control plane, of all users together: at once, and each
/// second.
const ATTEMPTS_BURST: u32 = 20;
const ATTEMPTS_PER_SECOND: u32 = 5;

/// Dropped when a session ends.
pub(crate) type Mark = Weak<()>;

/// Session of a request.
#[derive(Clone)]
pub(crate) struct Found {
    /// Number of the session, by which its views are known.
    pub(crate) id: u64,
    /// Name of the user, as the control plane told it.
    pub(crate) user: String,
    /// True if the user can end the session; the next request of a proxy would begin another one.
    pub(crate) can_end: bool,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) looks: Arc<Semaphore>,
    pub(crate) acts: Arc<Semaphore>,
    /// Secret that the pages of the session send along with a change.
    pub(crate) csrf: Secret,
}

/// Proof of a session that a browser has.
pub(crate) enum Proof {
    /// A cookie with this secret.
    Cookie(Secret),
    /// A proxy in front sends the token of this digest with each request.
    Header(Digest),
}

struct Session {
    found: Found,
    proof: Proof,
    begun: Instant,
    used: Instant,
    _mark: Arc<()>,
}

impl Session {
    fn is_live(&self, now: Instant) -> bool {
        now < self.begun + LIFE && now < self.used + IDLE_MAX
    }
}

/// The table.
#[derive(Default)]
pub(crate) struct Sessions(Vec<Session>);

impl Sessions {
    /// Begins a session of this user, whose views are kept until the mark is dropped.
    pub(crate) fn begin(&mut self, admission: Admission, proof: Proof, csrf: Secret, now: Instant) -> Found {
        let Admission { id, user, mark } = admission;
        self.sweep(now);
        while self.0.len() >= SESSIONS_MAX {
            let unused = self.0.iter().enumerate().min_by_key(|(_, session)| session.used).map(|(at, _)| at);
            self.0.swap_remove(unused.unwrap_or_default());
        }
        let found = Found {
            id,
            user,
            can_end: matches!(proof, Proof::Cookie(_)),
            streams: Arc::new(Semaphore::new(STREAMS_EACH)),
            looks: Arc::new(Semaphore::new(LOOKS_EACH)),
            acts: Arc::new(Semaphore::new(ACTS_EACH)),
            csrf,
        };
        self.0.push(Session { found: found.clone(), proof, begun: now, used: now, _mark: mark });
        found
    }

    /// The session of one of these cookies, which is used now.
    pub(crate) fn by_cookie<'a>(&mut self, words: impl Iterator<Item = &'a str>, now: Instant) -> Option<Found> {
        let words: Vec<&str> = words.collect();
        let is_it = |session: &Session| match &session.proof {
            // Every word is compared, as a whole.
            Proof::Cookie(secret) => words.iter().fold(false, |is, word| is | secret.is(word)),
            Proof::Header(_) => false,
        };
        self.used(is_it, now)
    }

    /// The session of the token that a proxy sends, which is used now.
    pub(crate) fn by_header(&mut self, token: Digest, now: Instant) -> Option<Found> {
        self.used(|session| matches!(session.proof, Proof::Header(known) if known == token), now)
    }

    fn used(&mut self, is_it: impl Fn(&Session) -> bool, now: Instant) -> Option<Found> {
        self.sweep(now);
        let session = self.0.iter_mut().filter(|session| is_it(session)).last()?;
        session.used = now;
        Some(session.found.clone())
    }

    /// True if the session has not ended. It does not count as a use.
    pub(crate) fn is_live(&self, id: u64, now: Instant) -> bool {
        self.0.iter().any(|session| session.found.id == id && session.is_live(now))
    }

    /// Ends a session.
    pub(crate) fn end(&mut self, id: u64) {
        self.0.retain(|session| session.found.id != id);
    }

    /// Forgets the sessions whose time is over.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.0.retain(|session| session.is_live(now));
    }
}

/// Bound of attempts to begin a session: each costs a request to the control plane.
pub(crate) struct Attempts {
    left: u32,
    /// Time of the last one that was added.
    added: Instant,
}

impl Attempts {
    pub(crate) fn new(now: Instant) -> Self {
        Self { left: ATTEMPTS_BURST, added: now }
    }

    /// True if one more is made now.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let each = Duration::from_secs(1) / ATTEMPTS_PER_SECOND;
        while self.left < ATTEMPTS_BURST && self.added + each <= now {
            (self.left, self.added) = (self.left + 1, self.added + each);
        }
        if self.left == ATTEMPTS_BURST {
            self.added = now;
        }
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;

    const SECOND: Duration = Duration::from_secs(1);

    fn start() -> Instant {
        ironclad_seam::Clock::system().mono()
    }

    /// Begins a session; returns the word of its cookie and what its views are kept by.
    fn begin(sessions: &mut Sessions, id: u64, now: Instant) -> (String, Mark) {
        let (secret, mark) = (Secret::new().unwrap(), Arc::new(()));
        let (word, weak) = (secret.text().to_owned(), Arc::downgrade(&mark));
        let admission = Admission { id, user: format!("user{id}"), mark };
        let found = sessions.begin(admission, Proof::Cookie(secret), Secret::new().unwrap(), now);
        assert!(found.can_end && found.id == id);
        (word, weak)
    }

    fn knows(sessions: &mut Sessions, word: &str, now: Instant) -> Option<String> {
        sessions.by_cookie(["other", word].into_iter(), now).map(|found| found.user)
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_end_with_their_time() {
        for (name, uses, at, want) in [
            ("just begun", vec![], Duration::ZERO, true),
            ("idle for almost an hour", vec![], IDLE_MAX - SECOND, true),
            ("idle for an hour", vec![], IDLE_MAX, false),
            ("used within the hour", vec![IDLE_MAX / 2], IDLE_MAX + SECOND, true),
            ("used in each hour of twelve", (1..24).map(|half| IDLE_MAX / 2 * half).collect(), LIFE - SECOND, true),
            ("twelve hours old", (1..24).map(|half| IDLE_MAX / 2 * half).collect(), LIFE, false),
        ] {
            let (now, mut sessions) = (start(), Sessions::default());
            let (word, mark) = begin(&mut sessions, 1, now);
            for used in uses {
                assert!(knows(&mut sessions, &word, now + used).is_some(), "{name}: at {used:?}");
            }
            assert_eq!(sessions.is_live(1, now + at), want, "{name}");
            assert_eq!(knows(&mut sessions, &word, now + at).is_some(), want, "{name}");
            assert_eq!(mark.upgrade().is_some(), want, "{name}: its token is kept as long");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn to_be_asked_whether_it_is_live_is_no_use() {
        let (now, mut sessions) = (start(), Sessions::default());
        let (word, _) = begin(&mut sessions, 1, now);
        assert!(sessions.is_live(1, now + IDLE_MAX - SECOND));
        assert_eq!(knows(&mut sessions, &word, now + IDLE_MAX), None);
    }

    #[tokio::test(start_paused = true)]
    async fn of_too_many_sessions_the_longest_unused_ends() {
        let (now, mut sessions) = (start(), Sessions::default());
        let words: Vec<_> = (0..SESSIONS_MAX as u64).map(|id| begin(&mut sessions, id, now + SECOND)).collect();
        assert!(knows(&mut sessions, &words[0].0, now + 2 * SECOND).is_some());
        let (last, _) = begin(&mut sessions, 1_000, now + 3 * SECOND);
        assert_eq!(sessions.0.len(), SESSIONS_MAX);
        assert!(knows(&mut sessions, &words[1].0, now + 3 * SECOND).is_none() && words[1].1.upgrade().is_none());
        for word in [&words[0].0, &words[2].0, &last] {
            assert!(knows(&mut sessions, word, now + 3 * SECOND).is_some());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_proof_is_worth_its_own_session() {
        let (now, mut sessions) = (start(), Sessions::default());
        let (one, mark) = begin(&mut sessions, 1, now);
        let (other, _) = begin(&mut sessions, 2, now);
        let token = Token::parse("abc").unwrap().digest();
        let admission = Admission { id: 3, user: "proxied".into(), mark: Arc::new(()) };
        let found = sessions.begin(admission, Proof::Header(token), Secret::new().unwrap(), now);
        assert!(!found.can_end);
        assert_eq!(knows(&mut sessions, &one, now).as_deref(), Some("user1"));
        assert_eq!(knows(&mut sessions, &other, now).as_deref(), Some("user2"));
        assert_eq!(sessions.by_header(token, now).map(|found| found.user).as_deref(), Some("proxied"));
        assert!(sessions.by_header(Token::parse("abd").unwrap().digest(), now).is_none());
        for wrong in ["", "abc", &one[1..], &format!("{one}x")] {
            assert_eq!(knows(&mut sessions, wrong, now), None, "{wrong}");
        }
        sessions.end(1);
        assert!(knows(&mut sessions, &one, now).is_none() && mark.upgrade().is_none() && !sessions.is_live(1, now));
        assert!(knows(&mut sessions, &other, now).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_bounded() {
        let now = start();
        let mut attempts = Attempts::new(now);
        let mut made = |after: Duration| (0..1_000).filter(|_| attempts.take(now + after)).count();
        let each = SECOND / ATTEMPTS_PER_SECOND;
        for (after, want) in [
            (Duration::ZERO, ATTEMPTS_BURST as usize),
            (each - Duration::from_millis(1), 0),
            (each, 1),
            (each + SECOND, ATTEMPTS_PER_SECOND as usize),
            (each + SECOND, 0),
            (100 * SECOND, ATTEMPTS_BURST as usize),
            (100 * SECOND + each, 1),
        ] {
            assert_eq!(made(after), want, "{after:?}");
        }
    }
}
