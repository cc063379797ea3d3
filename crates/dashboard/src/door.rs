//! Decides which requests are answered: a page of another origin, or of a name that leads here, must reach nothing.

/// Head of a request, as far as the decision reads it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// Every Host header, and the authority of the target if it has one.
    pub(crate) hosts: Vec<&'a str>,
    /// Every Origin header.
    pub(crate) origins: Vec<&'a str>,
    /// `Sec-Fetch-Site`.
    pub(crate) site: Option<&'a str>,
    /// `Sec-Fetch-Dest`.
    pub(crate) destination: Option<&'a str>,
}

/// Reason for which a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Anything but GET and HEAD.
    Method,
    /// The name is none of this address: another one was made to lead here.
    Host,
    /// A page of another origin asks.
    Origin,
    /// It is to be shown inside of another page.
    Framed,
    /// The browser has no session.
    Session,
    /// The secret is none, or was used.
    Secret,
}

/// Path at which a secret begins a session.
pub(crate) const LOGIN: &str = "/login";

/// Checks the head of a request that came to this address (`127.0.0.1:PORT`). Whether a session is there is decided
/// behind it.
pub(crate) fn check(asked: &Asked<'_>, authority: &str) -> Result<(), Refusal> {
    if !matches!(asked.method, "GET" | "HEAD") {
        return Err(Refusal::Method);
    }
    if asked.hosts.is_empty() || asked.hosts.iter().any(|host| *host != authority) {
        return Err(Refusal::Host);
    }
    if asked.origins.iter().any(|origin| origin.strip_prefix("http://") != Some(authority)) {
        return Err(Refusal::Origin);
    }
    if matches!(asked.destination, Some("iframe" | "frame" | "embed" | "object" | "fencedframe")) {
        return Err(Refusal::Framed);
    }
    // Another port of this host is the same site, so its pages send the cookie along. The address with the secret may
    // be opened from anywhere: it is worth what the secret is.
    match asked.site {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) if asked.path == LOGIN => Ok(()),
        Some(_) => Err(Refusal::Origin),
    }
}

/// Values of the cookies of this name.
pub(crate) fn cookies<'a>(headers: impl Iterator<Item = &'a str>, name: &str) -> impl Iterator<Item = &'a str> {
    let pairs = headers.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value)
}

impl Refusal {
    /// Status and text of the answer.
    pub(crate) fn told(self, authority: &str) -> (u16, String) {
        match self {
            Self::Method => (405, "the dashboard only shows: GET and HEAD are possible".to_owned()),
            Self::Host => (403, format!("this address is http://{authority}: open that one")),
            Self::Origin => (403, "a page of another origin may not ask the dashboard".to_owned()),
            Self::Framed => (403, "the dashboard is not shown inside of other pages".to_owned()),
            Self::Session => {
                (401, "this browser has no session: open the address that the program printed last".to_owned())
            }
            Self::Secret => (
                401,
                "this address was used before, or is incomplete: open the one that the program printed last".to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "127.0.0.1:8080";

    fn asked(method: &'static str) -> Asked<'static> {
        Asked { method, path: "/api/fleet", hosts: vec![HERE], ..Asked::default() }
    }

    #[test]
    fn every_method_but_two_is_refused() {
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PROPFIND", "get", "", "GETS"] {
            assert_eq!(check(&asked(method), HERE), Err(Refusal::Method), "{method}");
        }
        assert_eq!((check(&asked("GET"), HERE), check(&asked("HEAD"), HERE)), (Ok(()), Ok(())));
    }

    #[test]
    fn only_this_address_is_answered() {
        for (hosts, want) in [
            (vec![HERE], Ok(())),
            (vec![HERE, HERE], Ok(())),
            (vec![], Err(Refusal::Host)),
            (vec![""], Err(Refusal::Host)),
            (vec!["127.0.0.1"], Err(Refusal::Host)),
            (vec!["127.0.0.1:8081"], Err(Refusal::Host)),
            (vec!["localhost:8080"], Err(Refusal::Host)),
            (vec!["rebound.example:8080"], Err(Refusal::Host)),
            (vec!["127.0.0.1:8080.rebound.example"], Err(Refusal::Host)),
            (vec!["user@127.0.0.1:8080"], Err(Refusal::Host)),
            (vec![HERE, "rebound.example"], Err(Refusal::Host)),
            (vec!["[::1]:8080"], Err(Refusal::Host)),
        ] {
            assert_eq!(check(&Asked { hosts: hosts.clone(), ..asked("GET") }, HERE), want, "{hosts:?}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let own = "http://127.0.0.1:8080";
        for (origins, site, destination, want) in [
            (vec![], None, None, Ok(())),
            (vec![own], Some("same-origin"), Some("empty"), Ok(())),
            (vec![], Some("none"), Some("document"), Ok(())),
            (vec![], Some("same-site"), Some("document"), Err(Refusal::Origin)),
            (vec![], Some("cross-site"), Some("document"), Err(Refusal::Origin)),
            (vec![], Some("anything"), None, Err(Refusal::Origin)),
            (vec!["https://127.0.0.1:8080"], None, None, Err(Refusal::Origin)),
            (vec!["http://127.0.0.1:8081"], None, None, Err(Refusal::Origin)),
            (vec!["http://evil.example"], Some("same-origin"), None, Err(Refusal::Origin)),
            (vec!["null"], None, None, Err(Refusal::Origin)),
            (vec![own, "null"], None, None, Err(Refusal::Origin)),
            (vec![], Some("same-origin"), Some("iframe"), Err(Refusal::Framed)),
            (vec![], Some("same-origin"), Some("embed"), Err(Refusal::Framed)),
        ] {
            let asked = Asked { origins: origins.clone(), site, destination, ..asked("GET") };
            assert_eq!(check(&asked, HERE), want, "{origins:?} {site:?} {destination:?}");
        }
        let login = Asked { path: LOGIN, site: Some("cross-site"), ..asked("GET") };
        assert_eq!(check(&login, HERE), Ok(()), "the printed address may be a link in another page");
        let framed = Asked { destination: Some("iframe"), ..login };
        assert_eq!(check(&framed, HERE), Err(Refusal::Framed));
    }

    #[test]
    fn cookies_are_found_by_their_names() {
        let found = |headers: &[&'static str]| cookies(headers.iter().copied(), "id").collect::<Vec<_>>();
        assert_eq!(found(&["a=b; id=1; idx=2", "id=3;id="]), ["1", "3", ""]);
        assert_eq!(found(&["id", "; =;", "xid=1"]), [""; 0]);
    }
}
