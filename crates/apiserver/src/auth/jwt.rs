//! The tokens of ServiceAccounts: JSON web tokens that the server signs and reads (specification/apiserver.md 20).

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey},
};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The issuer of tokens; also the audience of tokens for the API server.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Longer tokens are refused unread.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// The key that signs the tokens of ServiceAccounts. Cheap to clone; two are equal if they sign alike.
#[derive(Clone)]
pub struct TokenKey {
    id: String,
    kind: Arc<Kind>,
}

impl PartialEq for TokenKey {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

enum Kind {
    /// ES256: stored in a file; holders of the public key can verify tokens.
    Elliptic(Box<EcdsaKeyPair>),
    /// HS256 by a secret of this process: the same seed makes the same tokens.
    Secret(hmac::Key),
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) aud: Vec<String>,
    pub(crate) exp: i64,
    pub(crate) iat: i64,
    pub(crate) iss: String,
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) about: About,
    pub(crate) nbf: i64,
    pub(crate) sub: String,
}

/// The subject of a token, and the objects that it is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) namespace: String,
    pub(crate) serviceaccount: Object,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Object>,
}

/// One object at one time of its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Object {
    pub(crate) name: String,
    pub(crate) uid: String,
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    kid: String,
}

impl TokenKey {
    /// A key from a file: an elliptic key on P-256 as PKCS#8, in PEM.
    ///
    /// # Errors
    /// The key can't be read.
    pub fn from_pem(pem: &str) -> Result<Self, String> {
        let der = match PrivateKeyDer::from_pem_slice(pem.as_bytes()) {
            Ok(PrivateKeyDer::Pkcs8(der)) => der,
            Ok(_) => return Err("the key is not in the form PKCS#8".to_owned()),
            Err(error) => return Err(error.to_string()),
        };
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_pkcs8_der(), &random)
            .map_err(|e| e.to_string())?;
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(pair.public_key().as_ref()));
        Ok(Self { id, kind: Arc::new(Kind::Elliptic(Box::new(pair))) })
    }

    /// A key of this process alone, for servers whose tokens are not used elsewhere.
    pub(crate) fn secret(bytes: &[u8; 32]) -> Self {
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        Self { id, kind: Arc::new(Kind::Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes))) }
    }

    fn algorithm(&self) -> &'static str {
        match *self.kind {
            Kind::Elliptic(_) => "ES256",
            Kind::Secret(_) => "HS256",
        }
    }

    /// The token that says this; `None` if the system has no randomness to sign with.
    pub(crate) fn sign(&self, claims: &Claims) -> Option<String> {
        let part = |json: Vec<u8>| URL_SAFE_NO_PAD.encode(json);
        let header = Header { alg: self.algorithm().to_owned(), kid: self.id.clone() };
        let (header, claims) = (serde_json::to_vec(&header).ok()?, serde_json::to_vec(claims).ok()?);
        let text = format!("{}.{}", part(header), part(claims));
        let signature = match &*self.kind {
            Kind::Elliptic(pair) => {
                let signature = pair.sign(&SystemRandom::new(), text.as_bytes()).ok()?;
                URL_SAFE_NO_PAD.encode(signature.as_ref())
            }
            Kind::Secret(key) => URL_SAFE_NO_PAD.encode(hmac::sign(key, text.as_bytes()).as_ref()),
        };
        Some(format!("{text}.{signature}"))
    }

    /// The claims of a token that this key signed. The caller checks times and audiences.
    pub(crate) fn read(&self, token: &str) -> Option<Claims> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (text, signature) = token.rsplit_once('.')?;
        let (header, claims) = text.split_once('.')?;
        let bytes = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Header = serde_json::from_slice(&bytes(header)?).ok()?;
        // The algorithm is ours to choose, never the token's.
        if header.alg != self.algorithm() || header.kid != self.id {
            return None;
        }
        let signature = bytes(signature)?;
        match &*self.kind {
            Kind::Elliptic(pair) => {
                let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref());
                public.verify(text.as_bytes(), &signature).ok()?;
            }
            Kind::Secret(key) => hmac::verify(key, text.as_bytes(), &signature).ok()?,
        }
        serde_json::from_slice(&bytes(claims)?).ok()
    }

    /// The public half, as `/openid/v1/jwks` shows it; a secret key has none.
    pub(crate) fn public(&self) -> Value {
        let Kind::Elliptic(pair) = &*self.kind else { return json!({"keys": []}) };
        // An uncompressed point: a byte of format, then two coordinates.
        let point = pair.public_key().as_ref();
        let (x, y) = point.get(1..).unwrap_or_default().split_at((point.len().max(1) - 1) / 2);
        let b64 = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"keys": [{"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256", "x": b64(x), "y": b64(y)}]})
    }

    /// The algorithms of the keys that are shown.
    pub(crate) fn public_algorithms(&self) -> Vec<&'static str> {
        match *self.kind {
            Kind::Elliptic(_) => vec![self.algorithm()],
            Kind::Secret(_) => vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        let object = |name: &str| Object { name: name.into(), uid: "u".into() };
        let about = About {
            namespace: "n".into(),
            serviceaccount: object("s"),
            pod: None,
            node: None,
            secret: Some(object("x")),
        };
        let sub = "system:serviceaccount:n:s".into();
        Claims { aud: vec!["a".into()], exp: 2, iat: 1, iss: ISSUER.into(), jti: "j".into(), about, nbf: 1, sub }
    }

    fn elliptic() -> TokenKey {
        TokenKey::from_pem(&rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap()
    }

    #[test]
    fn a_token_is_read_by_the_key_that_signed_it_and_by_no_other() {
        for (name, key, other) in [
            ("elliptic", elliptic(), elliptic()),
            ("secret", TokenKey::secret(&[1; 32]), TokenKey::secret(&[2; 32])),
            ("kinds", elliptic(), TokenKey::secret(&[1; 32])),
        ] {
            let token = key.sign(&claims()).unwrap();
            assert_eq!(key.read(&token), Some(claims()), "{name}");
            assert_eq!(other.read(&token), None, "{name}: another key");
            let parts: Vec<&str> = token.split('.').collect();
            let mut forged = claims();
            forged.sub = "system:serviceaccount:kube-system:admin".into();
            let forged = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&forged).unwrap());
            assert_eq!(key.read(&format!("{}.{forged}.{}", parts[0], parts[2])), None, "{name}: other claims");
            let none = URL_SAFE_NO_PAD.encode(format!("{{\"alg\":\"none\",\"kid\":{:?}}}", key.id));
            assert_eq!(key.read(&format!("{none}.{}.", parts[1])), None, "{name}: no signature");
            for broken in ["", ".", "..", "a.b.c", &token[1..], &format!("{token}.x"), &"x".repeat(100_000)] {
                assert_eq!(key.read(broken), None, "{name}: {broken:.20}");
            }
        }
    }

    #[test]
    fn public_key_is_published() {
        let shown = elliptic().public();
        let key = &shown["keys"][0];
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap().len();
        assert_eq!((bytes("x"), bytes("y")), (32, 32));
        assert_eq!(TokenKey::secret(&[1; 32]).public(), json!({"keys": []}));
    }
}
