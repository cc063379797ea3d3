//! Life of the certificate of an agent (specification/operations.md 10.5).

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ironclad_failover::cluster::report::Life;
use jiff::Timestamp;
use kube::config::Kubeconfig;
use x509_parser::pem::Pem;

/// That of the client certificate of the current context; `None` if its user has none inline.
#[must_use]
pub fn life(kubeconfig: &Kubeconfig) -> Option<Life> {
    let current = kubeconfig.current_context.as_deref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == current)?.context.as_ref()?;
    let user = kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref())?;
    let data = user.auth_info.as_ref()?.client_certificate_data.as_ref()?;
    let pem = BASE64_STANDARD.decode(data).ok()?;
    let block = Pem::iter_from_buffer(&pem).next()?.ok()?;
    let validity = block.parse_x509().ok()?.validity().clone();
    let at = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
    Some(Life { from: at(validity.not_before)?, until: at(validity.not_after)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_life_of_the_current_users_certificate() {
        let made = rcgen::generate_simple_self_signed(vec!["m1".to_owned()]).unwrap();
        let text = super::super::kubeconfig("https://plane:6443", "", "m1", &made.cert.pem(), "").unwrap();
        let of_user = life(&Kubeconfig::from_yaml(&text).unwrap()).unwrap();
        assert!(of_user.from < of_user.until);
        assert_eq!(life(&Kubeconfig::default()), None);
    }
}
