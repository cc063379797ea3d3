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

/// Sessions of browsers, and the secret that begins the next one.
pub(crate) struct Keys {
    next: Secret,
    sessions: VecDeque<(Secret, Instant)>,
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
        let session = Secret::new()?;
        self.sessions.retain(|(_, ends)| *ends > now);
        while self.sessions.len() >= SESSIONS_MAX {
            self.sessions.pop_front();
        }
        self.sessions.push_back((session.clone(), now + SESSION_LIFE));
        Ok(Some(session))
    }

    /// True if one of these words is a session that has not ended.
    pub(crate) fn knows<'a>(&self, words: impl Iterator<Item = &'a str>, now: Instant) -> bool {
        let mut known = false;
        for word in words {
            for (session, ends) in &self.sessions {
                known |= session.is(word) & (*ends > now);
            }
        }
        known
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
        let knows = |keys: &Keys, word: &str, now| keys.knows([word, "other"].into_iter(), now);
        assert!(knows(&keys, session.text(), start) && !knows(&keys, &first, start));
        assert!(!knows(&keys, session.text(), start + SESSION_LIFE), "it ends");
        for _ in 0..SESSIONS_MAX {
            let next = keys.next().text().to_owned();
            keys.redeem(&next, start).unwrap().unwrap();
        }
        assert!(!knows(&keys, session.text(), start), "the oldest of too many has ended");
        assert_eq!(keys.sessions.len(), SESSIONS_MAX);
    }
}
