//! `gimbalctl adopt`: gives objects of the original Gimbal to the writer, by setting the writer's mark on them.
//!
//! The writer owns what carries its mark and nothing else (`docs/design.md#rule-3`). So that it may own what it did not make is a
//! person's decision, made with that person's credentials for the Gimbal cluster, after a dry run that names each object.
//!
//! A Service gets the mark first, and the writer makes its slices beside those that Kubernetes mirrors from the Endpoints. The
//! Endpoints get it once these slices have every ready endpoint of theirs, and the writer removes them.

mod cluster;
mod decide;
mod offers;
mod order;
mod ports;
mod ready;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use gimbal_model::BackendName;
use gimbal_runtime::Exit;

use self::cluster::GimbalCluster;
use self::decide::{Consent, Decided, Verdict, decide};
use self::offers::offers;
use self::order::AdoptionOrder;
use crate::Args as ServerArgs;
use crate::diff::Server;
use crate::output::{print, remark};

/// Time from one look to the next while the slices of the writer are waited for.
const BETWEEN: Duration = Duration::from_secs(1);

/// What to adopt, and how.
#[derive(Debug, Args)]
pub struct Adoption {
    /// The backend
    #[arg(long)]
    backend: BackendName,
    /// Credentials for the Gimbal cluster: may list Services, Endpoints and EndpointSlices, and patch the first two
    /// [default: those of kubectl]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Only print what would be taken, and the id for the second call
    #[arg(long, conflicts_with = "id", required_unless_present = "id")]
    dry_run: bool,
    /// The id that the dry run printed
    #[arg(long)]
    id: Option<String>,
    /// Also take Endpoints with ready endpoints that the source does not have any more: these end with them. Only what a dry run
    /// has named, so after their Services were taken
    #[arg(long)]
    drop_gone: bool,
    /// Also take Services of which a port gets another appProtocol than it has, or one at all
    #[arg(long)]
    change_app_protocol: bool,
    /// How long to wait for the slices of the writer
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    wait: u32,
}

/// Prints what would be taken, or takes it.
///
/// # Errors
/// The refusal of the writer or of the API server; something else would be taken than the id names; something is not taken yet.
pub async fn run(adoption: &Adoption, args: &ServerArgs) -> Result<(), Exit> {
    let cluster = GimbalCluster::of(adoption.kubeconfig.as_deref())?;
    let writer = Server::of("--server", args.server().to_owned(), &args.given()).await?;
    let sight = Sight { adoption, cluster, writer };
    let decided = sight.look().await?;
    let order = AdoptionOrder::of(&adoption.backend, &decided, adoption.consent());
    let Some(id) = &adoption.id else {
        return print(&order.dry_run(&decided, &adoption.again(), args.output));
    };
    if *id != order.id() {
        let command = adoption.again();
        return Err(Exit::Failure(format!(
            "it is no longer the same that would be taken: {command} --dry-run names it"
        )));
    }
    let left = sight.take(&order, decided).await?;
    print(&order.done(&left, args.output))?;
    let count = match left.len() {
        0 => return Ok(()),
        1 => "one object is".to_owned(),
        count => format!("{count} objects are"),
    };
    Err(Exit::Failure(format!("{count} not taken yet: {} --dry-run says what is next", adoption.again())))
}

impl Adoption {
    /// Returns the command without `--dry-run` or `--id`.
    fn again(&self) -> String {
        let mut command = format!("gimbalctl adopt --backend {}", self.backend);
        if let Some(file) = &self.kubeconfig {
            command.push_str(&format!(" --kubeconfig {}", file.display()));
        }
        for (given, flag) in [(self.drop_gone, " --drop-gone"), (self.change_app_protocol, " --change-app-protocol")] {
            if given {
                command.push_str(flag);
            }
        }
        command
    }

    fn consent(&self) -> Consent {
        Consent { drop_gone: self.drop_gone, change_app_protocol: self.change_app_protocol }
    }
}

/// The two servers that are asked.
struct Sight<'a> {
    adoption: &'a Adoption,
    cluster: GimbalCluster,
    writer: Server,
}

impl Sight<'_> {
    async fn look(&self) -> Result<Vec<Decided>, Exit> {
        let backend = &self.adoption.backend;
        // The writer first: what it says is published is in the slices that are listed after that.
        let (known, services) = self.writer.held_of(backend.as_str()).await?;
        Ok(decide(&self.cluster.find(backend).await?, &offers(&known, &services), self.adoption.consent()))
    }

    /// Sets the mark on everything of the order as soon as it may have it. Returns what still waits after the time is over.
    async fn take(&self, order: &AdoptionOrder, mut decided: Vec<Decided>) -> Result<Vec<Decided>, Exit> {
        let end = Instant::now() + Duration::from_secs(self.adoption.wait.into());
        let mut marked: BTreeSet<Arc<str>> = BTreeSet::new();
        loop {
            let mut left = Vec::new();
            for one in decided.into_iter().filter(|one| order.names(one)) {
                let Verdict::Take(taking) = &one.verdict else {
                    left.push(one);
                    continue;
                };
                if marked.contains(&one.meta.uid) {
                    return Err(lost_again(&one));
                }
                let done = match order.unnamed(&one.meta.uid, taking) {
                    None => self.cluster.mark(&one, &self.adoption.backend, taking).await,
                    Some(change) => Err(format!("no dry run has named this: {change}")),
                };
                // One that cannot be taken keeps no other.
                match done {
                    Ok(()) => drop(marked.insert(one.meta.uid)),
                    Err(why) => left.push(Decided { verdict: Verdict::Wait(why), ..one }),
                }
            }
            if left.is_empty() {
                return Ok(left);
            }
            decided = loop {
                if Instant::now() + BETWEEN > end {
                    return Ok(left);
                }
                tokio::time::sleep(BETWEEN).await;
                match self.look().await {
                    Ok(decided) => break decided,
                    Err(error) => remark(&format!("it is looked again: {error}")),
                }
            };
        }
    }
}

/// The original writes its objects as a whole, so that labels of others are gone.
fn lost_again(one: &Decided) -> Exit {
    let (kind, meta) = (one.kind.kind, &one.meta);
    Exit::Failure(format!(
        "{kind} {}/{} has lost the mark again: the original's discoverer still runs, stop it first",
        meta.namespace, meta.name
    ))
}
