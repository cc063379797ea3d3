//! Decides which requests are answered: a page of another origin, or of a name that leads here, must reach nothing.

/// Head of a request, as far as the decision reads it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    /// Every Host header, and the authority of the target if it has one.
    pub(crate) hosts: Vec<&'a str>,
    /// True if the answer is the same for everybody, or worth what the address is.
    pub(crate) is_public: bool,
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
    /// Anything but GET and HEAD, and POST where something is sent.
    Method,
    /// The name is none of this address: another one was made to lead here.
    Host,
    /// A page of another origin asks.
    Origin,
    /// It is to be shown inside of another page.
    Framed,
    /// The browser has no session.
    Session,
    /// A change does not come from a page of this session.
    Csrf,
    /// The secret is none, or was used.
    Secret,
}

/// Path at which a session begins.
pub(crate) const LOGIN: &str = "/login";
/// Path at which a session ends.
pub(crate) const LOGOUT: &str = "/logout";

/// Header of requests that change something.
pub(crate) const CSRF: &str = "x-ironclad-csrf";

/// Addresses that are answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// `127.0.0.1:PORT`, without TLS, and nothing else.
    Loopback(String),
    /// These names and addresses at any port, with TLS: a Service or a proxy in front may have another port.
    Named(Vec<String>),
}

impl Address {
    /// Origin of the pages at this host; `None` if it is none of ours.
    fn origin(&self, host: &str) -> Option<String> {
        match self {
            Self::Loopback(authority) => (host == authority).then(|| format!("http://{authority}")),
            Self::Named(names) => {
                let (name, _) = split(host)?;
                let is_ours = names.iter().any(|known| known.eq_ignore_ascii_case(name));
                // Browsers leave the port out where it is that of the scheme.
                is_ours.then(|| format!("https://{}", host.strip_suffix(":443").unwrap_or(host).to_ascii_lowercase()))
            }
        }
    }
}

/// Name and port of a host, of an address of version 6 without its brackets.
fn split(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').filter(|(name, _)| name.contains(':'))?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) if port.bytes().all(|digit| digit.is_ascii_digit()) => Some(port.parse().ok()?),
        None if rest.is_empty() => None,
        _ => return None,
    };
    Some((name, port))
}

/// Checks the head of a request that came to this address. Whether a session is there is decided behind it.
pub(crate) fn check(asked: &Asked<'_>, address: &Address, methods: &[&str]) -> Result<(), Refusal> {
    if !methods.contains(&asked.method) {
        return Err(Refusal::Method);
    }
    let mut origins = asked.hosts.iter().map(|host| address.origin(host));
    let Some(Some(own)) = origins.next() else { return Err(Refusal::Host) };
    if origins.any(|other| other.as_ref() != Some(&own)) {
        return Err(Refusal::Host);
    }
    if asked.origins.iter().any(|origin| **origin != own) {
        return Err(Refusal::Origin);
    }
    // Browsers name the origin of everything that is sent.
    if !matches!(asked.method, "GET" | "HEAD") && asked.origins.is_empty() {
        return Err(Refusal::Origin);
    }
    if matches!(asked.destination, Some("iframe" | "frame" | "embed" | "object" | "fencedframe")) {
        return Err(Refusal::Framed);
    }
    // Another port of this host is the same site, so its pages send the cookie along.
    match asked.site {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) if asked.is_public && matches!(asked.method, "GET" | "HEAD") => Ok(()),
        Some(_) => Err(Refusal::Origin),
    }
}

/// Values of the cookies of this name.
pub(crate) fn cookies<'a>(headers: impl Iterator<Item = &'a str>, name: &str) -> impl Iterator<Item = &'a str> {
    let pairs = headers.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value)
}

/// Bearer token of an Authorization header, as a proxy in front sets it. Several such headers are none.
pub(crate) fn bearer<'a>(mut headers: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (header, None) = (headers.next()?, headers.next()) else { return None };
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

impl Refusal {
    /// Status and text of the answer.
    pub(crate) fn told(self, address: &Address) -> (u16, String) {
        match self {
            Self::Method => (405, "the dashboard only shows: GET and HEAD are possible".to_owned()),
            Self::Csrf => (403, format!("a change needs the header {CSRF} of this session")),
            Self::Host => match address {
                Address::Loopback(authority) => (403, format!("this address is http://{authority}: open that one")),
                Address::Named(_) => (
                    403,
                    "the dashboard is not served under this name\n  try: a name that `ironclad run --dashboard-host` \
                     has, or that name in the flag"
                        .to_owned(),
                ),
            },
            Self::Origin => (403, "a page of another origin may not ask the dashboard".to_owned()),
            Self::Framed => (403, "the dashboard is not shown inside of other pages".to_owned()),
            Self::Session => match address {
                Address::Loopback(_) => {
                    (401, "this browser has no session: open the address that the program printed last".to_owned())
                }
                Address::Named(_) => (401, "this browser has no session: log in at /login".to_owned()),
            },
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
    const SHOWN: [&str; 2] = ["GET", "HEAD"];
    const SENT: [&str; 1] = ["POST"];

    fn here() -> Address {
        Address::Loopback(HERE.to_owned())
    }

    fn named() -> Address {
        Address::Named(["fleet.example", "10.0.0.5", "fd00::5"].map(str::to_owned).to_vec())
    }

    fn asked(method: &'static str) -> Asked<'static> {
        Asked { method, hosts: vec![HERE], ..Asked::default() }
    }

    #[test]
    fn every_method_but_those_of_the_path_is_refused() {
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PROPFIND", "get", "", "GETS"] {
            assert_eq!(check(&asked(method), &here(), &SHOWN), Err(Refusal::Method), "{method}");
        }
        for method in ["GET", "HEAD"] {
            assert_eq!(check(&asked(method), &here(), &SHOWN), Ok(()));
            assert_eq!(check(&asked(method), &here(), &SENT), Err(Refusal::Method), "{method}");
        }
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
            assert_eq!(check(&Asked { hosts: hosts.clone(), ..asked("GET") }, &here(), &SHOWN), want, "{hosts:?}");
        }
    }

    #[test]
    fn names_are_answered_at_any_port() {
        for (host, want) in [
            ("fleet.example", Some("https://fleet.example")),
            ("fleet.example:443", Some("https://fleet.example")),
            ("fleet.example:8449", Some("https://fleet.example:8449")),
            ("Fleet.Example", Some("https://fleet.example")),
            ("10.0.0.5:8449", Some("https://10.0.0.5:8449")),
            ("[fd00::5]:8449", Some("https://[fd00::5]:8449")),
            ("[fd00::5]", Some("https://[fd00::5]")),
            ("fd00::5", None),
            ("[fleet.example]", None),
            ("[fd00::5]x", None),
            ("rebound.example", None),
            ("rebound.example:443", None),
            ("fleet.example.rebound.example", None),
            ("xfleet.example", None),
            ("fleet.example.", None),
            ("user@fleet.example", None),
            ("fleet.example:443@rebound.example", None),
            ("fleet.example:", None),
            ("fleet.example:+1", None),
            ("fleet.example:99999", None),
            ("10.0.0.6", None),
            ("", None),
            ("?", None),
        ] {
            assert_eq!(named().origin(host).as_deref(), want, "{host}");
            let asked = Asked { hosts: vec![host], ..asked("GET") };
            let refused = if want.is_some() { Ok(()) } else { Err(Refusal::Host) };
            assert_eq!(check(&asked, &named(), &SHOWN), refused, "{host}");
        }
        let two = Asked { hosts: vec!["fleet.example", "10.0.0.5"], ..asked("GET") };
        assert_eq!(check(&two, &named(), &SHOWN), Err(Refusal::Host), "two names of ours are two hosts");
    }

    #[test]
    fn what_is_sent_comes_from_a_page_of_the_same_origin() {
        let own = "https://fleet.example:8449";
        for (origins, site, want) in [
            (vec![own], Some("same-origin"), Ok(())),
            (vec![own], None, Ok(())),
            (vec![], Some("same-origin"), Err(Refusal::Origin)),
            (vec![], None, Err(Refusal::Origin)),
            (vec!["null"], Some("same-origin"), Err(Refusal::Origin)),
            (vec!["https://fleet.example"], None, Err(Refusal::Origin)),
            (vec!["http://fleet.example:8449"], None, Err(Refusal::Origin)),
            (vec!["https://10.0.0.5:8449"], None, Err(Refusal::Origin)),
            (vec!["https://evil.example"], Some("cross-site"), Err(Refusal::Origin)),
            (vec![own], Some("cross-site"), Err(Refusal::Origin)),
            (vec![own], Some("same-site"), Err(Refusal::Origin)),
            (vec![own, "https://evil.example"], None, Err(Refusal::Origin)),
        ] {
            let hosts = vec!["fleet.example:8449"];
            let asked = Asked { hosts, origins: origins.clone(), site, is_public: true, ..asked("POST") };
            assert_eq!(check(&asked, &named(), &SENT), want, "{origins:?} {site:?}");
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
            assert_eq!(check(&asked, &here(), &SHOWN), want, "{origins:?} {site:?} {destination:?}");
        }
        let login = Asked { is_public: true, site: Some("cross-site"), ..asked("GET") };
        assert_eq!(check(&login, &here(), &SHOWN), Ok(()), "the printed address may be a link in another page");
        let framed = Asked { destination: Some("iframe"), ..login };
        assert_eq!(check(&framed, &here(), &SHOWN), Err(Refusal::Framed));
    }

    #[test]
    fn tokens_of_proxies_are_found() {
        for (headers, want) in [
            (vec!["Bearer abc"], Some("abc")),
            (vec!["bearer  abc "], Some("abc")),
            (vec!["Bearer"], None),
            (vec!["Bearer "], None),
            (vec!["Basic YTpi"], None),
            (vec!["Bearerabc"], None),
            (vec!["Bearer abc", "Bearer def"], None),
            (vec![], None),
        ] {
            assert_eq!(bearer(headers.iter().copied()), want, "{headers:?}");
        }
    }

    #[test]
    fn cookies_are_found_by_their_names() {
        let found = |headers: &[&'static str]| cookies(headers.iter().copied(), "id").collect::<Vec<_>>();
        assert_eq!(found(&["a=b; id=1; idx=2", "id=3;id="]), ["1", "3", ""]);
        assert_eq!(found(&["id", "; =;", "xid=1"]), [""; 0]);
    }
}
