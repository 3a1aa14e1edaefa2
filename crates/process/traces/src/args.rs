//! Flags about traces.

/// Where traces are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct OtlpArgs {
    /// OpenTelemetry collector that gets traces of sampled changes, by OTLP over gRPC: http://host:port or https://host:port
    /// [default: no traces]
    #[arg(long, env = "GIMBAL_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
}

/// Where traces are sent, and of how many changes.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub struct TraceArgs {
    /// Where to.
    #[command(flatten)]
    pub otlp: OtlpArgs,
    /// Share of the changes that are traced, from 0 to 1; for --otlp-endpoint. The writer follows it
    #[arg(long, env = "GIMBAL_TRACE_RATIO", value_name = "RATIO", default_value = "0.01", value_parser = ratio,
          allow_negative_numbers = true)]
    pub trace_ratio: f64,
}

fn ratio(text: &str) -> Result<f64, &'static str> {
    let ratio: f64 = text.parse().map_err(|_| "it is no number")?;
    if (0.0..=1.0).contains(&ratio) { Ok(ratio) } else { Err("it is not between 0 and 1") }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::Traces;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        traces: TraceArgs,
    }

    fn of(flags: &[&str]) -> Result<TraceArgs, String> {
        let parsed = Flags::try_parse_from(std::iter::once(&"x").chain(flags));
        parsed.map(|flags| flags.traces).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_sent_unless_asked_for() {
        let args = of(&[]).unwrap();
        assert_eq!(args, TraceArgs { otlp: OtlpArgs { otlp_endpoint: None }, trace_ratio: 0.01 });
        assert!(!Traces::start(&args, ("x", "1")).unwrap().is_on());
        assert!(!Traces::follow(&args.otlp, ("x", "1")).unwrap().is_on());
    }

    #[test]
    fn a_ratio_is_a_share() {
        for (text, ratio) in [("0", 0.0), ("1", 1.0), ("0.25", 0.25), ("1e-3", 0.001)] {
            assert_eq!(of(&["--trace-ratio", text]).unwrap().trace_ratio.to_bits(), f64::to_bits(ratio), "{text}");
        }
        for text in ["1.1", "-0.1", "NaN", "half", ""] {
            let error = of(&["--trace-ratio", text]).unwrap_err();
            assert!(error.contains("--trace-ratio"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_address_that_is_not_usable_is_named() {
        for url in ["collector:4317", "ftp://collector", "http://", "https://a b", "http://a:1/v1/traces"] {
            let args = of(&["--otlp-endpoint", url]).unwrap();
            let exit = Traces::start(&args, ("x", "1")).unwrap_err();
            assert!(exit.line().starts_with("error: --otlp-endpoint"), "{}", exit.line());
            assert_eq!(exit.code(), 2);
        }
    }

    #[test]
    fn every_flag_has_a_variable() {
        use clap::CommandFactory;
        for arg in Flags::command().get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let expected = format!("GIMBAL_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(&*expected), "--{long}");
        }
    }
}
