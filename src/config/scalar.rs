//! What an unquoted word of YAML 1.2 is, by the core schema: nothing, a truth value, a number, or text.

use super::tree::Value;

/// The value that `text` stands for where it has no quotes.
pub(super) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    if let Some(whole) = whole_number(text) {
        return Value::Int(whole);
    }
    match float(text) {
        Some(number) => Value::Float(number, text.to_owned()),
        None => Value::Text(text.to_owned()),
    }
}

fn whole_number(text: &str) -> Option<i128> {
    if let Some(digits) = text.strip_prefix("0x") {
        return digits
            .bytes()
            .all(|b| b.is_ascii_hexdigit())
            .then(|| i128::from_str_radix(digits, 16).ok())?;
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return digits.bytes().all(|b| b.is_ascii_digit()).then(|| i128::from_str_radix(digits, 8).ok())?;
    }
    // Rust takes `+1` and `-1`, and nothing that the core schema doesn't.
    text.parse().ok()
}

fn float(text: &str) -> Option<f64> {
    let (sign, bare) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    match bare {
        ".inf" | ".Inf" | ".INF" => return Some(sign * f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" if bare == text => return Some(f64::NAN),
        _ => {}
    }
    // Rust's own reader also takes `inf`, `nan` and `infinity`, which are text here.
    let begins = bare.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
    if begins { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_look_like_something_else() {
        for text in [
            "yes",
            "no",
            "on",
            "off",
            "y",
            "n",
            "inf",
            "nan",
            "1_000",
            "45m",
            "1:30",
            "10.1.230.180",
            "-",
            "+",
            "0x",
            "0b1",
            "0o8",
            "e5",
            "..5",
            "infinity",
            "1e",
        ] {
            assert_eq!(resolve(text), Value::Text(text.to_owned()));
        }
        for (text, whole) in
            [("0", 0), ("30000", 30000), ("-1", -1), ("+7", 7), ("010", 10), ("0x1F", 31), ("0o17", 15)]
        {
            assert_eq!(resolve(text), Value::Int(whole), "{text}");
        }
        for (text, number) in
            [("0.80", 0.8), (".5", 0.5), ("1.", 1.0), ("-2e3", -2000.0), ("-.inf", f64::NEG_INFINITY)]
        {
            assert_eq!(resolve(text), Value::Float(number, text.to_owned()));
        }
        assert!(matches!(resolve(".nan"), Value::Float(number, _) if number.is_nan()));
        for text in ["", "~", "null", "NULL"] {
            assert_eq!(resolve(text), Value::Null, "{text:?}");
        }
        for (text, is) in [("true", true), ("False", false)] {
            assert_eq!(resolve(text), Value::Bool(is));
        }
        // Too large even for i128: still a number.
        assert!(matches!(resolve(&"9".repeat(60)), Value::Float(..)));
    }
}
