//! Durations as people write them: `30s`, `1h30m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error as _};

/// A duration that reads and prints like `30s`, `10m`, `1h30m` or `500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(pub Duration);

/// Text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no duration: {problem}; write it like 30s, 10m, 1h30m or 500ms")]
pub struct InvalidDuration {
    text: String,
    problem: &'static str,
}

/// From large to small, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl FromStr for HumanDuration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        let parsed = parse(text).map(|millis| Self(Duration::from_millis(millis)));
        parsed.map_err(|problem| InvalidDuration { text: text.to_owned(), problem })
    }
}

fn parse(text: &str) -> Result<u64, &'static str> {
    const TOO_LONG: &str = "it is too long";
    if text.is_empty() {
        return Err("it is empty");
    }
    let (mut rest, mut total, mut units) = (text, 0_u64, &UNITS[..]);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or("a number has no unit")?;
        let (number, after) = rest.split_at(digits);
        if number.is_empty() {
            return Err("a number is missing");
        }
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if !UNITS.iter().any(|(name, _)| *name == unit) {
            return Err("the unit is not one of d, h, m, s, ms");
        }
        // "30m1h" is more often a slip than a wish.
        let at = units.iter().position(|(name, _)| *name == unit).ok_or("its units do not go from large to small")?;
        let number: u64 = number.parse().map_err(|_| TOO_LONG)?;
        total = number.checked_mul(units[at].1).and_then(|millis| total.checked_add(millis)).ok_or(TOO_LONG)?;
        (rest, units) = (after, &units[at + 1..]);
    }
    Ok(total)
}

impl fmt::Display for HumanDuration {
    /// What is below a millisecond is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut millis = self.0.as_millis();
        if millis == 0 {
            return f.write_str("0s");
        }
        for (unit, length) in UNITS {
            let (whole, rest) = (millis / u128::from(length), millis % u128::from(length));
            if whole > 0 {
                write!(f, "{whole}{unit}")?;
            }
            millis = rest;
        }
        Ok(())
    }
}

impl From<HumanDuration> for Duration {
    fn from(duration: HumanDuration) -> Self {
        duration.0
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints() {
        for (text, millis, printed) in [
            ("30s", 30_000, "30s"),
            ("10m", 600_000, "10m"),
            ("1h30m", 5_400_000, "1h30m"),
            ("500ms", 500, "500ms"),
            ("1m500ms", 60_500, "1m500ms"),
            ("90s", 90_000, "1m30s"),
            ("2d", 172_800_000, "2d"),
            ("0s", 0, "0s"),
        ] {
            let duration: HumanDuration = text.parse().unwrap();
            assert_eq!(duration.0, Duration::from_millis(millis), "{text}");
            assert_eq!(duration.to_string(), printed);
            assert_eq!(printed.parse(), Ok(duration));
        }
    }

    #[test]
    fn refuses() {
        for (text, problem) in [
            ("", "empty"),
            ("30", "no unit"),
            ("s", "number is missing"),
            ("-5s", "number is missing"),
            ("1.5h", "unit is not one of"),
            ("5 s", "unit is not one of"),
            ("5é", "unit is not one of"),
            ("5minutes", "unit is not one of"),
            ("30m1h", "large to small"),
            ("1s1s", "large to small"),
            ("99999999999999999999s", "too long"),
            ("99999999999999999d", "too long"),
        ] {
            let error = text.parse::<HumanDuration>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
