//! How long a change takes until Envoy has it, through Gimbal and Contour, beside changes made by hand in the Gimbal cluster. Each
//! Service that Gimbal publishes has a second slice, which Gimbal does not know, so that both are the same work for Contour. They
//! alternate, as in `latency`. Nothing has a route to anywhere, for Envoy would send requests to whatever is an endpoint.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_kubernetes_client::{Cluster, WatchScope};
use gimbal_kubernetes_objects::{EndpointSlice, Meta, keys};
use gimbal_testkit::assets::{Asset, ENVOY};
use gimbal_testkit::{Contour, again_without_network, contour, eventually};
use gimbal_tests::{Discoverer, Scene, Writer};
use serde_json::json;

use crate::change::{Delays, Eyes, Load, OTHER, address};
use crate::figure::{Figure, Outcome};
use crate::fill::{Lot, fill_namespace, name};
use crate::plot::Plot;
use crate::proc::Usage;
use crate::sight::Sight;
use crate::{Context, content, discovery, raw};

const PATIENCE: Duration = Duration::from_secs(120);
/// Endpoints of each slice; each Service has two.
const ENDPOINTS: u32 = 10;
const NAMESPACE: &str = "ours";
const BACKEND: &str = "bench";
/// Above every address of a change and of [`crate::fill`]: 172.16.0.0.
const BY_HAND: u32 = 0xac10_0000;
/// How long a change waits at most where changes are batched.
const BATCH_PERIOD: &str = "200ms";

/// A rate of changes, of all Services or of a few.
#[derive(Clone, Copy)]
struct Pace {
    name: &'static str,
    plot: &'static str,
    a_second: u32,
    /// How many Services change.
    of: usize,
}

/// Everything that runs.
struct Stand {
    scene: Scene,
    contour: Contour,
    ours: Load,
    by_hand: Load,
    api: Eyes,
    envoy: Eyes,
    /// The number of the next change.
    next: u32,
    context: Context,
}

/// Discoverer and writer.
struct Programs {
    discoverer: Discoverer,
    writer: Writer,
}

/// Processor time of each part.
#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    programs: Duration,
    contour: Duration,
    envoy: Duration,
    servers: Duration,
}

/// What came of the changes of one side.
#[derive(Default)]
struct Taken {
    /// Until the Gimbal cluster has a change.
    api: Delays,
    /// Until Envoy has it.
    envoy: Delays,
    cpu: Cpu,
}

/// Runs the program again for this scenario where there is no network. Returns whether this is already there.
///
/// # Errors
/// Contour or Envoy cannot be had, there are no namespaces, or the scenario fails.
pub fn is_alone(args: &[String]) -> anyhow::Result<bool> {
    let prepare = || {
        for name in ["gimbal-writer", "gimbal-kubernetes-discoverer"] {
            gimbal_testkit::process::binary(name)?;
        }
        Contour::prepare()
    };
    again_without_network(args, prepare)
}

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let services = context.scaled(500);
    let few = (services / 50).max(1);
    let every = |name, plot, a_second| Pace { name, plot, a_second, of: services };
    let paces = [
        every("at 10/s", "10", 10),
        every("at 50/s", "50", 50),
        every("at 100/s", "100", 100),
        every("at 200/s", "200", 200),
    ];
    // More than two cores take, so that a time would say how long the queue got.
    let full = every("at 300/s", "", 300);
    let busy = Pace { name: "at 200/s of few", plot: "batched", a_second: 200, of: few };

    let (mut stand, mut programs) = Stand::start(context, services).await?;
    let mut measured = Vec::new();
    for pace in &paces {
        measured.push(stand.measure(&programs, pace).await?);
    }
    let (full_ours, full_by_hand) = stand.measure(&programs, &full).await?;
    let (single, by_hand) = stand.measure(&programs, &busy).await?;
    programs = stand.begin_again(programs).await?;
    let batched = stand.turns(&programs, &busy, &[Side::Ours]).await?.0;
    stand.compare().await?;

    let sides = || paces.iter().zip(&measured);
    let mut figures: Vec<Figure> = sides()
        .flat_map(|(pace, (ours, by_hand))| [times(pace, ours, by_hand), costs(pace, ours, by_hand)].concat())
        .collect();
    figures.extend(costs(&full, &full_ours, &full_by_hand));
    figures.extend(times(&busy, &single, &by_hand));
    figures.extend(costs(&busy, &single, &by_hand));
    figures.extend(batches(&busy, &single, &batched));
    let mut plots: Vec<Plot> = sides().map(|(pace, (ours, by_hand))| plot(pace, ours, by_hand)).collect();
    plots.push(Plot {
        name: busy.plot,
        title: format!("Time of a change until Envoy has it, 200/s of {few} Services"),
        x: "percent of the changes",
        y: "milliseconds",
        lines: vec![
            ("each is written".to_owned(), single.envoy.times().curve()),
            (format!("batches of {BATCH_PERIOD}"), batched.envoy.times().curve()),
            ("by hand".to_owned(), by_hand.envoy.times().curve()),
        ],
    });
    let counts: Vec<String> =
        sides().map(|(pace, (ours, _))| format!("{} {}", ours.envoy.times().len(), pace.name)).collect();
    Ok(Outcome {
        figures,
        plots,
        notes: vec![
            format!(
                "{services} Services, each with a slice of {ENDPOINTS} endpoints from a source and one of as many made by hand, led to \
                 by an HTTPProxy each, Contour {} and Envoy {}; one endpoint replaced by a change",
                Asset::Contour.version(),
                ENVOY,
            ),
            "from the answer to whoever made the change (of the source; by hand, of the Gimbal cluster) until Envoy answers Contour that \
             it uses the endpoints, seen by a relay between both, or newer ones of the same Service"
                .to_owned(),
            format!("changes of each side: {}", counts.join(", ")),
            format!(
                "of few: of {few} Services, so that one changes {} times a second; batched with \
                 --endpointslice-updates-batch-period={BATCH_PERIOD}, after the others and with the writer started anew",
                200 / few
            ),
            "CPU of a change includes what the other side's programs hear of it; at 300/s the cores are full, so only it is shown"
                .to_owned(),
        ],
        ..Outcome::default()
    })
}

/// Who makes a change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Ours,
    ByHand,
}

impl Stand {
    async fn start(context: &Context, services: usize) -> anyhow::Result<(Self, Programs)> {
        let scene = Scene::start().await?;
        let lot = Lot { prefix: "web", services, endpoints: ENDPOINTS };
        fill_namespace(&scene.source, NAMESPACE, lot).await?;
        scene.gimbal.namespace(NAMESPACE).await?;
        let (asks_at, envoy) = discovery::relay(contour::DISCOVERY).await?;
        let contour = Contour::start_behind(&scene.gimbal, asks_at).await?;
        let mut sight = Sight::open(&scene.gimbal.client()?);
        let programs = Programs::start(&scene, &[]).await?;
        sight.span(services * 2, PATIENCE).await?;
        drop(sight);
        let hands = raw::hands(&scene.gimbal).await?;
        make_by_hand(&hands).await?;
        let proxies = format!("/apis/projectcontour.io/v1/namespaces/{NAMESPACE}/httpproxies");
        let routes = (0..services).map(|number| {
            let name = name(lot, number);
            let service = json!({"name": format!("{BACKEND}-{name}"), "port": 80});
            let host = format!("{name}.example");
            let proxy = json!({
                "apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy", "metadata": {"name": host},
                "spec": {"virtualhost": {"fqdn": host}, "routes": [{"services": [service]}]},
            });
            let (scene, proxies) = (&scene, &proxies);
            async move { scene.gimbal.admin().post(proxies, &proxy).await.map(drop) }
        });
        stream::iter(routes).buffer_unordered(32).try_collect::<Vec<()>>().await?;
        let wanted = services * 2 * ENDPOINTS as usize;
        eventually("Envoy has all endpoints", PATIENCE, async || {
            let there = contour.all_endpoints().await?.len();
            anyhow::ensure!(there >= wanted, "{there} of {wanted}; {}", contour.logs());
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let ours = Load::on(&scene.source.client()?, NAMESPACE).await?;
        let by_hand = Load::of(&hands, &slices_of(OTHER)).await?;
        let api = Eyes::open(&scene.gimbal.client()?, Some(NAMESPACE)).await?;
        Ok((Self { scene, contour, ours, by_hand, api, envoy, next: 0, context: context.clone() }, programs))
    }

    /// Starts discoverer and writer again, so that changes are batched.
    async fn begin_again(&mut self, programs: Programs) -> anyhow::Result<Programs> {
        drop(programs);
        let programs = Programs::start(&self.scene, &["--endpointslice-updates-batch-period", BATCH_PERIOD]).await?;
        // A change that arrives tells that all is as before.
        let warm = Pace { name: "warm", plot: "", a_second: 10, of: 1 };
        self.turn(&programs, &warm, Side::Ours, &mut Taken::default()).await?;
        Ok(programs)
    }

    /// Returns what came of the changes of both sides.
    async fn measure(&mut self, programs: &Programs, pace: &Pace) -> anyhow::Result<(Taken, Taken)> {
        // Measures only once connections are open and caches are warm.
        if self.next == 0 {
            for side in [Side::ByHand, Side::Ours] {
                self.turn(programs, pace, side, &mut Taken::default()).await?;
            }
        }
        self.turns(programs, pace, &[Side::Ours, Side::ByHand]).await
    }

    async fn turns(&mut self, programs: &Programs, pace: &Pace, sides: &[Side]) -> anyhow::Result<(Taken, Taken)> {
        let (mut ours, mut by_hand) = (Taken::default(), Taken::default());
        for _ in 0..4 {
            for side in sides {
                let taken = if *side == Side::Ours { &mut ours } else { &mut by_hand };
                self.turn(programs, pace, *side, taken).await?;
            }
        }
        self.check().await?;
        Ok((ours, by_hand))
    }

    /// Makes changes for a few seconds, and waits until Envoy has them.
    async fn turn(&mut self, programs: &Programs, pace: &Pace, side: Side, taken: &mut Taken) -> anyhow::Result<()> {
        let seconds = if pace.a_second <= 10 { 5 } else { 3 };
        let count = u32::try_from(self.context.scaled((pace.a_second * seconds) as usize))?;
        let before = self.cpu(programs)?;
        let load = if side == Side::Ours { &mut self.ours } else { &mut self.by_hand };
        load.among(pace.of);
        let changes = load.run(self.next, count, Duration::from_secs(1) / pace.a_second).await?;
        self.next += count;
        let (api, envoy) = (self.api.all(&changes, PATIENCE).await?, self.envoy.all(&changes, PATIENCE).await?);
        taken.api.extend(Delays::of(&changes, &api));
        taken.envoy.extend(Delays::of(&changes, &envoy));
        taken.cpu.add_since(before, self.cpu(programs)?);
        Ok(())
    }

    /// Checks by Envoy's own word that it has the last change, which the relay saw it take in.
    async fn check(&self) -> anyhow::Result<()> {
        let wanted = format!("{}:", address(self.next - 1));
        let there = self.contour.all_endpoints().await?;
        anyhow::ensure!(there.iter().any(|host| host.starts_with(&wanted)), "Envoy does not have {wanted}");
        Ok(())
    }

    fn cpu(&self, programs: &Programs) -> anyhow::Result<Cpu> {
        let sum = |ids: &[u32]| ids.iter().map(|id| Ok(Usage::of(*id)?.cpu)).sum::<anyhow::Result<Duration>>();
        let [contour, envoy] = self.contour.ids();
        Ok(Cpu {
            programs: sum(&[programs.discoverer.process.id(), programs.writer.process.id()])?,
            contour: sum(&[contour])?,
            envoy: sum(&[envoy])?,
            servers: sum(&[self.scene.source.api_server()?, self.scene.gimbal.api_server()?])?,
        })
    }

    /// Checks that the Gimbal cluster ends as the source is.
    async fn compare(&self) -> anyhow::Result<()> {
        let wanted = content::offered(&self.scene.source.client()?, BACKEND).await?;
        content::same(&content::published(&self.scene.gimbal.client()?).await?, &wanted)
    }
}

impl Programs {
    async fn start(scene: &Scene, args: &[&str]) -> anyhow::Result<Self> {
        let args = [&["--write-concurrency", "64"][..], args].concat();
        let writer = scene.writer(&scene.config(&[BACKEND], "")?, &args).await?;
        let discoverer = scene.discoverer(BACKEND, &scene.source, writer.port, &[])?;
        discoverer.ready().await?;
        Ok(Self { discoverer, writer })
    }
}

impl Cpu {
    fn add_since(&mut self, before: Self, now: Self) {
        let pairs = [
            (&mut self.programs, before.programs, now.programs),
            (&mut self.contour, before.contour, now.contour),
            (&mut self.envoy, before.envoy, now.envoy),
            (&mut self.servers, before.servers, now.servers),
        ];
        for (sum, before, now) in pairs {
            *sum += now.saturating_sub(before);
        }
    }
}

impl Taken {
    /// Returns microseconds of processor time per change.
    fn a_change(&self, cpu: Duration) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let changes = self.envoy.times().len().max(1) as f64;
        cpu.as_secs_f64() * 1e6 / changes
    }
}

/// Selects the slices of a manager.
fn slices_of(manager: &str) -> WatchScope {
    let label_selector = Some(format!("{}={manager}", keys::SLICE_MANAGED_BY));
    WatchScope { namespace: Some(NAMESPACE.to_owned()), label_selector, ..WatchScope::default() }
}

/// Gives each Service that Gimbal publishes a second slice with as many endpoints, which Gimbal does not know.
async fn make_by_hand(hands: &Cluster) -> anyhow::Result<()> {
    let slices = hands.list::<EndpointSlice>(&slices_of(keys::MANAGER)).await?;
    let second = slices.into_iter().map(|mut slice| {
        let service = slice.metadata.labels.get(keys::SERVICE_NAME).cloned().unwrap_or_default();
        let labels = [(keys::SERVICE_NAME.into(), service.clone()), (keys::SLICE_MANAGED_BY.into(), OTHER.into())];
        slice.metadata = Meta {
            name: format!("{service}-by-hand").into(),
            namespace: NAMESPACE.into(),
            labels: labels.into(),
            ..Meta::default()
        };
        for address in slice.endpoints.iter_mut().flat_map(|endpoint| &mut endpoint.addresses) {
            let number = address.parse::<Ipv4Addr>().map(u32::from).unwrap_or_default() & 0x000f_ffff;
            *address = Ipv4Addr::from(BY_HAND | number).to_string().into();
        }
        async move { hands.create(&slice).await }
    });
    stream::iter(second).buffer_unordered(32).try_collect::<Vec<_>>().await?;
    Ok(())
}

fn times(pace: &Pace, ours: &Taken, by_hand: &Taken) -> Vec<Figure> {
    let of = |percent: f64| {
        let value = |delays: &Delays| delays.times().percentile(percent);
        let to = |what: &str, delays: &Delays| {
            Figure::new(format!("p{percent} to {what}, {}", pace.name), value(delays), "ms")
        };
        [to("Envoy", &ours.envoy).floor("by hand", value(&by_hand.envoy)), to("the API server", &ours.api)]
    };
    [50.0, 99.0].into_iter().flat_map(of).collect()
}

fn costs(pace: &Pace, ours: &Taken, by_hand: &Taken) -> Vec<Figure> {
    let cost = |part: &str, of: fn(&Cpu) -> Duration| {
        let value = |taken: &Taken| taken.a_change(of(&taken.cpu));
        let figure = Figure::new(format!("CPU of a change, {part}, {}", pace.name), value(ours), "us");
        (figure, value(by_hand))
    };
    let beside = |(figure, by_hand): (Figure, f64)| figure.floor("by hand", by_hand);
    vec![
        // By hand they have nothing to do.
        cost("discoverer and writer", |cpu| cpu.programs).0,
        beside(cost("API servers", |cpu| cpu.servers)),
        beside(cost("Contour", |cpu| cpu.contour)),
        beside(cost("Envoy", |cpu| cpu.envoy)),
    ]
}

/// Of few Services that change all the time: batches, and each change written.
fn batches(pace: &Pace, single: &Taken, batched: &Taken) -> Vec<Figure> {
    let figure = |what: &str, of: &dyn Fn(&Taken) -> f64, unit: &str| {
        Figure::new(format!("{what}, {}, batched", pace.name), of(batched), unit).floor("each is written", of(single))
    };
    let all = |taken: &Taken| {
        let Cpu { programs, contour, envoy, servers } = taken.cpu;
        taken.a_change(programs + contour + envoy + servers)
    };
    vec![
        figure("p50 to Envoy", &|taken| taken.envoy.times().percentile(50.0), "ms"),
        figure("p99 to Envoy", &|taken| taken.envoy.times().percentile(99.0), "ms"),
        figure("CPU of a change, all", &all, "us"),
    ]
}

fn plot(pace: &Pace, ours: &Taken, by_hand: &Taken) -> Plot {
    let lines = [("to Envoy", &ours.envoy), ("to Envoy, by hand", &by_hand.envoy), ("to the API server", &ours.api)];
    Plot {
        name: pace.plot,
        title: format!("Time of a change until Envoy has it, {}", pace.name),
        x: "percent of the changes",
        y: "milliseconds",
        lines: lines.map(|(name, delays)| (name.to_owned(), delays.times().curve())).into(),
    }
}
