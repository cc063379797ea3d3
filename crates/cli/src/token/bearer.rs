//! Bootstrap tokens as text: `<id>.<secret>`, in the form of kubeadm's.

use std::{fmt, str::FromStr};

use ring::rand::{SecureRandom as _, SystemRandom};

/// Length of the id, in characters.
pub const ID_LENGTH: usize = 6;
/// Length of the secret, in characters.
pub const SECRET_LENGTH: usize = 16;
/// Characters of a token.
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// A bootstrap token (specification/operations.md 2.6). Its secret is shown by `Display` alone, not by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapToken {
    id: String,
    secret: String,
}

/// Error of a text that is no bootstrap token. It does not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the token can't be used\n  because it is not of the form ID.SECRET with {ID_LENGTH} and {SECRET_LENGTH} characters \
     of a-z and 0-9\n  try: ironclad token create"
)]
pub struct NoToken;

/// Error of the system, which has no randomness to make a secret of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no token was made\n  because the operating system gives no randomness")]
pub struct NoRandomness;

impl BootstrapToken {
    /// A token of random characters from the operating system.
    ///
    /// # Errors
    /// If it has no randomness.
    pub fn generate() -> Result<Self, NoRandomness> {
        Ok(Self { id: random(ID_LENGTH)?, secret: random(SECRET_LENGTH)? })
    }

    /// The public part, by which the token is known.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The part that proves that one has the token.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }
}

impl FromStr for BootstrapToken {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        let (id, secret) = text.split_once('.').ok_or(NoToken)?;
        let is = |part: &str, length: usize| part.len() == length && part.bytes().all(|byte| LETTERS.contains(&byte));
        if !is(id, ID_LENGTH) || !is(secret, SECRET_LENGTH) {
            return Err(NoToken);
        }
        Ok(Self { id: id.to_owned(), secret: secret.to_owned() })
    }
}

impl fmt::Display for BootstrapToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.id, self.secret)
    }
}

impl fmt::Debug for BootstrapToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BootstrapToken({}.****)", self.id)
    }
}

/// The id in a text that is an id or a token; `None` for any other text.
#[must_use]
pub fn id_of(text: &str) -> Option<&str> {
    match text.split_once('.') {
        Some((id, _)) => text.parse::<BootstrapToken>().is_ok().then_some(id),
        None => (text.len() == ID_LENGTH && text.bytes().all(|byte| LETTERS.contains(&byte))).then_some(text),
    }
}

/// So many characters of a token, all equally likely.
fn random(length: usize) -> Result<String, NoRandomness> {
    let system = SystemRandom::new();
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut bytes = [0_u8; 32];
        system.fill(&mut bytes).map_err(|_| NoRandomness)?;
        text.extend(bytes.iter().filter_map(|byte| letter(*byte)).take(length - text.len()));
    }
    Ok(text)
}

/// The character of a random byte. `None` for bytes beyond the last multiple of the number of characters: they would
/// make the first ones likelier.
fn letter(byte: u8) -> Option<char> {
    let fair = u8::MAX as usize / LETTERS.len() * LETTERS.len();
    let byte = usize::from(byte);
    (byte < fair).then(|| char::from(LETTERS[byte % LETTERS.len()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_one_form() {
        for (text, is_token, id) in [
            ("abcdef.0123456789abcdef", true, Some("abcdef")),
            ("abcdef", false, Some("abcdef")),
            ("ABCDEF.0123456789abcdef", false, None),
            ("abcdef.0123456789abcde", false, None),
            ("abcdef.0123456789abcdef0", false, None),
            ("abcde.0123456789abcdef", false, None),
            ("abcdef.0123456789.abcde", false, None),
            ("abcdeä", false, None),
            ("", false, None),
        ] {
            let parsed = text.parse::<BootstrapToken>();
            assert_eq!((parsed.is_ok(), id_of(text)), (is_token, id), "{text}");
            if let Ok(token) = parsed {
                assert_eq!(token.to_string(), text);
            }
        }
    }

    #[test]
    fn generated_tokens_are_tokens_and_differ() {
        let (one, other) = (BootstrapToken::generate().unwrap(), BootstrapToken::generate().unwrap());
        assert_eq!(one.to_string().parse(), Ok(one.clone()));
        assert_ne!(one, other);
        assert!(!format!("{one:?}").contains(one.secret()), "a secret is not logged");
    }

    #[test]
    fn characters_are_equally_likely() {
        let mut count = std::collections::BTreeMap::new();
        (0..=u8::MAX).filter_map(letter).for_each(|letter| *count.entry(letter).or_insert(0) += 1);
        assert_eq!((count.len(), count.values().min(), count.values().max()), (36, Some(&7), Some(&7)));
    }
}
