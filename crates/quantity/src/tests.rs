use num_bigint::BigInt;
use proptest::prelude::*;

use crate::{Amount, EXPONENT_MAX, Format, Malformed, Quantity, TEXT_BYTES_MAX};

fn amount(text: &str) -> Amount {
    Amount::parse(text).expect(text)
}

#[test]
fn canonical_forms() {
    for (text, want) in [
        ("0", "0"),
        ("0Mi", "0"),
        ("-0", "0"),
        ("1", "1"),
        ("+1", "1"),
        ("-1", "-1"),
        ("1.", "1"),
        (".5", "500m"),
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("2000", "2k"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("12e-1", "1200e-3"),
        ("1e0", "1"),
        ("1E", "1E"),
        ("1000E", "1000E"),
        ("1024", "1024"),
        ("1Ki", "1Ki"),
        ("1024Ki", "1Mi"),
        ("1023Ki", "1023Ki"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("0.0001Ki", "102400u"),
        ("1000Ki", "1000Ki"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775808"),
        ("8Ei", "9223372036854775807"),
        ("-8Ei", "-9223372036854775807"),
        ("7Ei", "7Ei"),
        ("1e1000", "10e999"),
        ("1e-999999999999", "1e-9"),
        ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
    ] {
        assert_eq!(amount(text).to_string(), want, "{text}");
    }
}

#[test]
fn stored_forms() {
    for (text, want) in [
        ("0", "0"),
        ("0m", "0"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("1.234", "1.234"),
        ("1024Mi", "1Gi"),
        ("1025Ki", "1025Ki"),
        ("1.5Gi", "1536Mi"),
        ("1000", "1k"),
        ("100", "100"),
        ("1000000", "1M"),
        ("128974848", "128974848"),
        ("129e6", "129e6"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("1E3", "1E3"),
        ("0.0000000001", "1n"),
        ("-1.5", "-1500m"),
        ("+5", "+5"),
        ("16Ei", "9223372036854775807"),
        (".5", "500m"),
        ("5.", "5."),
        ("1000E", "1000E"),
    ] {
        assert_eq!(Quantity::parse(text).expect(text).to_string(), want, "{text}");
    }
}

#[test]
fn malformed_texts() {
    let long = "1".repeat(TEXT_BYTES_MAX + 1);
    for (text, want) in [
        ("", Malformed::Format),
        ("abc", Malformed::Format),
        ("1.2.3", Malformed::Format),
        ("1..2", Malformed::Format),
        ("1 ", Malformed::Format),
        (" 1", Malformed::Format),
        ("1x", Malformed::Format),
        ("1,5", Malformed::Format),
        ("0x10", Malformed::Format),
        ("1e1.5", Malformed::Format),
        ("1iK", Malformed::Suffix),
        ("1mm", Malformed::Suffix),
        ("1mi", Malformed::Suffix),
        ("1KI", Malformed::Format),
        ("1e", Malformed::Suffix),
        ("1e+", Malformed::Suffix),
        ("1e1001", Malformed::Suffix),
        ("1e999999999999999999999", Malformed::Suffix),
        ("123456789012345678901234567890123456789", Malformed::Numeric),
        (&long, Malformed::Numeric),
    ] {
        assert_eq!(Amount::parse(text).expect_err(text).reason, want, "{text}");
    }
    assert_eq!(
        Amount::parse("two").expect_err("no number").to_string(),
        "\"two\" is not a quantity: a number with an optional suffix such as m, k, M, Gi or e3 is needed"
    );
    assert!(Amount::parse(&format!("{}1", "0".repeat(TEXT_BYTES_MAX - 1))).is_ok(), "leading zeros are no digits");
}

#[test]
fn values_round_away_from_zero_and_saturate() {
    for (text, value, milli) in [
        ("1", 1, 1000),
        ("1100m", 2, 1100),
        ("-1100m", -2, -1100),
        ("1u", 1, 1),
        ("0", 0, 0),
        ("1Gi", 1 << 30, 1000 << 30),
        ("9223372036854775807", i64::MAX, i64::MAX),
        ("1e100", i64::MAX, i64::MAX),
        ("-1e100", i64::MIN, i64::MIN),
    ] {
        assert_eq!((amount(text).value(), amount(text).milli_value()), (value, milli), "{text}");
    }
    assert!(amount("1e100").is_whole() && amount("2000m").is_whole() && !amount("1500m").is_whole());
    assert_eq!((amount("1500m").to_f64(), amount("-1e100").to_f64()), (1.5, -1e100));
}

#[test]
fn arithmetic() {
    for (name, got, want) in [
        ("a sum has the format of the left side", amount("1Gi") + amount("1024"), "1048577Ki"),
        ("the right side gives the format if the left one is zero", Amount::ZERO + amount("1Gi"), "1Gi"),
        ("differences may be negative", amount("1") - amount("1500m"), "-500m"),
        ("products", amount("250m") * 3, "750m"),
        ("sums", ["1", "500m", "500m"].iter().map(|t| amount(t)).sum(), "2"),
        ("products beyond 128 bits", amount("1e100") * 1_000, "10e102"),
    ] {
        assert_eq!(got.to_string(), want, "{name}");
    }
    for (less, more) in
        [("999m", "1"), ("1k", "1Ki"), ("-2", "-1"), ("-1", "0"), ("1n", "1e100"), ("-1e100", "-1n"), ("1e99", "1e100")]
    {
        assert!(amount(less) < amount(more), "{less} < {more}");
    }
    assert_eq!(amount("1k"), amount("1000"));
    for (all, one, want) in [
        ("4", "1500m", Some(2)),
        ("-1", "1", Some(-1)),
        ("4", "0", None),
        ("4", "-1", None),
        ("1", "1e100", Some(0)),
        ("1e100", "1", Some(i64::MAX)),
    ] {
        assert_eq!(amount(all).times(amount(one)), want, "{all} / {one}");
    }
}

/// The number in billionths, rounded away from zero, computed with big integers.
fn nanos(negative: bool, integer: &str, fraction: &str, suffix: &str) -> BigInt {
    let ten = |exponent: u32| BigInt::from(10).pow(exponent);
    let digits: BigInt = format!("0{integer}{fraction}").parse().expect("digits");
    let (mut numerator, mut divisor) = (digits * ten(9), ten(fraction.len() as u32));
    match suffix {
        "n" => divisor *= ten(9),
        "u" => divisor *= ten(6),
        "m" => divisor *= ten(3),
        "" => {}
        "k" => numerator *= ten(3),
        "E" => numerator *= ten(18),
        "Ki" => numerator <<= 10,
        "Gi" => numerator <<= 30,
        "Ei" => numerator <<= 60,
        exponent => match exponent[1..].parse::<i32>().expect("an exponent") {
            n @ 0.. => numerator *= ten(n as u32),
            n => divisor *= ten(n.unsigned_abs()),
        },
    }
    let mut nanos: BigInt = (numerator + &divisor - 1) / divisor;
    if suffix.ends_with('i') {
        nanos = nanos.min(BigInt::from(i64::MAX) * ten(9));
    }
    if negative { -nanos } else { nanos }
}

fn big(amount: Amount) -> BigInt {
    let text = amount.with_format(Format::DecimalExponent).to_string();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().expect("an exponent");
    mantissa.parse::<BigInt>().expect("a mantissa") * BigInt::from(10).pow((exponent + 9) as u32)
}

const SUFFIX: &str = "n|u|m|k|E|Ki|Gi|Ei|e-?[0-9]{1,2}|";

proptest! {
    #[test]
    fn parsing_agrees_with_big_integers(
        negative: bool,
        integer in "[0-9]{0,18}",
        fraction in "[0-9]{0,40}",
        suffix in SUFFIX,
    ) {
        let text = format!("{}{integer}.{fraction}{suffix}", if negative { "-" } else { "" });
        if let Ok(amount) = Amount::parse(&text) {
            prop_assert_eq!(big(amount), nanos(negative, &integer, &fraction, &suffix), "{}", text);
        }
    }

    #[test]
    fn arithmetic_agrees_with_big_integers(
        a in "-?[0-9]{1,15}(\\.[0-9]{1,9})?(m|k|Gi|)",
        b in "-?[0-9]{1,15}(\\.[0-9]{1,9})?(m|k|Gi|)",
        factor in -1_000_000..1_000_000_i64,
    ) {
        let (a, b) = (amount(&a), amount(&b));
        prop_assert_eq!(big(a + b), big(a) + big(b));
        prop_assert_eq!(big(a - b), big(a) - big(b));
        prop_assert_eq!(a.cmp(&b), big(a).cmp(&big(b)));
        if big(a).magnitude().bits() < 100 {
            prop_assert_eq!(big(a * factor), big(a) * factor);
        }
    }

    #[test]
    fn order_agrees_with_big_integers(a in "-?[0-9]{1,30}(e[0-9]{1,3})?", b in "-?[0-9]{1,30}(e[0-9]{1,3})?") {
        let (a, b) = (amount(&a), amount(&b));
        prop_assert_eq!(a.cmp(&b), big(a).cmp(&big(b)));
        let sum = big(a + b);
        let exact = big(a) + big(b);
        let off = if sum > exact { &sum - &exact } else { &exact - &sum };
        prop_assert!(off.bits() + 118 <= exact.bits().max(big(a).bits()).max(big(b).bits()).max(118));
    }

    #[test]
    fn printed_text_reads_back_and_is_stable(text in "[+-]?[0-9]{0,20}(\\.[0-9]{0,12})?(n|u|m|k|M|E|Ki|Mi|Ei|e[0-9]|E-?[0-9]{1,3}|)") {
        if let Ok(quantity) = Quantity::parse(&text) {
            for printed in [quantity.to_string(), Amount::to_string(&quantity)] {
                let again = Quantity::parse(&printed).expect("a printed quantity");
                prop_assert_eq!(&again, &quantity, "{} as {}", text, printed);
                prop_assert_eq!(again.to_string(), printed);
            }
        }
    }

    #[test]
    fn no_text_panics(text in ".{0,20}|[-+.0-9eEinumkKMGTP]{0,300}") {
        if let Ok(amount) = Amount::parse(&text) {
            let _ = (amount.to_string(), amount.value(), (amount + amount).to_string(), amount * i64::MIN);
            let _ = (amount.times(amount), -amount - Amount::from_milli(1), amount.to_f64());
        }
    }

    #[test]
    fn exponents_are_bounded(exponent in EXPONENT_MAX - 2..EXPONENT_MAX + 3) {
        prop_assert_eq!(Amount::parse(&format!("1e{exponent}")).is_ok(), exponent <= EXPONENT_MAX);
    }
}
