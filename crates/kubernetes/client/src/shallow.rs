//! Leaves out what is nested too deeply to be read.
//!
//! The API server takes objects of thousands of levels where a schema keeps unknown fields, and serde_json reads 127. One such
//! object must not fail a list. No field that is read lies that deep.

/// The deepest level of arrays and objects that is kept.
const DEEPEST: usize = 100;

/// Returns JSON with `null` in place of every array and object below the deepest level that is kept; `None` if there is none.
pub(crate) fn shallow(json: &str) -> Option<String> {
    let mut kept = String::new();
    // Where the part begins that is kept, but not yet copied.
    let mut from = 0;
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => {
                depth += 1;
                if depth == DEEPEST + 1 {
                    kept.push_str(json.get(from..at)?);
                    kept.push_str("null");
                }
            }
            b']' | b'}' => {
                if depth == DEEPEST + 1 {
                    from = at + 1;
                }
                depth = depth.checked_sub(1)?;
            }
            _ => {}
        }
    }
    if from == 0 {
        return None;
    }
    kept.push_str(json.get(from..)?);
    Some(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn nested(levels: usize, inside: &str) -> String {
        format!("{}{inside}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn what_is_kept_is_as_before() {
        let flat = r#"{"a":[1,{"b":"]]}}\"[[{{"}],"c":"\\"}"#;
        assert_eq!(shallow(flat), None);
        assert_eq!(shallow(&nested(DEEPEST, "1")), None);
        let deep = format!(r#"{{"a":"[{{\"","b":{},"c":{flat}}}"#, nested(10_000, r#""]\"}""#));
        let read: Value = serde_json::from_str(&shallow(&deep).unwrap()).unwrap();
        assert_eq!((&read["a"], &read["c"]), (&json!("[{\""), &serde_json::from_str(flat).unwrap()));
        assert_eq!(read["b"].to_string(), nested(DEEPEST - 1, "null"));
    }

    #[test]
    fn each_deep_value_is_left_out() {
        let two = format!("[{},{{\"x\":{}}},7]", nested(200, "1"), nested(300, "2"));
        let read: Value = serde_json::from_str(&shallow(&two).unwrap()).unwrap();
        assert_eq!(read[0].to_string(), nested(DEEPEST - 1, "null"));
        assert_eq!(read[1]["x"].to_string(), nested(DEEPEST - 2, "null"));
        assert_eq!(read[2], 7);
    }

    #[test]
    fn what_is_no_json_is_not_mended() {
        for bad in ["]", "}", "[\"", "[1", &nested(200, "1")[..250]] {
            assert!(shallow(bad).is_none_or(|text| serde_json::from_str::<Value>(&text).is_err()), "{bad}");
        }
    }
}
