//! Certificates for Gimbal's programs, where no cert-manager makes them. Nothing here asks a server.

mod authority;
mod issue;
mod pair;
mod show;

pub use pair::replace_files;
pub use show::ShownCertificate;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use gimbal_runtime::Exit;
use rustls_pki_types::DnsName;

use crate::output::OutputForm;

const DAY: Duration = Duration::from_secs(86_400);

#[derive(Debug, Subcommand)]
pub enum CertsCommand {
    /// Makes an authority: ca.crt, which both ends of a stream must trust, and ca.key, which signs and is to be kept away from clusters
    Authority {
        /// The folder that they are written into
        #[arg(long, value_name = "DIR", default_value = "authority")]
        dir: PathBuf,
        /// Name of the authority, which no other one should have [default: gimbal-ca- and some digits of its own]
        #[arg(long)]
        name: Option<String>,
        /// Days until it ends
        #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: u32,
    },
    /// Makes the pair of a program, signed by an authority: tls.crt, tls.key and ca.crt in a folder of that name
    Issue(IssueArgs),
    /// Prints what certificates say, and when they end
    Show {
        /// Certificates (PEM); of a file with several, each
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("names").required(true).multiple(true))]
pub struct IssueArgs {
    /// Name of the program or backend: that of the folder
    #[arg(value_parser = folder_name)]
    name: String,
    /// An identity, as the configuration of the other end names it, for instance spiffe://gimbal.example/backend/node02
    #[arg(long, value_name = "URI", group = "names", value_parser = uri)]
    uri: Vec<String>,
    /// A name that others dial, or that the configuration of the other end names
    #[arg(long, value_name = "NAME", group = "names", value_parser = dns_name)]
    dns: Vec<String>,
    /// An address that others dial
    #[arg(long, value_name = "ADDRESS", group = "names")]
    ip: Vec<IpAddr>,
    /// Days until it ends; it never outlives the authority
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// The folder with ca.crt and ca.key
    #[arg(long, value_name = "DIR", default_value = "authority")]
    authority: PathBuf,
    /// The folder in which the pair's folder is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Prints the command that makes this Secret of the pair, or changes it
    #[arg(long, value_name = "NAME", value_parser = folder_name)]
    secret: Option<String>,
    /// Namespace of the Secret
    #[arg(long, default_value = "gimbal", value_parser = folder_name)]
    namespace: String,
    /// Certificates of further authorities for its ca.crt, while one takes the place of another
    #[arg(long, value_name = "FILE")]
    trust: Vec<PathBuf>,
    /// Replaces the pair that is there
    #[arg(long)]
    replace: bool,
}

/// Runs a command.
///
/// # Errors
/// A file cannot be read or written, or is there already.
pub fn run(command: &CertsCommand, output: OutputForm) -> Result<(), Exit> {
    match command {
        CertsCommand::Authority { dir, name, days } => authority::make(dir, name.as_deref(), *days),
        CertsCommand::Issue(args) => issue::issue(args),
        CertsCommand::Show { files } => show::show(files, output),
    }
}

fn folder_name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '_');
    if text.is_empty() || text.starts_with('.') || !text.chars().all(is_plain) {
        return Err("has other characters than lower-case letters, digits, dots, hyphens and underscores".into());
    }
    Ok(text.into())
}

fn uri(text: &str) -> Result<String, String> {
    let (scheme, rest) = text.split_once("://").ok_or("has no scheme, as in spiffe://gimbal.example/backend/node02")?;
    let is_visible = |c: char| c.is_ascii_graphic();
    if scheme.is_empty() || rest.is_empty() || !text.chars().all(is_visible) {
        return Err("is not a URI of visible ASCII characters".into());
    }
    Ok(text.into())
}

fn dns_name(text: &str) -> Result<String, String> {
    match DnsName::try_from(text.strip_prefix("*.").unwrap_or(text)) {
        Ok(_) => Ok(text.into()),
        Err(_) => Err("is not a DNS name".into()),
    }
}
