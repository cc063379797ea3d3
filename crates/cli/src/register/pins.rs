//! Hashes of public keys by which the certificates of a control plane are recognized: `sha256:<hex>`, as kubeadm's.

use ring::digest::{SHA256, digest};
use x509_parser::pem::Pem;

/// Prefix of a hash, which names its algorithm.
const PREFIX: &str = "sha256:";
/// Length of a hash in hexadecimal digits.
const DIGITS: usize = 64;

/// The hash of the public key (SPKI) of each certificate in a PEM bundle (specification/operations.md 2.5). Blocks
/// that are no certificates are left out.
#[must_use]
pub fn of(pem: &[u8]) -> Vec<String> {
    let certificates = Pem::iter_from_buffer(pem).filter_map(Result::ok);
    certificates
        .filter_map(|block| {
            let key = block.parse_x509().ok()?.public_key().raw.to_vec();
            let hex: String = digest(&SHA256, &key).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            Some(PREFIX.to_owned() + &hex)
        })
        .collect()
}

/// A hash in its one spelling, in lower case; `None` if the text is none.
#[must_use]
pub fn parse(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let hex = text.strip_prefix(PREFIX)?;
    (hex.len() == DIGITS && hex.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_have_one_spelling() {
        let hex = "ab".repeat(32);
        for (text, want) in [
            (format!("sha256:{hex}"), Some(format!("sha256:{hex}"))),
            (format!("SHA256:{}", hex.to_uppercase()), Some(format!("sha256:{hex}"))),
            (hex.clone(), None),
            (format!("sha512:{hex}"), None),
            (format!("sha256:{hex}0"), None),
            (format!("sha256:{}", "zz".repeat(32)), None),
        ] {
            assert_eq!(parse(&text), want, "{text}");
        }
    }

    #[test]
    fn each_certificate_of_a_bundle_has_a_hash_of_its_key() {
        let certificate = || rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap();
        let (one, other) = (certificate(), certificate());
        let bundle = format!("{}{}{}", one.cert.pem(), one.signing_key.serialize_pem(), other.cert.pem());
        let hashes = of(bundle.as_bytes());
        assert_eq!(hashes, [of(one.cert.pem().as_bytes()), of(other.cert.pem().as_bytes())].concat());
        assert!(hashes.iter().all(|hash| parse(hash).as_ref() == Some(hash)), "{hashes:?}");
        assert_eq!(hashes.len(), 2);
        assert!(of(b"no certificate").is_empty());
    }
}
