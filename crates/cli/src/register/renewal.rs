//! Renewal of the certificate of an agent (specification/operations.md 10.5).

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::{SignedDuration, Timestamp};
use kube::config::Kubeconfig;
use x509_parser::pem::Pem;

/// A certificate is renewed when this part of its life is left.
const RENEWED_AT: i32 = 3;

/// Life of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Its beginning.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
}

impl Life {
    /// That of the client certificate of the current context; `None` if its user has none inline.
    #[must_use]
    pub fn of(kubeconfig: &Kubeconfig) -> Option<Self> {
        let current = kubeconfig.current_context.as_deref()?;
        let context = kubeconfig.contexts.iter().find(|context| context.name == current)?.context.as_ref()?;
        let user = kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref())?;
        let data = user.auth_info.as_ref()?.client_certificate_data.as_ref()?;
        let pem = BASE64_STANDARD.decode(data).ok()?;
        let block = Pem::iter_from_buffer(&pem).next()?.ok()?;
        let validity = block.parse_x509().ok()?.validity().clone();
        let at = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        Some(Self { from: at(validity.not_before)?, until: at(validity.not_after)? })
    }

    /// True once a third of the life is left.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        let left = self.until.duration_since(now);
        left <= self.until.duration_since(self.from) / RENEWED_AT
    }

    /// True once it has ended.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.duration_since(now) <= SignedDuration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_before_the_end_a_certificate_is_renewed() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let life = Life { from: at(0), until: at(900) };
        for (now, due, over) in
            [(0, false, false), (599, false, false), (600, true, false), (899, true, false), (900, true, true)]
        {
            assert_eq!((life.is_due(at(now)), life.is_over(at(now))), (due, over), "{now}");
        }
    }

    #[test]
    fn the_life_of_the_current_users_certificate() {
        let made = rcgen::generate_simple_self_signed(vec!["m1".to_owned()]).unwrap();
        let text = super::super::kubeconfig("https://plane:6443", "", "m1", &made.cert.pem(), "").unwrap();
        let life = Life::of(&Kubeconfig::from_yaml(&text).unwrap()).unwrap();
        assert!(life.from < life.until);
        assert_eq!(Life::of(&Kubeconfig::default()), None);
    }
}
