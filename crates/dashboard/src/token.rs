//! Bearer tokens of users. The control plane validates them; here they are only kept from where they do not belong.

use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret as _, SecretString};

/// Bytes of a token. Those of OpenID Connect carry the groups of their user.
pub(crate) const TOKEN_MAX: usize = 16 * 1024;

/// A bearer token. Its debug text does not have it, and its memory is cleared at its end.
#[derive(Debug, Clone)]
pub struct Token(SecretString);

impl Token {
    /// The token that somebody pasted or a proxy sent; `None` if it can be none (RFC 6750, 2.1).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_of_it = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
        let is_one = !text.is_empty() && text.len() <= TOKEN_MAX && text.chars().all(is_of_it);
        is_one.then(|| Self(SecretString::from(text)))
    }

    /// The token itself, for the client of the control plane.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Names the token without telling it.
    pub(crate) fn digest(&self) -> Digest {
        let (mut bytes, found) = ([0; 32], digest(&SHA256, self.expose().as_bytes()));
        bytes.copy_from_slice(found.as_ref());
        Digest(bytes)
    }
}

/// SHA-256 of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest([u8; 32]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_no_token_is_not_sent_to_the_control_plane() {
        for (text, want) in [
            ("abc.DEF-1_2~3+4/5==", Some("abc.DEF-1_2~3+4/5==")),
            (" abc\r\n", Some("abc")),
            ("", None),
            (" ", None),
            ("a b", None),
            ("a\nb", None),
            ("a\r\nx-remote-user: admin", None),
            ("ä", None),
            ("a,b", None),
        ] {
            assert_eq!(Token::parse(text).as_ref().map(Token::expose), want, "{text:?}");
        }
        assert!(Token::parse(&"a".repeat(TOKEN_MAX)).is_some());
        assert!(Token::parse(&"a".repeat(TOKEN_MAX + 1)).is_none());
    }

    #[test]
    fn a_token_is_not_in_its_debug_text() {
        let token = Token::parse("very-secret").unwrap();
        assert!(!format!("{token:?} {:?}", token.digest()).contains("secret-"));
        assert!(!format!("{token:?}").contains("very"));
        assert!(token.digest() == Token::parse(" very-secret ").unwrap().digest());
        assert!(token.digest() != Token::parse("very-secre").unwrap().digest());
    }
}
