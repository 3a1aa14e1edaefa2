//! `gimbalctl why`: why a Service, or one address of it, is as it is. The writer is asked, and the discoverer of its backend if
//! one is named.

mod ends;
mod show;

use std::net::IpAddr;
use std::path::Path;

use clap::Args;
use gimbal_runtime::Exit;
use gimbal_transport::{Channel, Status};
use gimbal_wire::pb;
use pb::inspection_service_client::InspectionServiceClient;

use self::ends::{BothEnds, End};
use crate::output::{OutputForm, print, remark};
use crate::refusal::failed;
use crate::services::{ServiceRef, service_name};
use crate::{Args as ServerArgs, DIAL, backends, connect, connect_to, diff};

/// What is asked about, and whom.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The Service, or one address of it: named as in the source with --backend, else as in the Gimbal cluster
    #[arg(value_name = "NAMESPACE/NAME[/ADDRESS]", value_parser = asked_about)]
    about: AskedAbout,
    /// The backend
    #[arg(long, default_value = "", hide_default_value = true)]
    backend: String,
    /// The discoverer of the backend, which is asked, too: its URL, asked with --tls-cert and --tls-key, or the name of a context
    /// that has both [default: the one that the context in use names for the backend]
    #[arg(long, value_name = "URL|CONTEXT")]
    discoverer: Option<String>,
}

/// A Service, or one address of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AskedAbout {
    service: ServiceRef,
    address: Option<IpAddr>,
}

fn asked_about(text: &str) -> Result<AskedAbout, String> {
    let (named, address) = match text.match_indices('/').nth(1) {
        Some((at, _)) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let service = service_name(named).map_err(|why| format!("{why}, or as namespace/name/address"))?;
    let no_address = |text: &str| format!("{text:?} is no IP address");
    let address = address.map(|text| text.parse().map_err(|_| no_address(text))).transpose()?;
    Ok(AskedAbout { service, address })
}

/// Asks, and prints what was answered, and where the ends differ first.
///
/// # Errors
/// A server's refusal, or a connection that breaks; or neither end knows what is asked about.
pub async fn run(what: &WhyArgs, args: &ServerArgs, contexts: Option<&Path>) -> Result<(), Exit> {
    let channel = connect(args, DIAL).await?;
    let known = backends::check(channel.clone(), &what.backend).await?;
    let answer = explain(channel, what.request()).await.map_err(failed)?;
    let mut ends = BothEnds { address: what.about.address, ..BothEnds::default() };
    let Some(standing) = known.writer else {
        if what.discoverer.is_some() {
            return Err(Exit::Usage("--server is a discoverer: with --discoverer it has to be a writer".to_owned()));
        }
        let own = known.backends.first().map(|own| own.name.clone()).unwrap_or_default();
        ends.discoverer = Some(End::of(known.backends, &own, answer));
        return what.tell(&ends, args.output);
    };
    let source = what.source(&answer);
    ends.leading = standing.leading;
    ends.writer = Some(End::of(known.backends, &what.backend, answer));
    let named = what.discoverer.as_ref();
    let named = named.or_else(|| args.discoverers.get(source.as_ref().map_or("", |source| source.backend.as_str())));
    let asked = match (named, source) {
        (Some(named), Some(source)) => what.ask_discoverer(named, source, args, contexts).await.map(Some),
        (Some(_), None) => Err(Exit::Failure("of which backend it is is not known: --backend says so".to_owned())),
        (None, _) => {
            remark("only the writer is asked: --discoverer names the other end, too");
            Ok(None)
        }
    };
    // What the writer said is worth printing, even if the other end does not answer.
    let unasked = match asked {
        Ok(end) => {
            ends.discoverer = end;
            None
        }
        Err(error) => Some(error),
    };
    let told = what.tell(&ends, args.output);
    unasked.map_or(told, Err)
}

async fn explain(channel: Channel, request: pb::ExplainRequest) -> Result<pb::ExplainResponse, Status> {
    Ok(InspectionServiceClient::new(channel).explain(request).await?.into_inner())
}

impl WhyArgs {
    fn key(&self) -> pb::ServiceKey {
        let ServiceRef { namespace, name } = self.about.service.clone();
        pb::ServiceKey { namespace, name }
    }

    fn request(&self) -> pb::ExplainRequest {
        let object = match self.backend.as_str() {
            "" => pb::explain_request::Object::Target(self.key()),
            backend => {
                let (backend, key) = (backend.to_owned(), Some(self.key()));
                pb::explain_request::Object::Source(pb::SourceRef { backend, key })
            }
        };
        self.about(object)
    }

    fn about(&self, object: pb::explain_request::Object) -> pb::ExplainRequest {
        let address = self.about.address.map(|address| address.to_string()).unwrap_or_default();
        pb::ExplainRequest { object: Some(object), address }
    }

    /// Returns the Service in its source: as it was asked for, or as the writer knows it.
    fn source(&self, answer: &pb::ExplainResponse) -> Option<pb::SourceRef> {
        match self.backend.as_str() {
            "" => {
                let status = answer.service.as_ref()?;
                Some(pb::SourceRef { backend: status.backend.clone(), key: status.source.clone() })
            }
            backend => Some(pb::SourceRef { backend: backend.to_owned(), key: Some(self.key()) }),
        }
    }

    async fn ask_discoverer(
        &self,
        named: &str,
        source: pb::SourceRef,
        args: &ServerArgs,
        contexts: Option<&Path>,
    ) -> Result<End, Exit> {
        let (url, with) = diff::discoverer(named, args.given(), contexts)?;
        let channel = connect_to("--discoverer", &url, &with, DIAL).await?;
        let wrong = |why: String| Exit::Failure(format!("--discoverer {url}: {why}"));
        let refused = |status: Status| wrong(failed(status).to_string());
        let known = InspectionServiceClient::new(channel.clone()).list_backends(pb::ListBackendsRequest {}).await;
        let known = known.map_err(refused)?.into_inner();
        match known.backends.as_slice() {
            _ if known.writer.is_some() => return Err(wrong("it is a writer".to_owned())),
            [own] if own.name == source.backend => {}
            [own] => return Err(wrong(format!("it is of backend {}, not {}", own.name, source.backend))),
            _ => return Err(wrong("it is no discoverer, which has one backend".to_owned())),
        }
        let backend = source.backend.clone();
        let request = self.about(pb::explain_request::Object::Source(source));
        Ok(End::of(known.backends, &backend, explain(channel, request).await.map_err(refused)?))
    }

    /// Prints it. A script has to see that there is no such thing.
    fn tell(&self, ends: &BothEnds, output: OutputForm) -> Result<(), Exit> {
        print(&match output {
            OutputForm::Table => show::text(ends),
            OutputForm::Json => format!("{}\n", show::json(ends)),
        })?;
        let ServiceRef { namespace, name } = &self.about.service;
        if ends.is_nowhere() {
            // What was left out at the source is known to the discoverer alone, so this says nothing about the Service itself.
            return Err(Exit::Failure(match self.backend.as_str() {
                "" => format!("{namespace}/{name} in the Gimbal cluster is not known here as a Service of a backend"),
                backend => format!("{namespace}/{name} is not known here as a Service of backend {backend}"),
            }));
        }
        match self.about.address {
            Some(address) if ends.lacks_address() => {
                Err(Exit::Failure(format!("{address} is no address of {namespace}/{name}, as far as is known here")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_or_an_address_of_it() {
        let read = |text: &str| {
            let AskedAbout { service: ServiceRef { namespace, name }, address } = asked_about(text)?;
            Ok::<_, String>(format!("{namespace} {name} {}", address.map(|a| a.to_string()).unwrap_or_default()))
        };
        for (text, expected) in [
            ("team1/web", Ok("team1 web ")),
            ("team1/web/10.0.0.1", Ok("team1 web 10.0.0.1")),
            ("team1/web.v2/FD00:0::1", Ok("team1 web.v2 fd00::1")),
            ("team1", Err("write it as namespace/name, or as namespace/name/address")),
            ("Team1/web", Err("write it as namespace/name, or as namespace/name/address")),
            ("team1/web/", Err("\"\" is no IP address")),
            ("team1/web/10.0.0.1/80", Err("\"10.0.0.1/80\" is no IP address")),
        ] {
            assert_eq!(read(text), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }
}
