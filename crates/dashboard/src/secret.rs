//! Secrets: the one in the printed address, which is used once, and the sessions that it begins.

use std::{collections::VecDeque, io, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::time::Instant;

/// Sessions at once; the oldest ends when there is one more.
const SESSIONS_MAX: usize = 16;
/// Life of a session.
const SESSION_LIFE: Duration = Duration::from_secs(12 * 3_600);
/// Bytes of a secret.
const LENGTH: usize = 32;

/// A secret of 256 bits.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    /// A new one, by the randomness of the system.
    pub(crate) fn new() -> io::Result<Self> {
        let mut bytes = [0; LENGTH];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| io::Error::other("the operating system gives no randomness"))?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The secret as a word.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// True if the word is this secret. The time that it takes tells nothing but the length, which is known.
    pub(crate) fn is(&self, word: &str) -> bool {
        is_equal(self.0.as_bytes(), word.as_bytes())
    }
}

/// Compares all bytes, whichever differ.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    // Otherwise the compiler might end the loop at the first difference.
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

/// A session of a browser.
struct Session {
    secret: Secret,
    /// Secret that its own pages send along with a change. Other pages can't read it, nor set a header.
    csrf: Secret,
    ends: Instant,
}

/// Sessions of browsers, and the secret that begins the next one.
pub(crate) struct Keys {
    next: Secret,
    sessions: VecDeque<Session>,
}

impl Keys {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { next: Secret::new()?, sessions: VecDeque::new() })
    }

    /// The secret of the next session.
    pub(crate) fn next(&self) -> &Secret {
        &self.next
    }

    /// Begins a session, if the word is the secret; it is worth nothing afterwards.
    pub(crate) fn redeem(&mut self, word: &str, now: Instant) -> io::Result<Option<Secret>> {
        if !self.next.is(word) {
            return Ok(None);
        }
        self.next = Secret::new()?;
        let (secret, csrf) = (Secret::new()?, Secret::new()?);
        self.sessions.retain(|session| session.ends > now);
        while self.sessions.len() >= SESSIONS_MAX {
            self.sessions.pop_front();
        }
        self.sessions.push_back(Session { secret: secret.clone(), csrf, ends: now + SESSION_LIFE });
        Ok(Some(secret))
    }

    /// Secret of changes of the session of one of these words; `None` if none of them is a session that has not
    /// ended.
    pub(crate) fn csrf<'a>(&self, words: impl Iterator<Item = &'a str>, now: Instant) -> Option<&Secret> {
        let mut found = None;
        for word in words {
            for session in &self.sessions {
                if session.secret.is(word) & (session.ends > now) {
                    found = Some(&session.csrf);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_as_a_whole() {
        for (one, other, want) in
            [("abc", "abc", true), ("abc", "abd", false), ("abc", "ab", false), ("", "", true), ("ab", "abc", false)]
        {
            assert_eq!(is_equal(one.as_bytes(), other.as_bytes()), want, "{one} {other}");
        }
        let (one, other) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert!(one.is(one.text()) && !one.is(other.text()) && one.text().len() == 43);
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_begins_one_session_and_sessions_are_bounded() {
        let start = ironclad_seam::Clock::system().mono();
        let mut keys = Keys::new().unwrap();
        let first = keys.next().text().to_owned();
        assert!(keys.redeem("wrong", start).unwrap().is_none());
        let session = keys.redeem(&first, start).unwrap().unwrap();
        assert!(keys.redeem(&first, start).unwrap().is_none(), "it is used once");
        let csrf = |keys: &Keys, word: &str, now| {
            keys.csrf([word, "other"].into_iter(), now).map(|csrf| csrf.text().to_owned())
        };
        let knows = |keys: &Keys, word: &str, now| csrf(keys, word, now).is_some();
        assert!(knows(&keys, session.text(), start) && !knows(&keys, &first, start));
        assert!(!knows(&keys, session.text(), start + SESSION_LIFE), "it ends");
        let of_first = csrf(&keys, session.text(), start).unwrap();
        assert!(of_first != session.text() && !knows(&keys, &of_first, start), "it is worth no session");
        let next = keys.next().text().to_owned();
        let second = keys.redeem(&next, start).unwrap().unwrap();
        assert_ne!(csrf(&keys, second.text(), start).unwrap(), of_first);
        for _ in 0..SESSIONS_MAX {
            let next = keys.next().text().to_owned();
            keys.redeem(&next, start).unwrap().unwrap();
        }
        assert!(!knows(&keys, session.text(), start), "the oldest of too many has ended");
        assert_eq!(keys.sessions.len(), SESSIONS_MAX);
    }
}
