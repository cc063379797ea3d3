//! `format`: the ones that custom resources enforce.

use std::{net::IpAddr, sync::LazyLock};

use regex::Regex;

use super::node::JsonType;

/// A format and its check.
#[derive(Debug, Clone)]
pub struct Format {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Int32,
    Int64,
    Float,
    Double,
    Text(fn(&str) -> bool),
}

impl Format {
    /// The format of that name if it is enforced for values of that type; others are ignored.
    pub(super) fn find(name: &str, ty: Option<JsonType>) -> Option<Self> {
        let kind = match ty {
            Some(JsonType::Integer) if name == "int32" => Kind::Int32,
            Some(JsonType::Integer) if name == "int64" => Kind::Int64,
            Some(JsonType::Number) if name == "float" => Kind::Float,
            Some(JsonType::Number) if name == "double" => Kind::Double,
            None | Some(JsonType::String) => Kind::Text(checker(&name.replace('-', ""))?),
            _ => return None,
        };
        Some(Self { name: name.to_owned(), kind })
    }

    /// The word in the schema.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns `true` if the text has the form; formats of numbers accept any text.
    pub fn accepts_text(&self, text: &str) -> bool {
        match self.kind {
            Kind::Text(check) => check(text),
            _ => true,
        }
    }

    /// Returns `true` if the number is in range; formats of texts accept any number.
    pub fn accepts_number(&self, number: f64) -> bool {
        match self.kind {
            Kind::Int32 => number >= f64::from(i32::MIN) && number <= f64::from(i32::MAX) && number.fract() == 0.0,
            Kind::Float => number.abs() <= f64::from(f32::MAX),
            Kind::Int64 | Kind::Double | Kind::Text(_) => true,
        }
    }
}

macro_rules! matches {
    ($name:ident, $pattern:expr) => {
        fn $name(text: &str) -> bool {
            static PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).expect("a constant pattern"));
            PATTERN.is_match(text)
        }
    };
}

matches!(is_uuid, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
matches!(is_uuid3, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
matches!(is_uuid4, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$");
matches!(is_uuid5, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$");
matches!(is_bson_id, "^[0-9a-fA-F]{24}$");
matches!(is_ssn, "^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$");
matches!(is_hex_color, "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
matches!(
    is_rgb_color,
    r"^rgb\( *(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5]) *, *(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5]) *, *(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5]) *\)$"
);
matches!(is_base64, "^(?:[A-Za-z0-9+\\\\/]{4})*(?:[A-Za-z0-9+\\\\/]{2}==|[A-Za-z0-9+\\\\/]{3}=|[A-Za-z0-9+\\\\/]{4})$");
matches!(
    is_mac,
    "^([0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){7}|[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){19}|[0-9a-fA-F]{4}([.][0-9a-fA-F]{4}){2}|[0-9a-fA-F]{4}([.][0-9a-fA-F]{4}){3}|[0-9a-fA-F]{4}([.][0-9a-fA-F]{4}){9})$"
);
matches!(is_email, r#"^([^<>@\s"]+|"[^"]*")@[^<>@\s]+$|^[^<>]*<([^<>@\s"]+|"[^"]*")@[^<>@\s]+>$"#);
matches!(is_date_form, "^[0-9]{4}-[0-9]{2}-[0-9]{2}$");
matches!(is_clock, "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$");
matches!(is_go_duration, r"^[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$");
matches!(
    is_scala_duration,
    r"^[0-9]+ *(ns|nano|nanos|nanosecond|nanoseconds|us|µs|micro|micros|microsecond|microseconds|ms|milli|millis|millisecond|milliseconds|s|sec|secs|second|seconds|m|min|mins|minute|minutes|h|hr|hrs|hour|hours|d|day|days|w|wk|wks|week|weeks)$"
);
matches!(is_short_name, "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$");
matches!(
    is_hostname_form,
    "^([a-zA-Z0-9]|[^\\x00-\\x7F])(-?([a-zA-Z0-9]|[^\\x00-\\x7F]){0,62})?$|^(([a-zA-Z0-9]|[^\\x00-\\x7F])(([a-zA-Z0-9-]|[^\\x00-\\x7F]){0,61}([a-zA-Z0-9]|[^\\x00-\\x7F]))?\\.)+([a-zA-Z]|[^\\x00-\\x7F]){2,63}$"
);

fn checker(name: &str) -> Option<fn(&str) -> bool> {
    Some(match name {
        "bsonobjectid" => is_bson_id,
        "uri" => is_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => |text| text.contains('.') && text.parse::<IpAddr>().is_ok(),
        "ipv6" => |text| text.contains(':') && text.parse::<IpAddr>().is_ok(),
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => is_uuid,
        "uuid3" => is_uuid3,
        "uuid4" => is_uuid4,
        "uuid5" => is_uuid5,
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => is_ssn,
        "hexcolor" => is_hex_color,
        "rgbcolor" => is_rgb_color,
        "byte" => is_base64,
        "password" => |_| true,
        "date" => is_date,
        "duration" => |text| is_go_duration(text) || is_scala_duration(text),
        "datetime" => is_date_time,
        "k8sshortname" => is_short_name,
        "k8slongname" => |text| text.len() <= 253 && text.split('.').all(is_short_name),
        _ => return None,
    })
}

fn is_date(text: &str) -> bool {
    is_date_form(text) && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((date, clock)) = lower.split_once('t') else { return false };
    let part = |range: std::ops::Range<usize>| clock.get(range).unwrap_or_default();
    is_date(date) && is_clock(clock) && part(0..2) <= "23" && part(3..5) <= "59" && part(6..8) <= "59"
}

fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let mut letters = scheme.bytes();
    letters.next().is_some_and(|b| b.is_ascii_alphabetic())
        && letters.all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        && rest.starts_with('/')
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && is_hostname_form(text) && text.split('.').all(|label| label.len() <= 63)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let max = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u32>().is_ok_and(|bits| bits <= max)
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|b| !b" -".contains(b)).collect();
    let [first @ .., last] = digits.as_slice() else { return false };
    if first.len() != 9 || !first.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X') {
        return false;
    }
    let value = |b: u8| if b == b'X' { 10 } else { u32::from(b - b'0') };
    (1..).zip(&digits).map(|(i, b)| i * value(*b)).sum::<u32>() % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|b| !b" -".contains(b)).collect();
    digits.len() == 13
        && digits.iter().all(u8::is_ascii_digit)
        && digits.iter().enumerate().map(|(i, b)| u32::from(b - b'0') * [1, 3][i % 2]).sum::<u32>() % 10 == 0
}

fn is_credit_card(text: &str) -> bool {
    static FORM: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new("^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$")
            .expect("a constant pattern")
    });
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, b)| match (u32::from(b - b'0'), i % 2) {
            (digit, 0) => digit,
            (digit, _) if digit > 4 => digit * 2 - 9,
            (digit, _) => digit * 2,
        })
        .sum();
    FORM.is_match(&digits) && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_formats() {
        for (name, good, bad) in [
            (
                "date-time",
                &["2024-01-02T03:04:05Z", "2024-01-02t03:04:05.5+01:00"][..],
                &["nope", "2024-01-02", "2024-01-02T24:00:00Z"][..],
            ),
            ("date", &["2024-02-29"], &["2023-02-29", "24-01-01"]),
            ("byte", &["YWJj", "YQ=="], &["YQ", "a", ""]),
            ("uuid", &["123e4567-e89b-12d3-a456-426614174000"], &["123"]),
            ("ipv4", &["10.0.0.1"], &["::1", "10.0.0"]),
            ("ipv6", &["::1"], &["10.0.0.1"]),
            ("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33"]),
            ("mac", &["01:23:45:67:89:ab"], &["01:23"]),
            ("hostname", &["a", "example.com", "1a.example.com"], &["-a", "a_b"]),
            ("email", &["a@b.c", "A <a@b.c>"], &["a", "a@", "a b@c"]),
            ("uri", &["https://a/b", "/a"], &["a", ""]),
            ("duration", &["1h30m", "22 ns", "0"], &["1", "h"]),
            ("password", &["x"], &[]),
            ("isbn10", &["0321751043"], &["0321751044"]),
            ("isbn13", &["978-0321751041"], &["978-0321751042"]),
            ("creditcard", &["4111 1111 1111 1111"], &["4111111111111112"]),
            ("ssn", &["111-22-3333"], &["111"]),
            ("hexcolor", &["#FFFFFF", "fff"], &["#ggg"]),
            ("rgbcolor", &["rgb(1,2,3)"], &["rgb(1,2,256)"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f"]),
            ("k8s-short-name", &["a-b"], &["A", "a."]),
            ("k8s-long-name", &["a.b-c"], &["a..b"]),
        ] {
            let format = Format::find(name, Some(JsonType::String)).expect(name);
            for text in good {
                assert!(format.accepts_text(text), "{name}: {text}");
            }
            for text in bad {
                assert!(!format.accepts_text(text), "{name}: {text}");
            }
        }
        assert!(Format::find("nonsense", Some(JsonType::String)).is_none());
        assert!(Format::find("int32", Some(JsonType::String)).is_none());
        let int32 = Format::find("int32", Some(JsonType::Integer)).expect("int32");
        assert!(int32.accepts_number(2_147_483_647.0) && !int32.accepts_number(2_147_483_648.0));
    }
}
